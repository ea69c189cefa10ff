// Products on CPU devices with AMX tile registers (amx.cl). One work-item owns a block of C in one of `splits` parts of
// k, as in cpu_packed.cl: per chunk of k, B's block is split into panels that rest in the second-level cache, and every
// strip of A, split into the first-level cache, is multiplied with all of them. Between chunks sums rest in C, or in
// `sums` where C does not hold sums.
// Options: -DX=<float32, float16, bfloat16> -DREAL=float.
#define AMX_RUN 128            // k that are packed at a time on the way to the words of a strip or panel
#define A_STEP (AMX_RUN + 16)
#define TILE_ROWS 32
#include "kernels/gemm/packing.cl"
#include "kernels/gemm/amx.cl"
#if AMX_PARTS == 1
#include "kernels/gemm/bfloat16_words.cl"
#endif

// Where B's panels lie: a block of them in local memory, or in the work-item's own part of `panels`; or in `panels`,
// split by split_b.
#define PANELS_LOCAL 0
#define PANELS_OWN 1
#define PANELS_SHARED 2

typedef struct {
    long block_rows, block_columns;   // block_columns is a multiple of AMX_SIDE
    long splits, split_depth;         // parts of k, each split_depth long
    long depth;                       // of a chunk, a multiple of AMX_SIDE
    int panels_place;
    int plain;                        // C's elements are the sums: no scalars, no addend, no conversion
} amx_plan;

// A panel's words follow a header, whose first word says that the panel is unfit.
#define PANEL_HEADER 16
static inline ulong panel_words(const amx_plan* plan) { return PANEL_HEADER + plan->depth / AMX_SIDE * AMX_BLOCK; }

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
// Columns [0, columns) and rows [0, depth) of B to a panel; `readable` elements of B follow (see packing.cl).
#define DEFINE_SPLIT_PANEL(name, split, end_panel, turn_columns, SPACE)                     \
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
        panel[0] = unfit;                                                                                   \
    }
DEFINE_SPLIT_PANEL(split_panel_to_local, amx_split_to_local, amx_end_panel, turn_columns_to_local, __local)
DEFINE_SPLIT_PANEL(split_panel_to_global, amx_split_to_global, amx_end_global_panel, turn_columns_to_global, __global)

// One work-item splits one panel of one chunk, to [batch][chunk][panel].
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void split_b(const __global storage_t(X)* b, ulong b_offset, __global uint* panels, ulong panels_offset, gemm_problem p,
             amx_plan plan, __local float* scratch)
{
    const long panel = get_group_id(0), chunk = get_group_id(1), batch = get_group_id(2);
    const long j = panel * AMX_SIDE, k = chunk * plan.depth;
    b += b_offset + batch * p.b.batch + AT(p.b, k, j);
    panels += panels_offset + ((batch * get_num_groups(1) + chunk) * get_num_groups(0) + panel) * panel_words(&plan);
    split_panel_to_global(b, p.b, p.n - j, (int)min(p.k - k, plan.depth), elements_from(p.b, p.k, p.n, k, j), scratch,
                          panels);
}

