// Lines of heads by quads, as kernels for GPUs read them. Options: those of problem.cl, -DOFFSET=int|long (holds every
// distance within the lines that are read from one pointer), -DALIGNED=0|1 (elements of a line are neighbours, and all
// lines begin and end at multiples of four), -DNEIGHBOURS=0|1 (elements of a line are neighbours, four at least).
#include "kernels/attention/problem.cl"
#include "core/quad.cl"

#define REAL4 CLPRIM_CAT(REAL, 4)

typedef storage_t(X) stored;

// Lines of a head from some line on: how many there are, and of how many elements.
typedef struct {
    OFFSET row_step, column_step;
    int rows, size;
} head_lines;

// A quad of the elements from e on; zeros outside.
static inline REAL4 fetch_quad(const __global stored* x, head_lines from, int row, int e)
{
#if ALIGNED
    const int inside = row < from.rows && e < from.size;
    const REAL4 v = CLPRIM_CAT(convert_, REAL4)(load_quad(X, x + (inside ? row * from.row_step + e : 0)));
    return inside ? v : (REAL4)0;
#elif NEIGHBOURS
    // Beyond the last whole quad the last four elements, moved up: addresses and tests are those of a quad.
    const int at = min(e, from.size - 4), up = e - at;
    const __global stored* line = x + (row < from.rows ? row * from.row_step + at : (OFFSET)0);
    const REAL4 v = (REAL4)(load(X, line, 0), load(X, line, 1), load(X, line, 2), load(X, line, 3));
    const REAL4 odd = up & 1 ? (REAL4)(v.yzw, 0) : v, moved = up & 2 ? (REAL4)(odd.zw, 0, 0) : odd;
    return row < from.rows && up < 4 ? moved : (REAL4)0;
#else
    REAL values[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int inside = row < from.rows && e + i < from.size;
        const REAL v = load(X, x + (inside ? row * from.row_step + (e + i) * from.column_step : 0), 0);
        values[i] = inside ? v : 0;
    }
    return (REAL4)(values[0], values[1], values[2], values[3]);
#endif
}
