// Deformable convolution on CPUs with AMX tile registers: the tasks of cpu_fused.cl with the products of gemm/amx.cl.
// Weights and gy are split once per call; columns are gathered and split 32 pixels at a time. Strips and panels of
// words have a header whose first word says that they are unfit.
#define AMX_TYPE float32
#include "kernels/deform_conv/cpu_rows.cl"
#include "kernels/deform_conv/cpu_tasks.cl"
#include "kernels/deform_conv/amx_columns.cl"

#define HEADER 16

static inline long words_of(int depth) { return HEADER + (depth + 31) / 32 * AMX_BLOCK; }

// Packed weights, panels of [depth][32] floats, to words. Task = panel.
TASK void deform_conv_split_panels(const __global float* packed, ulong packed_offset, __global uint* words,
                                   ulong words_offset, int depth)
{
    packed += packed_offset + get_group_id(0) * (long)depth * 32;
    words += words_offset + get_group_id(0) * words_of(depth);
    words[0] = amx_split_global_panel(packed, depth, 32, words + HEADER);
}

// Rows of gy to strips of 32 pixels, k being the outputs of a group. Task = (image, group, strip).
TASK void deform_conv_split_gy(const __global float* gy, ulong gy_offset, __global uint* words, ulong words_offset,
                               const geometry g)
{
    const int pixels = g.out_height * g.out_width, outputs = g.out_channels / g.groups, strips = (pixels + 31) / 32;
    const int p = get_group_id(0) % strips * 32, group = get_group_id(0) / strips % g.groups;
    const long n = get_group_id(0) / strips / g.groups;
    gy += gy_offset + (n * pixels + p) * g.out_channels + group * outputs;
    words += words_offset + get_group_id(0) * words_of(outputs);
    words[0] = amx_split_global_rows(gy, g.out_channels, min(32, pixels - p), outputs, words + HEADER);
}

// The same turned, strips of 32 outputs, k being the pixels of a block: [group][block][strip]. Task = (group, block).
TASK void deform_conv_split_turned_gy(const __global float* gy, ulong gy_offset, __global uint* words,
                                      ulong words_offset, const geometry g)
{
    const long total = (long)g.batch * g.out_height * g.out_width;
    const int blocks = (total + BLOCK - 1) / BLOCK, group = get_group_id(0) / blocks;
    const int outputs = g.out_channels / g.groups, strips = (outputs + 31) / 32;
    const long q0 = get_group_id(0) % blocks * (long)BLOCK;
    gy += gy_offset + q0 * g.out_channels + group * outputs;
    words += words_offset + get_group_id(0) * strips * words_of(BLOCK);
    for (int strip = 0; strip < strips; ++strip, words += words_of(BLOCK)) {
        int unfit = 0;
        for (int side = 0; side < 2; ++side) {
            const int o0 = strip * 32 + side * 16, live = clamp(outputs - o0, 0, 16);
            uint16 most = 0;
            for (int k = 0; k < BLOCK; k += 32) {
                uint pairs[2 * AMX_TILE * AMX_PARTS];   // part by part: 16 pairs of pixels x 16 outputs
                for (int pair = 0; pair < 16; ++pair) {
                    float values[32];
                    for (int e = 0; e < 32; ++e) {
                        const int pixel = k + 2 * pair + e / 16;
                        values[e] = q0 + pixel < total && e % 16 < live
                                        ? gy[(long)pixel * g.out_channels + o0 + e % 16] : 0;
                    }
                    amx_split(vload16(0, values), vload16(1, values), pairs + pair * 16, &most);
                }
                for (int part = 0; part < AMX_PARTS; ++part) {
                    const uint* from = pairs + part * 2 * AMX_TILE;
                    __global uint* to = words + HEADER + k / 32 * AMX_BLOCK + part * 2 * AMX_TILE + side * AMX_TILE;
#define GET_PAIR(name, i) const float16 r##name = as_float16(vload16(i, from));
#define PUT_OUTPUT(name, i) vstore16(as_uint16(u##name), i, to);
                    TRANSPOSE_16(GET_PAIR, PUT_OUTPUT)
                }
            }
            unfit |= amx_unfit_columns(most);
        }
        words[0] = unfit;
    }
}

