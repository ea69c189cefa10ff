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
