// Resampling of channels_last tensors on CPUs: a work-item owns COLUMNS places of some lines of y with all channels, 16
// at a time. Launch: (blocks of columns, blocks of lines). Options: those of axes.cl; -DCOLUMNS=n.
#include "kernels/resample/cpu_pixel_block.cl"

__kernel void resample_pixels(const __global storage_t(X)* x, ulong x_offset, __global storage_t(X)* y, ulong y_offset,
                              const __global int* places, ulong places_offset, const __global ACC* weights,
                              ulong weights_offset, resample_t p, uint lines_each)
{
    BEGIN_PIXEL_BLOCK(COLUMNS)
    for (ulong line = get_global_id(1) * (ulong)lines_each; line < end_line; ++line) {
        const ulong image = line / rows;
        const int row = line - image * rows, z0 = DIMS == 3 ? row / p.out[1] : 0, y0 = row - z0 * p.out[1];
        const place_t tz = place_at(&p, places, 0, z0), ty = place_at(&p, places, 1, y0);
        const __global storage_t(X)* from = x + image * ((ulong)p.in[0] * p.in[1] * p.in[2]) * p.channels;
        for (int o = o0; o < o1; ++o) {
            const place_t tx = place_at(&p, places, 2, o);
            const ulong to = (line * p.out[2] + o) * p.channels;
            for (uint c = 0; c < p.channels; c += 16) {
                const uint n = min(p.channels - c, 16u);
                sums_t sum = 0;
                for (int kz = 0; kz < TAPS_OF(tz, 0); ++kz)
                    for (int ky = 0; ky < TAPS_OF(ty, 1); ++ky) {
                        const ulong at = ((ulong)element_of(tz, kz) * p.in[1] + element_of(ty, ky)) * p.in[2];
                        sums_t along = 0;
                        for (int kx = 0; kx < TAPS_OF(tx, 2); ++kx)
                            along += (ACC)WEIGHT(tx, kx) *
                                     load_sums(from, (at + element_of(tx, kx)) * p.channels + c, n);
                        sum += (ACC)(WEIGHT_OF(tz, 0, kz) * WEIGHT_OF(ty, 1, ky)) * along;
                    }
                store_sums(y, to + c, n, sum);
            }
        }
    }
}
