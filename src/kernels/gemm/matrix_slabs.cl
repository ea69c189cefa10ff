// How slabs of A and B come from global memory into registers and from there into local memory (matrix_tiles.cl):
//
//     first_line, first_depth         where the first group lies that a work-item brings, LINES_ON, DEPTH_ON the others
//     FETCH_SLAB(values, count, matrix, far, s, line, k, depth)   the groups of a slab, `far` bytes on in the matrix
//     PLACE_SLAB(which, slab, values, count, along_k, lines)      stores them, `which` being a or b
// With -DFOUND_SLABS=1 work-items bring four k of eight lines where their share of a slab is so, and with POINTERS_MOVE
// there are
//     FIND_SLAB(which, count, s)             how far the groups lie from where a slab begins, once
//     FETCH_FOUND(which, count, s, depth)    the same as FETCH_SLAB into a_next or b_next, and moves a or b on
// Where the first group of eight neighbours lies that a work-item brings, and how much further the others. Along k four
// groups make a line. Along lines they come in runs, at k and k + 1 and maybe the next two; where words of pairs are
// stored, work-items next to each other bring different k, since words of different lines meet in one bank.
#ifndef FOUND_SLABS
#define FOUND_SLABS 0
#endif
#if FOUND_SLABS
#define RUN_OF_K(lines) ((lines) * SLAB_K / 8 / ITEMS % 4 == 0 ? 4 : 2)
#else
#define RUN_OF_K(lines) 2
#endif
static inline int first_line(uint item, int along_k, int lines)
{
    if (along_k)
        return item / (SLAB_K / 8);
#ifdef TRANSPOSING_LOADS
    return item % (lines / 8) * 8;
#else
    return (item / (4 * SLAB_K / RUN_OF_K(lines)) * 4 + item % 4) * 8;
#endif
}
static inline int first_depth(uint item, int along_k, int lines)
{
    if (along_k)
        return item % (SLAB_K / 8) * 8;
#ifdef TRANSPOSING_LOADS
    return item / (lines / 8) * 2;
#else
    return item / 4 % (SLAB_K / RUN_OF_K(lines)) * RUN_OF_K(lines);
#endif
}
#ifdef TRANSPOSING_LOADS
#define LINES_ON(load, along_k, lines) ((along_k) ? (load) * ITEMS / (SLAB_K / 8) : 0)
#define DEPTH_ON(load, along_k, lines) ((along_k) ? 0 : (load) / 2 * ITEMS / ((lines) / 8) * 2)
#elif FOUND_SLABS
#define RUNS_ON(load, lines) ((load) / RUN_OF_K(lines) * ITEMS)
#define LINES_ON(load, along_k, lines)                                                                                \
    ((along_k) ? (load) * ITEMS / (SLAB_K / 8) : RUNS_ON(load, lines) / (4 * SLAB_K / RUN_OF_K(lines)) * 32)
#define DEPTH_ON(load, along_k, lines)                                                                                \
    ((along_k) ? 0 : RUNS_ON(load, lines) % (4 * SLAB_K / RUN_OF_K(lines)) / 4 * RUN_OF_K(lines))
#else
#define LINES_ON(load, along_k, lines)                                                                                \
    ((along_k) ? (load) * ITEMS / (SLAB_K / 8) : (load) / 2 * ITEMS / (2 * SLAB_K) * 32)
#define DEPTH_ON(load, along_k, lines) ((along_k) ? 0 : (load) / 2 * ITEMS % (2 * SLAB_K) / 4 * 2)
#endif

// How a slab's values lie in a matrix: steps in bytes, the last line there is, whether neighbours lie along k.
typedef struct {
    OFFSET line_step, k_step, last;
    int along_k, lines;
} slab_source;

#define IS_WHOLE_uint 1
#define IS_WHOLE_int 0
#define IS_WHOLE_long 0
#define OFFSET_IS_WHOLE CLPRIM_CAT(IS_WHOLE_, OFFSET)

#if !ALIGNED && NEIGHBOURS
// Eight numbers from any address on. Loads of NVIDIA want their alignment, others take what vload8 asks for.
#ifdef ENGINE_MMA
static inline uint4 load_eight(const __global ushort* from)
{
    const uint odd = (uint)(size_t)from & 2;
    const __global uint* words = (const __global uint*)((const __global uchar*)from - odd);
    const uint4 v = vload4(0, words);
    const uint last = words[4], shift = 8 * odd;
    return (uint4)((uint)(upsample(v.y, v.x) >> shift), (uint)(upsample(v.z, v.y) >> shift),
                   (uint)(upsample(v.w, v.z) >> shift), (uint)(upsample(last, v.w) >> shift));
}
#else
static inline uint4 load_eight(const __global ushort* from) { return as_uint4(vload8(0, from)); }
#endif
#endif

