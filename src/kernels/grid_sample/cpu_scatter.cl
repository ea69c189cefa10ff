// The gradient of grid_sample's input of two axes on CPUs: a work-item owns `share` planes of an image, whose sums grow
// in place. Taps of 16 points are found once for all of them; points are added in their order, whatever the share is.
// Launch: (shares, images). Options: cpu_taps.cl.
#include "kernels/grid_sample/cpu_taps.cl"

#define ALL (TAPS * TAPS)

// Places of the taps in a plane, -1 outside, and their weights.
typedef struct {
    int at[ALL][16];
    ACC weight[ALL][16];
} places_t;

static inline void find_places(places_t* places, acc_t at_x, acc_t at_y, const sample_t* p)
{
    const taps_t tx = taps_at(at_x, p->in[2], p->align_corners, true);
    const taps_t ty = taps_at(at_y, p->in[1], p->align_corners, true);
    for (int ky = 0; ky < TAPS; ++ky)
        for (int kx = 0; kx < TAPS; ++kx) {
            const index_t x = tx.index[kx], y = ty.index[ky];
            const index_t at = (x | y) < 0 ? (index_t)-1 : y * (index_t)p->in[2] + x;
            vstore16(convert_int16(at), 0, places->at[ky * TAPS + kx]);
            vstore16(ty.weight[ky] * tx.weight[kx], 0, places->weight[ky * TAPS + kx]);
        }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void grid_sample_scatter(const __global storage_t(X)* dy, ulong dy_offset, const __global storage_t(X)* grid,
                         ulong grid_offset, __global ACC* sums, ulong sums_offset, sample_t p, uint share)
{
    const uint points = p.out[1] * p.out[2], volume = p.in[1] * p.in[2];
    const ulong n = get_group_id(1);
    const uint first = get_group_id(0) * share, planes = min(p.channels - first, share);
    dy += dy_offset + (n * p.channels + first) * points;
    grid += grid_offset + n * points * 2;
    sums += sums_offset + (n * p.channels + first) * volume;
    for (ulong i = 0; i < (ulong)planes * volume; ++i)
        sums[i] = 0;
    for (uint point = 0; point < points; point += 16) {
        const uint lanes = min(points - point, 16u);
        const __global storage_t(X)* from = grid + 2 * (ulong)point;
        places_t places;
        find_places(&places, coordinates(from, 0, lanes), coordinates(from, 1, lanes), &p);
        for (uint c = 0; c < planes; ++c) {
            __global ACC* plane = sums + c * (ulong)volume;
            ACC g[16];
            vstore16(load_part(X, dy, c * (ulong)points + point, lanes, 0), 0, g);
            for (uint i = 0; i < lanes; ++i)
                #pragma unroll
                for (int k = 0; k < ALL; ++k) {
                    const int at = places.at[k][i];
                    if (at >= 0)
                        plane[at] += places.weight[k][i] * g[i];
                }
        }
    }
}
