// Depthwise convolution of channels_last tensors on a CPU device: a work-item owns one row of positions; vectors run
// over channels. A part of cpu_depthwise.cl.
// Weights of channels_last kernels: packed[tap][channel] in reals.
__kernel void conv_depthwise_pack(const __global stored* w, ulong w_offset, __global real* packed, ulong packed_offset,
                                  depthwise_problem p)
{
    const long i = get_global_id(0), channel = i % p.groups;
    const int t = i / p.groups;
    if (t >= p.taps[0] * p.taps[1])
        return;
    packed[packed_offset + i] = tap_weight(w + w_offset + channel * p.w_strides[0], &p, t);
}

// Taps of a row of positions whose rows of the source are inside: elements of the source relative to the position's
// first tap, and places of the weights.
typedef struct {
    int count;
    long from[MAX_TAPS];
    int weight[MAX_TAPS];
} row_taps;

// One position near a border: `column` is that of its first tap.
static inline void one_position(__global stored* result, const __global stored* source, const __global real* weights,
                                const __global stored* bias, const row_taps* taps, int column,
                                const depthwise_problem* p)
{
    const int channels = p->groups, taps_x = p->taps[1];
    long from[MAX_TAPS];
    int weight[MAX_TAPS], count = 0;
    for (int i = 0; i < taps->count; ++i) {
        const int x = column + i % taps_x * (int)p->step[1];
        if (x < 0 || x >= p->in[1])
            continue;
        from[count] = taps->from[i];
        weight[count++] = taps->weight[i];
    }
    for (int done = 0; done < channels; done += 2 * LANES) {
        const int two = done + LANES < channels;
        const int c0 = min(done, channels - LANES), c1 = two ? min(done + LANES, channels - LANES) : c0;
        vec a0 = p->finish.has_bias ? load_lanes(bias + c0) : (vec)0,
            a1 = p->finish.has_bias ? load_lanes(bias + c1) : (vec)0;
        for (int i = 0; i < count; ++i) {
            a0 = fma(get_vec(0, weights + weight[i] + c0), load_lanes(source + from[i] + c0), a0);
            a1 = fma(get_vec(0, weights + weight[i] + c1), load_lanes(source + from[i] + c1), a1);
        }
        store_lanes(result + c0, activate_lanes(a0, &p->finish));
        store_lanes(result + c1, activate_lanes(a1, &p->finish));
    }
}

// How four positions walk their columns: those of rows that are added at once, else positions.
#define MAX_COLUMNS 13
#define ROWS_3_1 1
#define ROWS_3_2 2
#define ROWS_5_1 3
#define ROWS_5_2 4
#define ROWS_7_1 5
#define ROWS_7_2 6
typedef struct {
    int kind, inside;            // one of ROWS, or 0; whether all columns are inside of the source
    int columns[MAX_COLUMNS];    // which are, else
    long next;                   // elements from one to the next
} columns_of;

// Adds a row of TAPS taps to four positions that lie REACH columns apart: a column is read once for all that it is a
// tap of. Columns outside of the source count as zeros.
#define DEFINE_ADD_ROW(TAPS, REACH)                                                                                 \
    static inline void add_row_##TAPS##_##REACH(vec* sums, const __global real* weights, int channels,               \
                                                const __global stored* from, const columns_of* at)                  \
    {                                                                                                               \
        const long next = at->next;                                                                                 \
        vec w[TAPS];                                                                                                \
        UNROLLED for (int tap = 0; tap < TAPS; ++tap) w[tap] = get_vec(0, weights + tap * channels);                \
        if (at->inside) {                                                                                           \
            UNROLLED for (int i = 0; i < 3 * REACH + TAPS; ++i)                                                     \
            {                                                                                                       \
                const vec column = load_lanes(from + i * next);                                                     \
                ADD_COLUMN(TAPS, REACH)                                                                             \
            }                                                                                                       \
            return;                                                                                                 \
        }                                                                                                           \
        UNROLLED for (int i = 0; i < 3 * REACH + TAPS; ++i)                                                         \
        {                                                                                                           \
            const vec column = at->columns[i] ? load_lanes(from + i * next) : (vec)0;                               \
            ADD_COLUMN(TAPS, REACH)                                                                                 \
        }                                                                                                           \
    }
#define ADD_COLUMN(TAPS, REACH)                                                                                     \
    UNROLLED for (int k = 0; k < 4; ++k) if (i >= k * REACH && i - k * REACH < TAPS) sums[k] =                      \
        fma(w[i - k * REACH], column, sums[k]);
