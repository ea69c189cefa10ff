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
#include "kernels/gemm/amx_panels.cl"

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

static inline ulong panel_words(const amx_plan* plan) { return PANEL_HEADER + plan->depth / AMX_SIDE * AMX_BLOCK; }

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

#if AMX_PARTS > 1
// Adds the products of a strip and a panel to a tile of sums by vectors.
static inline void add_by_vectors(__local float* tile, const __global storage_t(X)* a, matrix_layout layout,
                                  const __global uint* panel, amx_product product, int depth, __local float* scratch)
{
    for (int from = 0; from < depth; from += AMX_RUN) {
        const int run = min(depth - from, AMX_RUN);
        pack_a(a + from * layout.column, layout, product.rows, product.rows, run, 0, scratch);
        for (int k = 0; k < run; ++k)
            for (int side = 0; side < 2 && product.columns > 16 * side; ++side) {
                const float16 line = panel_line(panel, from + k, side);
                for (int i = 0; i < product.rows; ++i) {
                    __local float* sums = tile + i * AMX_SIDE + 16 * side;
                    vstore16(fma((float16)scratch[i * A_STEP + k], line, vload16(0, sums)), 0, sums);
                }
            }
    }
}
#endif

// Rows of C are too far apart for the processor to foresee that the next tile's come next.
#define PREFETCH_TO_WRITE(address) __asm__ volatile("prefetchw (%0)" ::"r"(address))

// A tile of sums on its way, a few rows beside each step of the products that follow: added to what rests at `sums`, or
// not, and finished into C, or kept at `sums`.
typedef struct {
    const __local float* tile;
    __global float* sums;
    __global storage_t(X)* c;             // 0: the tile is kept
    const __global storage_t(X)* d;
    const gemm_problem* problem;
    float alpha, beta;
    long sums_row, columns;
    int rows, adds, simple;               // rows: that are left
} tile_job;

// Rows of whole tiles without an activation, where C and D lie along rows: there are few instructions to spare beside a
// step.
static inline void store_rows_of(tile_job* job, int count)
{
    const __local float* tile = job->tile;
    const __global float* sums = job->sums;
    __global storage_t(X)* c = job->c;
    const __global storage_t(X)* d = job->d;
    const long sums_row = job->sums_row, c_row = job->problem->c.row, d_row = job->problem->d.row;
    const int adds = job->adds, adds_d = job->problem->add_d;
    const float alpha = job->alpha, beta = job->beta;
    for (int i = 0; i < count; ++i, tile += AMX_SIDE, c += c_row, sums += sums_row) {
        float16 low = vload16(0, tile), high = vload16(1, tile);
        if (adds) {
            low += vload16(0, sums);
            high += vload16(1, sums);
        }
        low *= alpha;
        high *= alpha;
        if (adds_d) {
            low += beta * LOAD_LANES(d);
            high += beta * LOAD_LANES(d + 16);
            d += d_row;
        }
        STORE_LANES(low, c);
        STORE_LANES(high, c + 16);
        PREFETCH_TO_WRITE(c + AMX_SIDE);
    }
    job->tile = tile;
    job->sums = (__global float*)sums;
    job->c = c;
    job->d = d;
}

// As these, of whole tiles that rest.
static inline void rest_rows_of(tile_job* job, int count)
{
    const __local float* tile = job->tile;
    __global float* sums = job->sums;
    const long sums_row = job->sums_row;
    for (int i = 0; i < count; ++i, tile += AMX_SIDE, sums += sums_row) {
        vstore16(vload16(0, sums) + vload16(0, tile), 0, sums);
        vstore16(vload16(1, sums) + vload16(1, tile), 1, sums);
        PREFETCH_TO_WRITE(sums + AMX_SIDE);
        PREFETCH_TO_WRITE(sums + AMX_SIDE + 16);
    }
    job->tile = tile;
    job->sums = sums;
}

static inline void finish_rows_of(tile_job* job, int most)
{
    const gemm_problem* p = job->problem;
    const int count = min(most, job->rows);
    job->rows -= count;
    if (job->simple) {
        if (job->c)
            store_rows_of(job, count);
        else
            rest_rows_of(job, count);
        return;
    }
    for (int i = 0; i < count; ++i) {
        for (int side = 0; side < 2 && job->columns > 16 * side; ++side) {
            const long left = job->columns - 16 * side;
            float16 v = vload16(side, job->tile);
            if (job->adds)
                v += get_sums(job->sums + 16 * side, left);
            if (job->c)
                finish_row(v, job->c + side * 16 * p->c.column, job->d + side * 16 * p->d.column, p, left, job->alpha,
                           job->beta);
            else
                put_sums(v, job->sums + 16 * side, left);
        }
        job->tile += AMX_SIDE;
        job->sums += job->sums_row;
        job->c += job->c ? p->c.row : 0;
        job->d += p->d.row;
    }
}
static inline void settle_tile(tile_job* job)
{
    finish_rows_of(job, AMX_SIDE);
    __asm__ volatile("" ::: "memory");
}

