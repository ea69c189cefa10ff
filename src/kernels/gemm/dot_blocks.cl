// Sums of 32 x 32 by dot_tile.cl, of blocks as tile registers (amx_tiles.cl) take them as well: a word is the numbers
// of a row or column along k,
//
//     strip of A: [block][32 rows][16 words]          panel of B: [block][half][16 words][16 columns]
#define DOT_ROW 64
#define DOT_STEP_ROWS 2048
#define DOT_STEP_WEIGHTS 2048
#define DOT_STEP(WORD)                                                                                      \
    WORD(0) WORD(1) WORD(2) WORD(3) WORD(4) WORD(5) WORD(6) WORD(7)                                         \
    WORD(8) WORD(9) WORD(10) WORD(11) WORD(12) WORD(13) WORD(14) WORD(15)
#define DOT_SUM_ROW 128
#if DOT_VECTOR == 64
#define DOT_SUM_SECOND 64
#define DOT_BEHIND 1024   // from a vector of columns to the second
#else
#define DOT_SUM_SECOND 32
#define DOT_BEHIND 32
#endif
#include "kernels/gemm/dot_tile.cl"

// Of `size` (rows, columns), more columns but no more rows than that, to `tile`, 32 a row.
static inline void dot_blocks(ulong strip, ulong panel, ulong blocks, int2 size, int* tile)
{
    for (int i = 0; i < 2 * size.x; ++i)
        vstore16((int16)0, i, tile);
    for (int column = 0; blocks && column < size.y; column += DOT_COLUMNS) {
        const dot_operands of = {strip, panel + column / 16 * 1024, (ulong)(tile + column), DOT_BEHIND, blocks};
        dot_tile(of, size.x);
    }
}
