// Intersection over union of rotated boxes. Built with -DX=<dtype of the boxes>, float32 or float64.
//
// In the frame of the smaller box the intersection is the integral along the other's four edges of their height, held
// within the smaller box: as much is counted above a lower edge as the upper one takes away. No corner is found, so
// nothing depends on in which order they lie or on whether edges coincide, and every term is of the smaller box's size.
#pragma OPENCL FP_CONTRACT OFF
#include "core/dtype.cl"

typedef storage_t(X) real;
typedef struct { real x, y, w, h, degrees; } rotated_box;

static inline rotated_box load_rotated(const __global real* box)
{
    rotated_box r;
    r.x = box[0];
    r.y = box[1];
    r.w = box[2];
    r.h = box[3];
    r.degrees = box[4];
    return r;
}

static inline real half_turns(real degrees) { return fmod(degrees, (real)360) / 180; }

// Of a line from p to q the part with |x| <= w; of its y, held within [-h, h], the integral over x.
static inline real held_integral(real px, real py, real qx, real qy, real w, real h)
{
    const real x0 = clamp(px, -w, w), x1 = clamp(qx, -w, w);
    if (x0 == x1)
        return 0;
    const real y0 = py + (x0 - px) / (qx - px) * (qy - py), y1 = qy - (qx - x1) / (qx - px) * (qy - py);
    const real low = fmin(y0, y1), high = fmax(y0, y1), rise = high - low;
    // Shares of the part that lie below -h and above h; a level line has no rise and is held as a whole.
    const real below = rise > 0 ? clamp((-h - low) / rise, (real)0, (real)1) : (real)0;
    const real above = rise > 0 ? clamp((high - h) / rise, (real)0, (real)1) : (real)0;
    const real within = (clamp(low, -h, h) + clamp(high, -h, h)) / 2;
    return (x1 - x0) * (h * (above - below) + within * (1 - above - below));
}

static inline real intersection(rotated_box a, rotated_box b)
{
    const real w = fabs(a.w) / 2, h = fabs(a.h) / 2, other_w = fabs(b.w) / 2, other_h = fabs(b.h) / 2;
    const real own = half_turns(a.degrees), turn = half_turns(b.degrees - a.degrees);
    const real dx = b.x - a.x, dy = b.y - a.y;
    const real x = dx * cospi(own) - dy * sinpi(own), y = dx * sinpi(own) + dy * cospi(own);
    const real sine = sinpi(turn), cosine = cospi(turn);
    // Half the other's sides as vectors, the second a quarter turn on from the first.
    const real ux = cosine * other_w, uy = -sine * other_w, vx = sine * other_h, vy = cosine * other_h;
    // Boxes that one of their sides keeps apart have nothing in common; nor has what is no number.
    if (!(fabs(x) < w + fabs(ux) + fabs(vx) && fabs(y) < h + fabs(uy) + fabs(vy) &&
          fabs(x * cosine - y * sine) < other_w + fabs(w * cosine) + fabs(h * sine) &&
          fabs(x * sine + y * cosine) < other_h + fabs(w * sine) + fabs(h * cosine)))
        return 0;
    real area = 0, px = x + ux - vx, py = y + uy - vy;
    for (int corner = 0; corner < 4; ++corner) {
        const real along = corner < 2 ? (real)-1 : (real)1, across = corner == 0 || corner == 3 ? (real)-1 : (real)1;
        const real qx = x + along * ux + across * vx, qy = y + along * uy + across * vy;
        area += held_integral(px, py, qx, qy, w, h);
        px = qx;
        py = qy;
    }
    return fmin(fabs(area), fabs(a.w * a.h));
}

__kernel void rotated_overlaps(const __global real* first, ulong first_offset, const __global real* second,
                               ulong second_offset, __global float* overlaps, ulong overlaps_offset, long count,
                               long columns)
{
    first += first_offset;
    second += second_offset;
    overlaps += overlaps_offset;
    const long id = get_global_id(0);
    if (id >= count)
        return;
    const rotated_box a = load_rotated(first + id / columns * 5), b = load_rotated(second + id % columns * 5);
    const real area_a = a.w * a.h, area_b = b.w * b.h;
    real result = 0;
    if (!(area_a < (real)1e-14 || area_b < (real)1e-14)) {
        const bool swapped = area_b < area_a;
        const real common = intersection(swapped ? b : a, swapped ? a : b);
        result = common / (area_a + area_b - common);
    }
    overlaps[id] = result;
}
