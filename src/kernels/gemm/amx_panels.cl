// Panels of B for products on tile registers (amx.cl), as cpu_amx.cl reads them: a header, whose first word says that
// the panel is unfit, and the words of its blocks of 32 k. They hold all of B, so that whoever keeps them may give B
// itself back: an unfit panel has, in each block, its float32 elements [k][32 columns] in place of their parts.
// Needs packing.cl and amx.cl.
#if AMX_PARTS == 1
#include "kernels/gemm/bfloat16_words.cl"
#endif

#define PANEL_HEADER 16   // words

static inline float16 first_lanes(float16 v, long count)
{
    const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return select((float16)0, v, lane < (int)min(count, 16L));
}

#if AMX_PARTS == 1   // where k are neighbours
#define TURN_PANEL(turn_columns)                                                                            \
    if (layout.row == 1 && layout.column != 1) {                                                            \
        for (int k = 0; k < depth; k += AMX_SIDE)                                                           \
            for (int side = 0; side < 2 && columns > 16 * side; ++side)                                     \
                turn_columns(b + k + 16 * side * layout.column, layout.column, columns - 16 * side, depth - k, \
                             words + k / 32 * AMX_BLOCK + side * AMX_TILE);                                 \
        panel[0] = 0;                                                                                       \
        return;                                                                                             \
    }
#else
#define TURN_PANEL(turn_columns)
#endif
#if AMX_PARTS > 1
// Where panel_line finds the lines of an unfit panel.
#define KEEP_LINES(SPACE)                                                                                   \
    for (int k = 0; unfit && k < depth; ++k)                                                                \
        for (int side = 0; side < 2 && columns > 16 * side; ++side)                                         \
            vstore16(get_row(b + AT(layout, k, 16L * side), layout.column, columns - 16 * side),            \
                     2 * (k % 32) + side, (SPACE float*)(words + k / 32 * AMX_BLOCK));
#else
#define KEEP_LINES(SPACE)
#endif
// Columns [0, columns) and rows [0, depth) of B to a panel; `readable` elements of B follow (see packing.cl).
#define DEFINE_SPLIT_PANEL(name, split, end_panel, turn_columns, SPACE)                                     \
    static inline void name(const __global storage_t(X)* b, matrix_layout layout, long columns, int depth,  \
                            long readable, __local float* scratch, SPACE uint* panel)                       \
    {                                                                                                       \
        SPACE uint* words = panel + PANEL_HEADER;                                                           \
        TURN_PANEL(turn_columns)                                                                            \
        const int direct = layout.column == 1 && columns >= AMX_SIDE;                                       \
        int unfit = 0;                                                                                      \
        for (int from = 0; from < depth; from += AMX_RUN) {                                                 \
            const int run = min(depth - from, AMX_RUN);                                                     \
            const __global storage_t(X)* source = b + from * layout.row;                                    \
            if (!direct)                                                                                    \
                pack_panel_to_local(source, layout, columns, run, readable - from * layout.row, scratch);   \
            for (int side = 0; side < 2 && columns > 16 * side; ++side) {                                   \
                uint16 most = 0;                                                                            \
                for (int k = 0; k < run; k += 2) {                                                          \
                    float16 even, odd = 0;                                                                  \
                    if (direct) {                                                                           \
                        even = LOAD_LANES(source + k * layout.row + 16 * side);                             \
                        if (k + 1 < run)                                                                    \
                            odd = LOAD_LANES(source + (k + 1) * layout.row + 16 * side);                    \
                    } else {                                                                                \
                        even = first_lanes(vload16(2 * k + side, scratch), columns - 16 * side);            \
                        if (k + 1 < run)                                                                    \
                            odd = first_lanes(vload16(2 * k + 2 + side, scratch), columns - 16 * side);     \
                    }                                                                                       \
                    split(even, odd, words + (from + k) / 32 * AMX_BLOCK + side * AMX_TILE + k / 2 % 16 * 16,\
                          &most);                                                                           \
                }                                                                                           \
                unfit |= amx_unfit_columns(most);                                                           \
            }                                                                                               \
        }                                                                                                   \
        end_panel(words, depth);                                                                            \
        KEEP_LINES(SPACE)                                                                                   \
        panel[0] = unfit;                                                                                   \
    }
DEFINE_SPLIT_PANEL(split_panel_to_local, amx_split_to_local, amx_end_panel, turn_columns_to_local, __local)
DEFINE_SPLIT_PANEL(split_panel_to_global, amx_split_to_global, amx_end_global_panel, turn_columns_to_global, __global)

#if AMX_PARTS > 1
// Elements k of 16 columns of a panel.
static inline float16 panel_line(const __global uint* panel, int k, int side)
{
    const __global uint* block = panel + PANEL_HEADER + k / 32 * AMX_BLOCK;
    if (panel[0])
        return as_float16(vload16(2 * (k % 32) + side, block));
    float16 line = 0;
    for (int part = AMX_PARTS; part-- > 0;) {   // exact in this order
        const uint16 pairs = vload16(k % 32 / 2, block + 2 * AMX_TILE * part + AMX_TILE * side);
        line += as_float16(k % 2 ? pairs & 0xffff0000u : pairs << 16);
    }
    return line;
}
#endif