// c[0..32) += a[k * step] * b[k][32], for what is unfit.
#define DEFINE_ADD_ROW(name, A_SPACE, B_SPACE, C_SPACE)                                                     \
    static inline void name(const A_SPACE float* a, long step, const B_SPACE float* b, int depth, C_SPACE float* c) \
    {                                                                                                       \
        float16 c0 = vload16(0, c), c1 = vload16(1, c);                                                     \
        for (int k = 0; k < depth; ++k) {                                                                   \
            const float16 value = a[k * step];                                                              \
            c0 = fma(value, vload16(2 * k, b), c0);                                                         \
            c1 = fma(value, vload16(2 * k + 1, b), c1);                                                     \
        }                                                                                                   \
        vstore16(c0, 0, c);                                                                                 \
        vstore16(c1, 1, c);                                                                                 \
    }
DEFINE_ADD_ROW(add_column_row, __local, __global, __global)
DEFINE_ADD_ROW(add_gy_row, __global, __global, __private)
DEFINE_ADD_ROW(add_gy_output, __global, __local, __global)

static inline void clear_rows(__global float* c, int ldc, int rows)
{
    for (int r = 0; r < rows; ++r) {
        vstore16((float16)0, 0, c + r * ldc);
        vstore16((float16)0, 1, c + r * ldc);
    }
}

// sums: [task][P][panels * 32 + 16]; P so large that the weights are seldom read anew, which no local memory holds.
// Local memory: columns [RUN] for what is unfit, and two
// strips, one of which is gathered while the other one is multiplied.
TASK void deform_conv_amx_forward(const __global float* x, ulong x_offset, const strides xs,
                                  const __global element* offset, ulong offset_offset, const strides os,
                                  const __global element* mask, ulong mask_offset, const strides ms,
                                  const __global float* packed, ulong packed_offset, const __global uint* words,
                                  ulong words_offset, const __global element* bias, ulong bias_offset, long bias_stride,
                                  __global element* y, ulong y_offset, const strides ys, __global float* sums,
                                  ulong sums_offset, const geometry g, const layout l, __local float* columns,
                                  __local uint* strips)
{
    packed += packed_offset;
    words += words_offset;
    const int pixels = g.out_height * g.out_width, tiles = (pixels + l.tile - 1) / l.tile;
    const int tile = get_group_id(0) % tiles, n = get_group_id(0) / tiles % g.batch,
              group = get_group_id(0) / tiles / g.batch;
    const int p0 = tile * l.tile, count = min(l.tile, pixels - p0);
    const int outputs = g.out_channels / g.groups, panels = (outputs + 31) / 32, taps = g.kernel_h * g.kernel_w;
    const int depth = padded_group(g, l), ldc = panels * 32 + 16;
    sums += sums_offset + get_group_id(0) * (long)l.tile * ldc;
    columns_job job = {.from = {&g, &l, xs, {offset + offset_offset, mask + mask_offset, os, ms},
                                x + x_offset + n * xs.n + (long)group * depth, n, group * depth}};
    AMX_NOTHING_WAITS(waiting)
    sampling_point points[PARTS * 32];
    uint16 most[32];
    job.waiting = waiting;
    job.points = points;
    job.most = most;
    amx_begin();
    begin_columns(&job, 0, p0, min(32, count), 0, min(RUN, depth), strips);
    for (int at = 0, tap = 0, p = 0, k = 0; tap < taps; ++at) {
        gather_columns(&job, RUN);
        const int rows = min(32, count - p), run = min(RUN, depth - k), first = tap == 0 && k == 0;
        const __global uint* B = words + (long)(group * taps + tap) * panels * words_of(depth);
        __global float* C = sums + p * ldc;
        int unfit = unfit_columns(&job);
        for (int panel = 0; panel < panels; ++panel)
            unfit |= B[panel * words_of(depth)];
        if (unfit) {
            amx_settle(&job.waiting);
            for (int panel = 0; first && panel < panels; ++panel)
                clear_rows(C + panel * 32, ldc, rows);
            for (int r = 0; r < rows; ++r) {
                refetch_columns(&job, r, k, run, columns);
                for (int panel = 0; panel < panels; ++panel)
                    add_column_row(columns, 1,
                                   packed + (((long)(group * taps + tap) * panels + panel) * depth + k) * 32, run,
                                   C + r * ldc + panel * 32);
            }
        }
        B += HEADER + k / 32 * AMX_BLOCK;
        k += run;
        if (k == depth) {
            k = 0;
            p += 32;
            if (p >= count) {
                p = 0;
                ++tap;
            }
        }
        begin_columns(&job, tap, p0 + p, tap < taps ? min(32, count - p) : 0, k, min(RUN, depth - k),
                      strips + (at + 1) % 2 * STRIP);
        const int steps = panels * (run / 32) * AMX_STEPS;
        job.share = (job.left + steps - 1) / steps;
        for (int panel = 0; panel < panels && !unfit; ++panel) {
            const amx_product product = {(ulong)(strips + at % 2 * STRIP), (ulong)(B + panel * words_of(depth)),
                                         run / 32, rows, outputs - panel * 32};
            multiply_and_gather(product, &job);
            amx_put(&job.waiting, (ulong)(C + panel * 32), ldc, !first);
        }
    }
    amx_settle(&job.waiting);
    amx_end();
    write_global_outputs(sums, ldc, count, p0, n, group, bias + bias_offset, bias_stride, y + y_offset, ys, g);
}

