// Where the taps of pixels lie, for weight gradients by matrix instructions, and where their sums belong.

// Places whose tap 0 is not before the beginning of the buffer, so that a pointer and 32 bits are added as they are:
// lead_of's bytes are added to them and taken from pointers.
static inline OFFSET lead_of(const gpu_conv_problem* p)
{
    OFFSET lead = 0;
    UNROLL for (int axis = 0; axis < 3; ++axis)
        lead += 2 * (OFFSET)(max(-p->shift[axis], 0) * p->source_axis[axis]);
    return lead;
}
static inline byte_place find_ahead(const gpu_conv_problem* p, int pixel, ulong origin)
{
    byte_place place = find_bytes(p, pixel, origin);
    place.first += lead_of(p);
    return place;
}

static inline const __global uchar* tap_or_zeros(const __global uchar* tap, const __global uchar* zeros,
                                                 byte_place place, int bits)
{
#if INSIDE
    return tap + place.first;
#else
    return place.outside & bits ? zeros : tap + place.first;
#endif
}

// Where a row of sums belongs in a row of dw, and how many of its tap's channels follow there; none where it is beyond.
typedef struct {
    int first, left;
} row_place;
static inline row_place find_row(const gpu_conv_problem* p, int row, int channels, int in_memory, int run_taps)
{
    const int run = row / p->depth;
    const int in_run = row - run * p->depth;
    const int tap = in_run / in_memory, channel = in_run - tap * in_memory;
    const row_place place = {(run * run_taps + tap) * channels + channel,
                             row < p->total && tap < run_taps ? channels - channel : 0};
    return place;
}

// Where each pixel's taps lie, in group 0: found once for all work-groups. The last pixel is repeated.
__kernel void conv_matrix_places(__global int* places, ulong places_offset, ulong x_offset, gpu_conv_problem p,
                                 int entries)
{
    const int pixel = get_global_id(0);
    if (pixel < entries)
        ((__global byte_place*)(places + places_offset))[pixel] = find_ahead(&p, min(pixel, p.pixels - 1), x_offset);
}

// A kernel's frame: parts[part][group, output][row] for one part of the pixels. Of x's `in_memory` channels of a pixel
// `channels` are its own; p.depth are those of `run_taps` taps, and more that are not written.
#define WEIGHT_OPERANDS                                                                                               \
    const __global stored* restrict x, ulong x_offset, const __global stored* restrict dy, ulong dy_offset,           \
        __global float* parts, ulong parts_offset, const __global int2* restrict table, ulong table_offset,           \
        const __global int* restrict place_table, ulong place_table_offset, gpu_conv_problem p, int channels,         \
        int in_memory, int run_taps
#define BEGIN_WEIGHT_TILE                                                                                             \
    BEGIN_MATRIX_TILE                                                                                                 \
    const int output_blocks = (p.rows + BLOCK_M - 1) / BLOCK_M, row0 = get_group_id(0) * BLOCK_N;                     \
    const int output0 = get_group_id(1) % output_blocks * BLOCK_M, group = get_group_id(1) / output_blocks;           \
    const int part = get_group_id(2), begin = part * p.part_pixels,                                                   \
              end = min(p.part_pixels, p.pixels - begin) + begin;                                                     \
    const int outputs = min(p.rows - output0, BLOCK_M);                                                               \
    x += group * p.source_group;                                                                                      \
    table += table_offset / 2;
#define WRITE_WEIGHT_SUMS                                                                                             \
    const int length = p.total / p.depth * run_taps * channels;                                                       \
    parts += parts_offset + (((long)part * (get_num_groups(1) / output_blocks) + group) * p.rows + output0) * length; \
    EACH_QUAD_OF_SUMS(i, j, v, {                                                                                      \
        const row_place at = find_row(&p, row0 + j, channels, in_memory, run_taps);                                   \
        if (i < outputs && at.left > 0)                                                                               \
            write_sums(v, parts + (long)i * length + at.first, at.left);                                              \
    })
