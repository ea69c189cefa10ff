// Elements that lie side by side on both sides, copied by one work-item of a CPU.
typedef uint16 __attribute__((aligned(1))) run_line_t;

static inline void copy_line(__global uchar* to, const __global uchar* from)
{
    *(__global run_line_t*)to = *(const __global run_line_t*)from;
}

static inline void copy_four_lines(__global uchar* to, const __global uchar* from)
{
    const __global run_line_t* read = (const __global run_line_t*)from;
    __global run_line_t* write = (__global run_line_t*)to;
    const uint16 a = read[0], b = read[1], c = read[2], d = read[3];
    write[0] = a;
    write[1] = b;
    write[2] = c;
    write[3] = d;
}

// Bytes, in that direction in which what is read next does not lie, by its place in a page, where something was just
// written: processors that compare no more of addresses wait there.
static inline void copy_bytes_of_run(__global uchar* restrict to, const __global uchar* restrict from, ulong count)
{
    if (count < 64) {
#define COPY_PART(type, bytes)                                                                                        \
        if (count & bytes) {                                                                                          \
            typedef type __attribute__((aligned(1))) part_t;                                                          \
            *(__global part_t*)to = *(const __global part_t*)from;                                                    \
            to += bytes;                                                                                              \
            from += bytes;                                                                                            \
        }
        COPY_PART(uint8, 32)
        COPY_PART(uint4, 16)
        COPY_PART(ulong, 8)
        COPY_PART(uint, 4)
        COPY_PART(ushort, 2)
        COPY_PART(uchar, 1)
#undef COPY_PART
        return;
    }
    // A rest that is no line is part of the last line in that direction, which overlaps the one before it.
    if (((ulong)to - (ulong)from) % 4096 < 2048) {
        ulong left = count;
        for (; left >= 256; left -= 256)
            copy_four_lines(to + left - 256, from + left - 256);
        for (; left >= 64; left -= 64)
            copy_line(to + left - 64, from + left - 64);
        if (left > 0)
            copy_line(to, from);
    } else {
        ulong i = 0;
        for (; i + 256 <= count; i += 256)
            copy_four_lines(to + i, from + i);
        for (; i + 64 <= count; i += 64)
            copy_line(to + i, from + i);
        if (i < count)
            copy_line(to + count - 64, from + count - 64);
    }
}

// Runs of `count` bytes, so far apart on either side. The loops over short ones hold nothing but the copies: of one
// vector, or of two that overlap.
#define FOR_EACH_RUN for (ulong run = 0; run < runs; ++run, to += to_step, from += from_step)
#define SHORT_RUNS(type, bytes)                                                                                       \
    if (count >= bytes && count <= 2 * bytes) {                                                                       \
        typedef type __attribute__((aligned(1))) part_t;                                                              \
        const ulong last = count - bytes;                                                                             \
        if (last == 0) {                                                                                              \
            FOR_EACH_RUN                                                                                              \
                *(__global part_t*)to = *(const __global part_t*)from;                                                \
        } else {                                                                                                      \
            FOR_EACH_RUN {                                                                                            \
                const part_t a = *(const __global part_t*)from, b = *(const __global part_t*)(from + last);           \
                *(__global part_t*)to = a;                                                                            \
                *(__global part_t*)(to + last) = b;                                                                   \
            }                                                                                                         \
        }                                                                                                             \
    } else
static inline void copy_runs(__global uchar* to, ulong to_step, const __global uchar* from, ulong from_step,
                             ulong count, ulong runs)
{
    SHORT_RUNS(uint16, 64)
    SHORT_RUNS(uint8, 32)
    SHORT_RUNS(uint4, 16)
    SHORT_RUNS(ulong, 8)
        FOR_EACH_RUN
            copy_bytes_of_run(to, from, count);
}
#undef SHORT_RUNS
#undef FOR_EACH_RUN

// Of type RUN, where that is defined.
#ifdef RUN
static inline void copy_run(__global RUN* restrict to, const __global RUN* restrict from, ulong count)
{
    copy_bytes_of_run((__global uchar*)to, (const __global uchar*)from, count * sizeof(RUN));
}
#endif