// As deform_conv_fused_data, with gy as rows and as strips of words.
TASK void deform_conv_amx_data(const __global float* x, ulong x_offset, const strides xs,
                               const __global element* offset, ulong offset_offset, const strides os,
                               const __global element* mask, ulong mask_offset, const strides ms,
                               const __global float* packed, ulong packed_offset, const __global uint* words,
                               ulong words_offset, const __global float* gy, ulong gy_offset,
                               const __global uint* gy_words, ulong gy_words_offset, __global float* gx,
                               ulong gx_offset, const strides gs, long part_size, int parts, __global float* partial,
                               ulong partial_offset, int n0, const geometry g, const layout l)
{
    x += x_offset;
    const sampling from = {offset + offset_offset, mask + mask_offset, os, ms};
    packed += packed_offset;
    words += words_offset;
    gy += gy_offset;
    gy_words += gy_words_offset;
    gx += gx_offset;
    partial += partial_offset;
    const int chunks = l.channels / 32, pixels = g.out_height * g.out_width, taps = g.kernel_h * g.kernel_w;
    const int chunk = get_group_id(0) % chunks, part = get_group_id(0) / chunks % parts;
    const int image = get_group_id(0) / chunks / parts, n = n0 + image;
    const int outputs = g.out_channels / g.groups, group = chunk * 32 / padded_group(g, l);
    const int offset_group = offset_group_of(g, l, chunk * 32), strips = (pixels + 31) / 32;
    const int share = ((pixels + parts - 1) / parts + 31) / 32 * 32;
    const int first = min(part * share, pixels), last = min(first + share, pixels);
    x += n * xs.n + chunk * 32;
    gx += part * part_size + n * gs.n + chunk * 32;
    gy += (long)n * pixels * g.out_channels + group * outputs;
    gy_words += ((long)n * g.groups + group) * strips * words_of(outputs);
    partial += ((long)image * chunks + chunk) * taps * 3 * pixels;
    for (int row = 0; row < g.height; ++row)
        for (int column = 0; column < g.width; ++column) {
            vstore16((float16)0, 0, gx + row * gs.h + column * gs.w);
            vstore16((float16)0, 1, gx + row * gs.h + column * gs.w);
        }
    float block[32 * 32] __attribute__((aligned(64)));
    AMX_NOTHING_WAITS(waiting)
    amx_begin();
    for (int p0 = first; p0 < last; p0 += l.tile)
        for (int tap = 0; tap < taps; ++tap) {
            const __global uint* B = words + ((long)chunk * taps + tap) * words_of(outputs);
            __global float* sums = partial + (long)tap * 3 * pixels;
            for (int p = p0; p < min(p0 + l.tile, last); p += 32) {
                const int rows = min(32, last - p);
                const __global uint* A = gy_words + p / 32 * words_of(outputs);
                if (A[0] || B[0]) {
                    for (int r = 0; r < rows; ++r) {
                        vstore16((float16)0, 2 * r, block);
                        vstore16((float16)0, 2 * r + 1, block);
                        add_gy_row(gy + (long)(p + r) * g.out_channels, 1,
                                   packed + ((long)chunk * taps + tap) * outputs * 32, outputs, block + 32 * r);
                    }
                } else {
                    const amx_product product = {(ulong)(A + HEADER), (ulong)(B + HEADER), (outputs + 31) / 32, rows,
                                                 32};
                    amx_multiply(product, &waiting);
                    amx_store((ulong)block, 32);
                }
                for (int r = 0; r < rows; ++r)
                    scatter_row(g, read_sample(g, from, n, offset_group, tap, p + r), x, xs, gx, gs,
                                vload16(2 * r, block), vload16(2 * r + 1, block), sums + p + r, pixels);
            }
        }
    amx_end();
}

