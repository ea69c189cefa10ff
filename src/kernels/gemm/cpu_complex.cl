// The second operand of a complex product as a real matrix of twice as many rows and columns, for CPU devices: a number
// becomes |  re im |, so that rows of A, read as twice as many real numbers, times it are rows of C, read likewise.
//         | -im re |
// A work-item writes two lines for each of `each` lines of B: rows of the result for rows of B, or columns for columns
// (-DCOLUMNS). -DREAL: float or double.
#include "core/dtype.cl"

#define VECTOR CLPRIM_CAT(REAL, 8)

// Of four numbers, what goes to the first line and to the second.
#ifdef COLUMNS
#define FIRST(v) (VECTOR)(v.s0, -v.s1, v.s2, -v.s3, v.s4, -v.s5, v.s6, -v.s7)
#define SECOND(v) v.s10325476
#else
#define FIRST(v) (v)
#define SECOND(v) (VECTOR)(-v.s1, v.s0, -v.s3, v.s2, -v.s5, v.s4, -v.s7, v.s6)
#endif

// Strides are counted in parts: from line to line of B, along a line, from matrix to matrix.
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void widen(const __global REAL* b, ulong b_offset, __global REAL* wide, ulong wide_offset, long lines,
                    long length, long line_step, long step, long batch_step, long each)
{
    const long begin = (long)get_group_id(0) * each, end = min(begin + each, lines), batch = get_group_id(1);
    b += b_offset + batch * batch_step;
    wide += wide_offset + batch * lines * length * 4;
    for (long line = begin; line < end; ++line) {
        const __global REAL* from = b + line * line_step;
        __global REAL* first = wide + line * length * 4;
        __global REAL* second = first + length * 2;
        long i = 0;
        if (step == 2)
            for (; i + 4 <= length; i += 4) {
                const VECTOR v = vload8(0, from + 2 * i);
                vstore8(FIRST(v), 0, first + 2 * i);
                vstore8(SECOND(v), 0, second + 2 * i);
            }
        for (; i < length; ++i) {
            const REAL re = from[i * step], im = from[i * step + 1];
#ifdef COLUMNS
            first[2 * i] = re, first[2 * i + 1] = -im;
            second[2 * i] = im, second[2 * i + 1] = re;
#else
            first[2 * i] = re, first[2 * i + 1] = im;
            second[2 * i] = -im, second[2 * i + 1] = re;
#endif
        }
    }
}