// Rows of A, at most AMX_SIDE, to a strip; `all_rows` rows and `readable` elements of A follow. Whether it is unfit.
static inline int split_strip(const __global storage_t(X)* a, matrix_layout layout, long rows, long all_rows, int depth,
                              long readable, __local float* scratch, __local uint* strip)
{
    const int direct = layout.column == 1;
    int unfit = 0;
#if AMX_PARTS == 1
    if (direct || layout.row == 1) {
        for (int k = 0; k < depth; k += AMX_SIDE) {
            __local uint* words = strip + k / 32 * AMX_BLOCK;
            if (direct) {
                for (int i = 0; i < rows; ++i)
                    vstore16(as_uint16(line_words(a + i * layout.row + k, depth - k)), i, words);
                for (int i = rows; i % 16 != 0; ++i)
                    vstore16((uint16)0, i, words);
            } else
                for (int i = 0; i < rows; i += 16)
                    turn_rows(a + k * layout.column + i, layout.column, rows - i, depth - k, words + i * 16);
        }
        return 0;
    }
#endif
    for (int from = 0; from < depth; from += AMX_RUN) {
        const int run = min(depth - from, AMX_RUN);
        const __global storage_t(X)* source = a + from * layout.column;
        if (!direct)
            pack_a(source, layout, rows, all_rows, run, readable - from * layout.column, scratch);
        for (int i = 0; i < rows; ++i) {
            uint16 most = 0;
            for (int k = 0; k < run; k += AMX_SIDE) {
                float16 first, second;
                if (direct && run - k >= AMX_SIDE) {
                    first = LOAD_LANES(source + i * layout.row + k);
                    second = LOAD_LANES(source + i * layout.row + k + 16);
                } else if (direct) {
                    first = get_row(source + i * layout.row + k, 1, run - k);
                    second = get_row(source + i * layout.row + k + 16, 1, run - k - 16);
                } else {
                    first = first_lanes(vload16(0, scratch + i * A_STEP + k), run - k);
                    second = first_lanes(vload16(0, scratch + i * A_STEP + k + 16), run - k - 16);
                }
                amx_split_to_local((float16)(first.even, second.even), (float16)(first.odd, second.odd),
                                   strip + (from + k) / 32 * AMX_BLOCK + i / 16 * AMX_TILE + i % 16 * 16, &most);
            }
            unfit |= amx_unfit_row(most);
        }
    }
    const int blocks = (depth + AMX_SIDE - 1) / AMX_SIDE;
    for (int i = rows; i % 16 != 0; ++i)
        for (int part = 0; part < blocks * AMX_PARTS; ++part)
            vstore16((uint16)0, 0, strip + part * 2 * AMX_TILE + i / 16 * AMX_TILE + i % 16 * 16);
    return unfit;
}