// As deform_conv_fused_weight, with gy as rows and as turned strips of words. A task takes `together` chunks and one of
// `parts` of the pixels, so that gy is seldom read anew;
// partial: [part][tap][chunk][o of the group, padded to 32][32 c]. Chunks that are taken together have one offset
// group. Local memory: columns [BLOCK][32], and the chunks' panels.
TASK void deform_conv_amx_weight(const __global float* x, ulong x_offset, const strides xs,
                                 const __global element* offset, ulong offset_offset, const strides os,
                                 const __global element* mask, ulong mask_offset, const strides ms,
                                 const __global float* gy, ulong gy_offset, const __global uint* gy_words,
                                 ulong gy_words_offset, __global float* partial, ulong partial_offset, int together,
                                 int parts, const geometry g, const layout l, __local float* columns,
                                 __local uint* panels)
{
    x += x_offset;
    const sampling from = {offset + offset_offset, mask + mask_offset, os, ms};
    const int chunks = l.channels / 32, chunk = get_group_id(0) % (chunks / together) * together;
    const int taps = g.kernel_h * g.kernel_w, tap = get_group_id(0) / (chunks / together) % taps;
    const int part = get_group_id(0) / (chunks / together) / taps;
    const int pixels = g.out_height * g.out_width, outputs = g.out_channels / g.groups, strips = (outputs + 31) / 32;
    const int group = chunk * 32 / padded_group(g, l), offset_group = offset_group_of(g, l, chunk * 32);
    const long total = (long)g.batch * pixels;
    const int blocks = (total + BLOCK - 1) / BLOCK, share = (blocks + parts - 1) / parts;
    const int first = min(part * share, blocks), last = min(first + share, blocks);
    x += chunk * 32;
    partial += partial_offset + (((long)part * taps + tap) * chunks + chunk) * strips * 32 * 32;
    gy += gy_offset + group * outputs;
    gy_words += gy_words_offset + (long)group * blocks * strips * words_of(BLOCK);
    for (long i = 0; first == last && i < (long)together * strips * 32 * 2; ++i)
        vstore16((float16)0, i, partial);
    AMX_NOTHING_WAITS(waiting)
    amx_begin();
    for (int block = first; block < last; ++block) {
        const long q0 = (long)block * BLOCK;
        const int count = min((long)BLOCK, total - q0);
        sample samples[BLOCK];
        for (int k = 0; k < count; ++k)
            samples[k] = read_sample(g, from, (q0 + k) / pixels, offset_group, tap, (q0 + k) % pixels);
        for (int c = 0; c < together; ++c) {
            for (int k = 0; k < count; ++k)
                gather_row(g, xs, x + (q0 + k) / pixels * xs.n + c * 32, samples[k], 2, columns + 32 * k);
            __local uint* panel = panels + c * words_of(BLOCK);
            panel[0] = amx_split_panel(columns, count, 32, panel + HEADER);
        }
        for (int strip = 0; strip < strips; ++strip) {
            const __global uint* A = gy_words + ((long)block * strips + strip) * words_of(BLOCK);
            for (int c = 0; c < together; ++c) {
                const __local uint* panel = panels + c * words_of(BLOCK);
                __global float* C = partial + (c * strips + strip) * 32 * 32;
                if (panel[0] || A[0]) {
                    amx_settle(&waiting);
                    for (int k = 0; k < count; ++k)
                        gather_row(g, xs, x + (q0 + k) / pixels * xs.n + c * 32, samples[k], 2, columns + 32 * k);
                    for (int o = 0; o < min(32, outputs - strip * 32); ++o) {
                        if (block == first) {
                            vstore16((float16)0, 0, C + o * 32);
                            vstore16((float16)0, 1, C + o * 32);
                        }
                        add_gy_output(gy + q0 * g.out_channels + strip * 32 + o, g.out_channels, columns, count,
                                      C + o * 32);
                    }
                    continue;
                }
                const amx_product product = {(ulong)(A + HEADER), (ulong)(panel + HEADER), (count + 31) / 32,
                                             outputs - strip * 32, 32};
                amx_multiply(product, &waiting);
                amx_put(&waiting, (ulong)C, 32, block > first);
            }
        }
    }
    amx_settle(&waiting);
    amx_end();
}
