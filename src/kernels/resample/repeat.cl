// Every element of rows [count, height, width] repeated FX times in x and FY times in y. A work-item owns CHUNK elements
// of a row: (chunk, row, image), on GPUs in work-groups of one image. -DT: a type of the elements' size; -DCHUNK=16
// writes vectors, on CPUs; -DTOGETHER: a vector of FX elements, where they lie at multiples of that.
#ifdef CLPRIM_DEVICE_CPU
#define IMAGE get_global_id(2)
#else
#define IMAGE get_group_id(2)
#endif

__kernel void resample_repeat(const __global T* x, ulong x_offset, __global T* y, ulong y_offset, uint width,
                              uint height)
{
    const uint begin = get_global_id(0) * CHUNK, row = get_global_id(1);
    const ulong line = (ulong)IMAGE * height + row;
    if (begin >= width || row >= height)
        return;
    x += x_offset + line * width + begin;
    y += y_offset + (line * width * FY + begin) * FX;
    const ulong step = (ulong)width * FX;
#if CHUNK == 16 && FX == 2
    if (begin + CHUNK <= width) {
        const VECTOR v = vload16(0, x);
        for (int r = 0; r < FY; ++r) {
            vstore16(v.s0011223344556677, 0, y + r * step);
            vstore16(v.s8899aabbccddeeff, 1, y + r * step);
        }
        return;
    }
#endif
#ifdef TOGETHER
    const TOGETHER all = (TOGETHER)(*x);
    for (int r = 0; r < FY; ++r)
        *(__global TOGETHER*)(y + r * step) = all;
#else
    for (uint i = 0; i < min((uint)CHUNK, width - begin); ++i) {
        const T v = x[i];
        for (int r = 0; r < FY; ++r)
            for (int c = 0; c < FX; ++c)
                y[r * step + i * FX + c] = v;
    }
#endif
}