#ifdef DOT_VECTOR   // sums leave in `tile`, and nothing is done beside vectors
static inline void leave(amx_leaving* leaving, const int* tile)
{
    for (int i = 0; i < 2 * AMX_SIDE && leaving->sums; ++i)
        vstore16(vload16(i, tile), 0, (__global int*)leaving->sums + i / 2 * leaving->step + i % 2 * 16);
    leaving->sums = 0;
}
#define LEAVING_TILE int leaving_tile[AMX_SIDE * AMX_SIDE] __attribute__((aligned(64)));
#define LEAVE(leaving) leave(&leaving, leaving_tile)
#define MULTIPLY_ON(p, leaving, job)                                                                        \
    LEAVE(leaving);                                                                                         \
    settle_tile(job);                                                                                       \
    dot_blocks(p.strip, p.panel, p.blocks, (int2)((int)p.rows, (int)p.columns), leaving_tile)
#else
static inline void leave(amx_leaving* leaving)
{
    if (leaving->sums)
        amx_store(leaving->sums, leaving->step);
    leaving->sums = 0;
}
#define LEAVING_TILE
#define LEAVE(leaving) leave(&leaving)
DEFINE_AMX_MULTIPLY_ON(multiply_on, tile_job, finish_rows_of)
#define MULTIPLY_ON(p, leaving, job) multiply_on(p, leaving, job)
#endif

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

    __local float* tiles = (__local float*)memory;          // two: one fills while the other waits to be finished
    __local float* scratch = tiles + 2 * AMX_SIDE * AMX_SIDE;   // AMX_SIDE x A_STEP
    __local uint* strip_words = memory + AMX_SIDE * (2 * AMX_SIDE + A_STEP);
    __local uint* local_panels = strip_words + plan.depth / AMX_SIDE * AMX_BLOCK;

    tile_job job = {.problem = &p, .alpha = alpha, .beta = beta, .sums_row = sums_row};
    const int along_rows = p.activation == 0 && p.c.column == 1 && (!p.add_d || p.d.column == 1);
    amx_leaving leaving = {0, 0};
    LEAVING_TILE
#if AMX_PARTS > 1   // sums that rest are added to by fewer instructions: those beside a step are scarce
    AMX_NOTHING_WAITS(waiting)
#endif
    int turn = 0;
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
                const ulong panel = local_panel ? (ulong)(local_panels + at) : (ulong)(chunk + at);
                const amx_product product = {(ulong)strip_words, panel + 4 * PANEL_HEADER, blocks, height, width};
                const int whole = height == AMX_SIDE && width == AMX_SIDE;
                const int rests = in_c || !last || plan.splits > 1;
                __global float* resting = sums + i * sums_row + j;
                __local float* tile = tiles + turn * AMX_SIDE * AMX_SIDE;
#if AMX_PARTS > 1
                if (unfit_strip || (local_panel ? local_panels[at] : chunk[at])) {
                    amx_settle(&waiting);
                    LEAVE(leaving);
                    settle_tile(&job);
                    for (int e = 0; e < AMX_SIDE * AMX_SIDE; e += 16)
                        vstore16((float16)0, 0, tile + e);
                    add_by_vectors(tile, source, p.a, (const __global uint*)panel, product, depth, scratch);
                } else
#endif
                {
#if AMX_PARTS > 1
                    if (rests && whole) {
                        LEAVE(leaving);
                        settle_tile(&job);
                        amx_multiply(product, &waiting);
                        amx_settle(&waiting);
                        amx_put(&waiting, (ulong)resting, sums_row, k > k_begin);
                        continue;
                    }
                    amx_settle(&waiting);
#endif
                    MULTIPLY_ON(product, leaving, &job);
                    settle_tile(&job);
                    const int in_place = rests && whole && k == k_begin;
                    leaving.sums = in_place ? (ulong)resting : (ulong)tile;
                    leaving.step = in_place ? sums_row : AMX_SIDE;
                    if (in_place)
                        continue;
                }
                job.tile = tile;
                job.sums = resting;
                job.adds = k > k_begin;
                job.c = rests ? 0 : c + AT(p.c, i, j);
                job.d = d + AT(p.d, i, j);
                job.columns = width;
                job.rows = (int)height;
                job.simple = whole && (rests ? job.adds : along_rows);
                turn ^= 1;
            }
        }
    }
#if AMX_PARTS > 1
    amx_settle(&waiting);
#endif
    LEAVE(leaving);
    settle_tile(&job);
    amx_end();
}