#define UNROLLED __attribute__((opencl_unroll_hint(16)))
DEFINE_ADD_ROW(3, 1)
DEFINE_ADD_ROW(3, 2)
DEFINE_ADD_ROW(5, 1)
DEFINE_ADD_ROW(5, 2)
DEFINE_ADD_ROW(7, 1)
DEFINE_ADD_ROW(7, 2)

// Four positions: a weight is read once for them.
static inline void four_positions(__global stored* result, const __global stored* source, const __global real* weights,
                                  const __global stored* bias, const row_taps* taps, const columns_of* at,
                                  const depthwise_problem* p)
{
    const int channels = p->groups, count = taps->count, taps_x = p->taps[1], kind = at->kind;
    const long next = at->next, next_result = p->result_strides[3];
    const int activation = p->finish.activation, relu = activation == ACTIVATION_RELU;
    const int bounded = relu || activation == ACTIVATION_CLIP || activation == ACTIVATION_NONE;
    const vec least = relu ? 0 : activation == ACTIVATION_CLIP ? (real)p->finish.alpha : -(real)INFINITY,
              most = activation == ACTIVATION_CLIP ? (real)p->finish.beta : (real)INFINITY;
    for (int done = 0; done < channels; done += LANES) {
        const int c = min(done, channels - LANES);
        vec a[4];
        a[0] = a[1] = a[2] = a[3] = p->finish.has_bias ? load_lanes(bias + c) : (vec)0;
        if (kind) {
            for (int i = 0; i < count; i += taps_x) {
                const __global real* w = weights + taps->weight[i] + c;
                const __global stored* from = source + taps->from[i] + c;
                if (kind == ROWS_3_1)
                    add_row_3_1(a, w, channels, from, at);
                else if (kind == ROWS_3_2)
                    add_row_3_2(a, w, channels, from, at);
                else if (kind == ROWS_5_1)
                    add_row_5_1(a, w, channels, from, at);
                else if (kind == ROWS_5_2)
                    add_row_5_2(a, w, channels, from, at);
                else if (kind == ROWS_7_1)
                    add_row_7_1(a, w, channels, from, at);
                else
                    add_row_7_2(a, w, channels, from, at);
            }
        } else {
            for (int i = 0; i < count; ++i) {
                const vec w = get_vec(0, weights + taps->weight[i] + c);
                const __global stored* from = source + taps->from[i] + c;
                a[0] = fma(w, load_lanes(from), a[0]);
                a[1] = fma(w, load_lanes(from + next), a[1]);
                a[2] = fma(w, load_lanes(from + 2 * next), a[2]);
                a[3] = fma(w, load_lanes(from + 3 * next), a[3]);
            }
        }
        __global stored* to = result + c;
        if (bounded) {
            store_lanes(to, BOUNDED(a[0], least, most));
            store_lanes(to + next_result, BOUNDED(a[1], least, most));
            store_lanes(to + 2 * next_result, BOUNDED(a[2], least, most));
            store_lanes(to + 3 * next_result, BOUNDED(a[3], least, most));
            continue;
        }
        store_lanes(to, activate_lanes(a[0], &p->finish));
        store_lanes(to + next_result, activate_lanes(a[1], &p->finish));
        store_lanes(to + 2 * next_result, activate_lanes(a[2], &p->finish));
        store_lanes(to + 3 * next_result, activate_lanes(a[3], &p->finish));
    }
}

