// Every element of rows [count, height, width] repeated FX times in x and FY times in y. A work-item owns CHUNK elements
// of a row: (chunk, row, image). -DT: a type of the elements' size; -DCHUNK=16 writes vectors, on CPUs.
__kernel void resample_repeat(const __global T* x, ulong x_offset, __global T* y, ulong y_offset, uint width)
{
    const uint begin = get_global_id(0) * CHUNK, row = get_global_id(1);
    const ulong line = get_global_id(2) * get_global_size(1) + row;
    if (begin >= width)
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
    for (uint i = 0; i < min((uint)CHUNK, width - begin); ++i) {
        const T v = x[i];
        for (int r = 0; r < FY; ++r)
            for (int c = 0; c < FX; ++c)
                y[r * step + i * FX + c] = v;
    }
}