// Eight neighbours; of `depth` along k only the first count, zeros stand for the others. Lines beyond the last repeat
// it.
static inline uint4 fetch_group(const __global uchar* matrix, OFFSET far, slab_source s, int line, int k, int depth)
{
#if ALIGNED
    const OFFSET first = min((OFFSET)line, s.along_k ? s.last : s.last / 8 * 8);
    const __global uint4* const at = (const __global uint4*)(matrix + (far + (first * s.line_step + k * s.k_step)));
    return depth == SLAB_K || k < depth ? *at : (uint4)0;
#elif NEIGHBOURS
    const OFFSET first = min((OFFSET)line, s.along_k ? s.last : s.last / 8 * 8);
    const OFFSET at = far + (first * s.line_step + min(k, depth - 1) * s.k_step);
    const uint4 v = load_eight((const __global ushort*)(matrix + at));
    if (depth == SLAB_K || !s.along_k)
        return k < depth ? v : (uint4)0;
    return v & as_uint4((short8)(0, 1, 2, 3, 4, 5, 6, 7) < (short8)(depth - k));   // vectors compare to all bits
#else
    uint words[4];
    UNROLL for (int e = 0; e < 8; ++e) {
        const int at_k = s.along_k ? k + e : k;
        const OFFSET at = min((OFFSET)(s.along_k ? line : line + e), s.last) * s.line_step + at_k * s.k_step + far;
        const uint bits = at_k < depth ? *(const __global ushort*)(matrix + at) : (ushort)0;
        words[e / 2] = e % 2 ? words[e / 2] | bits << 16 : bits;
    }
    return (uint4)(words[0], words[1], words[2], words[3]);
#endif
}

#define FETCH_SLAB(values, count, matrix, far, s, line, k, depth)                                                     \
    UNROLL for (int load = 0; load < count; ++load)                                                                   \
        values[load] = fetch_group(                                                                                   \
            (const __global uchar*)matrix, far, s, line + LINES_ON(load, s.along_k, s.lines),                         \
            k + DEPTH_ON(load, s.along_k, s.lines) + (s.along_k ? 0 : load % RUN_OF_K(s.lines)), depth);

// Loads of AMD take a pointer that is the same in all lanes and a lane's distance from it: distances stay as they are,
// and the pointer moves. Distances of 32 bits are made 64 outside of the loop and added to the pointer in it, unless
// they might change there.
#if FOUND_SLABS
#define POINTERS_MOVE (OFFSET_IS_WHOLE && (ALIGNED || NEIGHBOURS))
static inline OFFSET distance_of(slab_source s, int line, int k)
{
    const OFFSET first = min((OFFSET)line, s.along_k ? s.last : s.last / 8 * 8);
    return first * s.line_step + k * s.k_step;
}
#if ALIGNED
#define load_at(at) (*(const __global uint4*)(at))
#else
#define load_at(at) load_eight((const __global ushort*)(at))
#endif
#define FIND_SLAB(which, count, s)                                                                                    \
    OFFSET which##_distances[count];                                                                                  \
    UNROLL for (int load = 0; load < count; ++load)                                                                   \
        which##_distances[load] = distance_of(s, which##_line + LINES_ON(load, s.along_k, s.lines),                   \
                                              which##_k + DEPTH_ON(load, s.along_k, s.lines) +                        \
                                                  (s.along_k ? 0 : load % RUN_OF_K(s.lines)));
#define FETCH_FOUND(which, count, s, depth)                                                                           \
    if ((depth) == SLAB_K) {                                                                                          \
        UNROLL for (int load = 0; load < count; ++load)                                                               \
        {                                                                                                             \
            MIGHT_CHANGE(which##_distances[load])                                                                     \
            which##_next[load] = load_at((const __global uchar*)which + which##_distances[load]);                     \
        }                                                                                                             \
    } else                                                                                                            \
        FETCH_SLAB(which##_next, count, which, 0, s, which##_line, which##_k, depth)                                  \
    which += (depth) * (s.k_step / 2);
#define PLACE_FOUR(which, to, lines, values)                                                                          \
    if (RUN_OF_K(lines) == 4)                                                                                         \
        place_##which##_four(to, (values)[0], (values)[1], (values)[2], (values)[3]);                                 \
    else
#else
#define POINTERS_MOVE 0
#define PLACE_FOUR(which, to, lines, values)
#endif

#define PLACE_SLAB(which, slab, values, count, along_k, lines)                                                        \
    UNROLL for (int load = 0; load < count; load += along_k ? 1 : RUN_OF_K(lines))                                    \
    {                                                                                                                 \
        __local uint* to =                                                                                            \
            (slab) + which##_place(along_k, lines, LINES_ON(load, along_k, lines), DEPTH_ON(load, along_k, lines));   \
        if (along_k)                                                                                                  \
            place_##which##_along_k(to, values[load]);                                                                \
        else                                                                                                          \
            PLACE_FOUR(which, to, lines, values + load)                                                               \
            place_##which##_along_lines(to, lines, values[load], values[load + 1]);                                   \
    }