// channels_last, at least LANES channels: the last vector overlaps the one before it.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_depthwise_channels(const __global stored* source, ulong source_offset, const __global real* weights,
                             ulong weights_offset, const __global stored* bias, ulong bias_offset,
                             __global stored* result, ulong result_offset, depthwise_problem p)
{
    const int height = p.out[0], width = p.out[1], taps_x = p.taps[1], scale = p.scale[1];
    const int y = get_group_id(0) % height;
    const long n = get_group_id(0) / height;
    source += source_offset + n * p.source_strides[0];
    weights += weights_offset;
    bias += p.finish.has_bias ? bias_offset : 0;
    result += result_offset + n * p.result_strides[0] + y * p.result_strides[2];
    row_taps taps;
    taps.count = 0;
    for (int ty = 0; ty < p.taps[0]; ++ty) {
        const int iy = y * (int)p.scale[0] + (int)p.shift[0] + ty * (int)p.step[0];
        if (iy < 0 || iy >= p.in[0])
            continue;
        for (int tx = 0; tx < taps_x; ++tx) {
            taps.from[taps.count] = iy * p.source_strides[2] + tx * p.step[1] * p.source_strides[3];
            taps.weight[taps.count++] = (ty * taps_x + tx) * (int)p.groups;
        }
    }
    columns_of columns;
    const int step = p.step[1], pace = step == scale ? 1 : step == 1 && scale == 2 ? 2 : 0;
    columns.kind = taps_x == 3 && pace ? (pace == 1 ? ROWS_3_1 : ROWS_3_2)
                   : taps_x == 5 && pace ? (pace == 1 ? ROWS_5_1 : ROWS_5_2)
                   : taps_x == 7 && pace ? (pace == 1 ? ROWS_7_1 : ROWS_7_2)
                                         : 0;
    columns.next = (columns.kind ? step : scale) * p.source_strides[3];
    const int reach = (taps_x - 1) * step, low = min(0, reach), high = max(0, reach);
    for (int x = 0; x < width;) {
        if (columns.kind && width >= 4)
            x = min(x, width - 4);          // the last four overlap those before them
        const int column = x * scale + (int)p.shift[1];
        const __global stored* from = source + column * p.source_strides[3];
        __global stored* to = result + x * p.result_strides[3];
        columns.inside = column + low >= 0 && column + 3 * scale + high < p.in[1];
        if (x + 4 <= width && (columns.inside || columns.kind)) {
            for (int i = 0; i < MAX_COLUMNS && !columns.inside; ++i)
                columns.columns[i] = column + i * step >= 0 && column + i * step < p.in[1];
            four_positions(to, from, weights, bias, &taps, &columns, &p);
            x += 4;
        } else {
            one_position(to, from, weights, bias, &taps, column, &p);
            ++x;
        }
    }
}

// Weight gradient, channels_last: a work-item owns LANES channels of one share of the rows of all images;
// parts[part][tap][channel], added in order by conv_depthwise_add.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_depthwise_channels_weight(const __global stored* x, ulong x_offset, const __global stored* dy,
                                    ulong dy_offset, __global real* sums, ulong sums_offset, depthwise_problem p)
{
    const int height = p.out[0], width = p.out[1], channels = p.groups, taps = p.taps[0] * p.taps[1];
    const int blocks = (channels + LANES - 1) / LANES;
    const int c = min((int)(get_group_id(0) % blocks) * LANES, channels - LANES);
    const long part = get_group_id(0) / blocks, rows = p.batch * height;
    vec totals[MAX_TAPS];
    for (int t = 0; t < taps; ++t)
        totals[t] = 0;
    x += x_offset + c;
    dy += dy_offset + c;
    for (long row = rows * part / p.parts; row < rows * (part + 1) / p.parts; ++row) {
        const int y = row % height;
        const __global stored* grad = dy + row / height * p.result_strides[0] + y * p.result_strides[2];
        for (int t = 0; t < taps; ++t) {
            const int iy = y * (int)p.scale[0] + (int)p.shift[0] + t / (int)p.taps[1] * (int)p.step[0];
            if (iy < 0 || iy >= p.in[0])
                continue;
            const int shift = (int)p.shift[1] + t % (int)p.taps[1] * (int)p.step[1], scale = p.scale[1];
            const int begin = shift < 0 ? (-shift + scale - 1) / scale : 0;
            const int end = shift < p.in[1] ? min(((int)p.in[1] - 1 - shift) / scale + 1, width) : 0;
            const __global stored* from = x + row / height * p.source_strides[0] + iy * p.source_strides[2] +
                                          ((long)begin * scale + shift) * p.source_strides[3];
            vec sum = 0;
            for (int i = begin; i < end; ++i, from += scale * p.source_strides[3])
                sum = fma(load_lanes(grad + i * p.result_strides[3]), load_lanes(from), sum);
            totals[t] += sum;
        }
    }
    sums += sums_offset + part * taps * channels + c;
    for (int t = 0; t < taps; ++t)
        put_vec(totals[t], 0, sums + (long)t * channels);
}

__kernel void conv_depthwise_add(const __global real* sums, ulong sums_offset, __global stored* dw, ulong dw_offset,
                                 depthwise_problem p)
{
    const long i = get_global_id(0), size = p.taps[0] * p.taps[1] * p.groups;
    if (i >= size)
        return;
    real sum = 0;
    for (long part = 0; part < p.parts; ++part)
        sum += sums[sums_offset + part * size + i];
    const long t = i / p.groups;
    store(T, dw, dw_offset + i % p.groups * p.w_strides[0] + t / p.taps[1] * p.w_strides[2] +
                     t % p.taps[1] * p.w_strides[3], sum);
}