// Adds the products of a strip and a panel to a tile of sums by vectors.
static inline void add_by_vectors(__local float* tile, const __global storage_t(X)* a, const __global storage_t(X)* b,
                                  const gemm_problem* p, long rows, long columns, int depth, __local float* scratch)
{
    for (int from = 0; from < depth; from += AMX_RUN) {
        const int run = min(depth - from, AMX_RUN);
        pack_a(a + from * p->a.column, p->a, rows, rows, run, 0, scratch);
        for (int k = 0; k < run; ++k)
            for (int side = 0; side < 2 && columns > 16 * side; ++side) {
                const float16 line = get_row(b + AT(p->b, from + k, 16L * side), p->b.column, columns - 16 * side);
                for (int i = 0; i < rows; ++i) {
                    __local float* sums = tile + i * AMX_SIDE + 16 * side;
                    vstore16(fma((float16)scratch[i * A_STEP + k], line, vload16(0, sums)), 0, sums);
                }
            }
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void multiply(const __global storage_t(X)* restrict a, ulong a_offset, const __global storage_t(X)* restrict b,
              ulong b_offset, __global uint* panels, ulong panels_offset, __global storage_t(X)* c, ulong c_offset,
              const __global storage_t(X)* d, ulong d_offset, __global float* sums, ulong sums_offset, gemm_problem p,
              amx_plan plan, float alpha, float beta, __local uint* memory)
{
    const c_block block = find_block(&p, get_group_id(0), plan.block_rows, plan.block_columns, plan.splits);
    const long i0 = block.i, j0 = block.j, split = block.split, batch = block.batch;
    const long rows = block.rows, columns = block.columns;
    const long k_begin = split * plan.split_depth, k_end = min(p.k, k_begin + plan.split_depth);

    a += a_offset + batch * p.a.batch + i0 * p.a.row;
    b += b_offset + batch * p.b.batch + j0 * p.b.column;
    c += c_offset + batch * p.c.batch + AT(p.c, i0, j0);
    d += d_offset + batch * p.d.batch + AT(p.d, i0, j0);
    panels += panels_offset;
    if (plan.panels_place == PANELS_OWN)
        panels += get_group_id(0) * panel_words(&plan) * (plan.block_columns / AMX_SIDE);
    // Sums rest in C itself, or in `sums`, [split][batch][m][n].
    const int in_c = plan.plain && plan.splits == 1;
    const long sums_row = in_c ? p.c.row : p.n;
    if (in_c)
        sums = (__global float*)c;
    else
        sums += sums_offset + ((split * p.batch + batch) * p.m + i0) * p.n + j0;

    __local float* tile = (__local float*)memory;           // a tile that is not whole, or waits for its epilogue
    __local float* scratch = tile + AMX_SIDE * AMX_SIDE;    // AMX_SIDE x A_STEP
    __local uint* strip_words = memory + AMX_SIDE * (AMX_SIDE + A_STEP);
    __local uint* local_panels = strip_words + plan.depth / AMX_SIDE * AMX_BLOCK;

    AMX_NOTHING_WAITS(waiting)
    amx_begin();
    for (long k = k_begin; k < k_end; k += plan.depth) {
        const int depth = (int)min(k_end - k, plan.depth), blocks = (depth + AMX_SIDE - 1) / AMX_SIDE;
        const int last = k + depth >= k_end;
        const __global uint* chunk = panels;
        if (plan.panels_place == PANELS_SHARED)
            chunk += ((batch * ((p.k + plan.depth - 1) / plan.depth) + k / plan.depth) *
                          ((p.n + AMX_SIDE - 1) / AMX_SIDE) + j0 / AMX_SIDE) * panel_words(&plan);
        else
            for (long j = 0; j < columns; j += AMX_SIDE) {
                const __global storage_t(X)* source = b + AT(p.b, k, j);
                const long readable = elements_from(p.b, p.k, p.n, k, j0 + j), at = j / AMX_SIDE * panel_words(&plan);
                if (plan.panels_place == PANELS_LOCAL)
                    split_panel_to_local(source, p.b, columns - j, depth, readable, scratch, local_panels + at);
                else
                    split_panel_to_global(source, p.b, columns - j, depth, readable, scratch, panels + at);
            }
        for (long i = 0; i < rows; i += AMX_SIDE) {
            const long height = min(rows - i, (long)AMX_SIDE);
            const __global storage_t(X)* source = a + AT(p.a, i, k);
            const int unfit_strip = split_strip(source, p.a, height, p.m - i0 - i, depth,
                                                elements_from(p.a, p.m, p.k, i0 + i, k), scratch, strip_words);
            for (long j = 0; j < columns; j += AMX_SIDE) {
                const long width = min(columns - j, (long)AMX_SIDE), at = j / AMX_SIDE * panel_words(&plan);
                const int local_panel = plan.panels_place == PANELS_LOCAL;
                const int unfit = unfit_strip || (local_panel ? local_panels[at] : chunk[at]);
                const int whole = height == AMX_SIDE && width == AMX_SIDE;
                const int rests = in_c || !last || plan.splits > 1;
                __global float* resting = sums + i * sums_row + j;
                const int in_place = rests && whole && !unfit;
                if (!in_place)
                    amx_settle(&waiting);
                if (k > k_begin && !in_place)
                    fetch_sums(tile, (int)height, width, resting, sums_row);
                if (unfit) {
                    if (k == k_begin)
                        for (int e = 0; e < AMX_SIDE * AMX_SIDE; e += 16)
                            vstore16((float16)0, 0, tile + e);
                    add_by_vectors(tile, source, b + AT(p.b, k, j), &p, height, width, depth, scratch);
                } else {
                    const ulong panel = local_panel ? (ulong)(local_panels + at) : (ulong)(chunk + at);
                    const amx_product product = {(ulong)strip_words, panel + 4 * PANEL_HEADER, blocks, height, width};
                    amx_multiply(product, &waiting);
                    if (in_place) {
                        amx_put(&waiting, (ulong)resting, sums_row, k > k_begin);
                        continue;
                    }
                    amx_put(&waiting, (ulong)tile, AMX_SIDE, k > k_begin);
                    amx_settle(&waiting);
                }
                if (rests)
                    keep_sums(tile, (int)height, width, resting, sums_row);
                else
                    finish_tile(tile, (int)height, width, c + AT(p.c, i, j), d + AT(p.d, i, j), &p, alpha, beta);
            }
        }
    }
    amx_settle(&waiting);
    amx_end();
}
