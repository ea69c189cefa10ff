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

// Runs of COUNT bytes; TO and FROM say where number `run` lies. The loops over short ones hold nothing but the copies:
// of one vector, or of two or four that overlap.
#define FOR_EACH_RUN(RUNS) for (ulong run = 0; run < (RUNS); ++run)
#define SHORT_RUNS(type, bytes, TO, FROM, COUNT, RUNS)                                                                 \
    if ((COUNT) >= bytes && (COUNT) <= 2 * bytes) {                                                                   \
        typedef type __attribute__((aligned(1))) part_t;                                                              \
        const ulong last = (COUNT) - bytes;                                                                           \
        if (last == 0) {                                                                                              \
            FOR_EACH_RUN(RUNS)                                                                                        \
                *(__global part_t*)(TO) = *(const __global part_t*)(FROM);                                            \
        } else {                                                                                                      \
            FOR_EACH_RUN(RUNS) {                                                                                      \
                const __global uchar* part = (FROM);                                                                  \
                __global uchar* place = (TO);                                                                         \
                const part_t a = *(const __global part_t*)part, b = *(const __global part_t*)(part + last);           \
                *(__global part_t*)place = a;                                                                         \
                *(__global part_t*)(place + last) = b;                                                                \
            }                                                                                                         \
        }                                                                                                             \
    } else
#define COPY_RUNS(TO, FROM, COUNT, RUNS)                                                                               \
    SHORT_RUNS(uint16, 64, TO, FROM, COUNT, RUNS)                                                                      \
    SHORT_RUNS(uint8, 32, TO, FROM, COUNT, RUNS)                                                                       \
    SHORT_RUNS(uint4, 16, TO, FROM, COUNT, RUNS)                                                                       \
    SHORT_RUNS(ulong, 8, TO, FROM, COUNT, RUNS)                                                                        \
    if ((COUNT) > 128 && (COUNT) <= 256) {                                                                            \
        FOR_EACH_RUN(RUNS)                                                                                            \
            copy_four_overlapping_lines((TO), (FROM), (COUNT));                                                       \
    } else {                                                                                                          \
        FOR_EACH_RUN(RUNS)                                                                                            \
            copy_bytes_of_run((TO), (FROM), (COUNT));                                                                 \
    }

// 128 to 256 bytes.
static inline void copy_four_overlapping_lines(__global uchar* to, const __global uchar* from, ulong count)
{
    const uint16 a = *(const __global run_line_t*)from, b = *(const __global run_line_t*)(from + 64);
    const uint16 c = *(const __global run_line_t*)(from + count - 128);
    const uint16 d = *(const __global run_line_t*)(from + count - 64);
    *(__global run_line_t*)to = a;
    *(__global run_line_t*)(to + 64) = b;
    *(__global run_line_t*)(to + count - 128) = c;
    *(__global run_line_t*)(to + count - 64) = d;
}

// Runs so far apart on either side.
static inline void copy_runs(__global uchar* to, ulong to_step, const __global uchar* from, ulong from_step,
                             ulong count, ulong runs)
{
    COPY_RUNS(to + run * to_step, from + run * from_step, count, runs)
}

// Of type RUN, where that is defined.
#ifdef RUN
static inline void copy_run(__global RUN* restrict to, const __global RUN* restrict from, ulong count)
{
    copy_bytes_of_run((__global uchar*)to, (const __global uchar*)from, count * sizeof(RUN));
}
#endif
