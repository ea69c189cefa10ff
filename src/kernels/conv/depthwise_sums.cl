// What weight gradients of depthwise convolutions share. Behind lanes.cl and depthwise_problem.cl.

static inline real lane_sum(vec v)
{
    real lanes[LANES];
    put_vec(v, 0, lanes);
    for (int step = LANES / 2; step > 0; step /= 2)
        for (int i = 0; i < step; ++i)
            lanes[i] += lanes[i + step];
    return lanes[0];
}

// The sum of one tap, position by position, row by row.
static inline real tap_total(const __global stored* x, const __global stored* dy, const depthwise_problem* p,
                             long channel, int ty, int tx)
{
    const long group = channel / p->rows;
    real total = 0;
    for (long n = 0; n < p->batch; ++n)
        for (int row = 0; row < p->out[0]; ++row) {
            const int y = row * (int)p->scale[0] + (int)p->shift[0] + ty * (int)p->step[0];
            real sum = 0;
            for (int column = 0; column < p->out[1]; ++column) {
                const int at = column * (int)p->scale[1] + (int)p->shift[1] + tx * (int)p->step[1];
                if (y >= 0 && y < p->in[0] && at >= 0 && at < p->in[1])
                    sum += load(T, x, n * p->source_strides[0] + group * p->source_strides[1] +
                                            y * p->source_strides[2] + at * p->source_strides[3]) *
                             load(T, dy, n * p->result_strides[0] + channel * p->result_strides[1] +
                                             row * p->result_strides[2] + column * p->result_strides[3]);
            }
            total += sum;
        }
    return total;
}
