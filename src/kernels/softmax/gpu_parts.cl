// Few long rows of softmax.cl on GPUs: group (part, row) has `part` elements of a row. What it finds of them goes to
// partial[row][parts] (of maxima, and behind all rows of sums), which a second launch puts together in every group.
#define EACH_OF_PART _Pragma("unroll 4") for (uint i = begin + team_rank() * VEC; i < end; i += TEAM * VEC)
#define LOCATE_PART                                                                                                   \
    TEAM_SCRATCH(acc_t, scratch);                                                                                     \
    const uint begin = get_group_id(0) * part, end = min(begin + part, n), parts = get_num_groups(0);                 \
    const ulong row = get_group_id(1), place = row * parts, sums = get_num_groups(1) * (ulong)parts;

__kernel __attribute__((reqd_work_group_size(TEAM, 1, 1)))
void forward_parts(const __global storage_t(X)* x, ulong x_offset, __global acc_t* partial, ulong partial_offset,
                   uint n, uint part)
{
    LOCATE_PART
    x += x_offset + row * n;
    vec_t largest = -INFINITY, sum = 0;
    EACH_OF_PART
        largest = fmax(largest, load_vector(X, x, i));
    const acc_t m = team_max(lane_max(largest), scratch), shift = m == -INFINITY ? 0 : m;   // others may be larger
    EACH_OF_PART
        sum += exp_negative(load_vector(X, x, i) - shift);
    const acc_t total = team_sum(lane_sum(sum), scratch);
    if (team_rank() == 0) {
        partial[partial_offset + place + get_group_id(0)] = m;
        partial[partial_offset + sums + place + get_group_id(0)] = total;
    }
}

__kernel __attribute__((reqd_work_group_size(TEAM, 1, 1)))
void forward_rest(const __global storage_t(X)* x, ulong x_offset, __global storage_t(Y)* y, ulong y_offset,
                  const __global acc_t* partial, ulong partial_offset, uint n, uint part)
{
    LOCATE_PART
    x += x_offset + row * n;
    y += y_offset + row * n;
    partial += partial_offset + place;
    acc_t m = -INFINITY, sum = 0;
    for (uint k = team_rank(); k < parts; k += TEAM)
        m = fmax(m, partial[k]);
    m = team_max(m, scratch);
    for (uint k = team_rank(); k < parts; k += TEAM)
        sum += partial[sums + k] * exp(partial[k] - m);
    const vec_t s = sum_to_scale((vec_t)(team_sum(sum, scratch)));
    EACH_OF_PART
        store_vector(Y, y, i, forward_value(load_vector(X, x, i), m, s));
}

__kernel __attribute__((reqd_work_group_size(TEAM, 1, 1)))
void backward_parts(const __global storage_t(Y)* dy, ulong dy_offset, const __global storage_t(Y)* y, ulong y_offset,
                    __global acc_t* partial, ulong partial_offset, uint n, uint part)
{
    LOCATE_PART
    dy += dy_offset + row * n;
    y += y_offset + row * n;
    vec_t sum = 0;
    EACH_OF_PART
        sum += backward_term(load_vector(Y, dy, i), load_vector(Y, y, i));
    const acc_t total = team_sum(lane_sum(sum), scratch);
    if (team_rank() == 0)
        partial[partial_offset + sums + place + get_group_id(0)] = total;
}

__kernel __attribute__((reqd_work_group_size(TEAM, 1, 1)))
void backward_rest(const __global storage_t(Y)* dy, ulong dy_offset, const __global storage_t(Y)* y, ulong y_offset,
                   __global storage_t(X)* dx, ulong dx_offset, const __global acc_t* partial, ulong partial_offset,
                   uint n, uint part)
{
    LOCATE_PART
    dy += dy_offset + row * n;
    y += y_offset + row * n;
    dx += dx_offset + row * n;
    acc_t sum = 0;
    for (uint k = team_rank(); k < parts; k += TEAM)
        sum += partial[partial_offset + sums + place + k];
    const vec_t total = team_sum(sum, scratch);
    EACH_OF_PART
        store_vector(X, dx, i, backward_value(load_vector(Y, dy, i), load_vector(Y, y, i), total));
}
