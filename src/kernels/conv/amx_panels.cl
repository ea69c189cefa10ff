// What is done beside the tile products of a convolution: the next panel is split, and the sums of the strip before are
// added or finished and written.
#include "kernels/gemm/amx.cl"

typedef struct {
    // The tile that waits.
    const float* tile;               // or 0: the sums alone
    __local real* sums;              // where it is to be added, or what is to be added before it is written; may be 0
    __global stored* result;         // where 32 pixels of its rows are written, 0 if they are only added
    const __global stored* bias;     // 0: none
    long result_step;
    int rows;                        // that are left
    int from;                        // pixels before it belong to others, who may be writing them now
    const epilogue* finish;
    int bounded;                     // the activation is no more than bounds:
    float low, high;
    // The panel in the making: from planes of the source, or from `packed`.
    const __global stored* planes;
    long plane;
    const __local real* packed;
    __local uint* words;
    int depth, wide;
    int k;                           // what comes next, even
    int share;                       // pairs beside one step of a product
    uint16 most[2];                  // largest magnitudes of the columns
} panel_job;

// Rows and planes are too many for the processor to foresee where they go on: the pixels of the next panel are fetched
// by hand, as one goes along.
#define FETCH(instruction, address) __asm__ volatile(instruction " (%0)\n\t" instruction " 64(%0)" ::"r"(address))

static inline void store_from(__global stored* to, vec v, int from)
{
    real values[LANES];
    put_vec(v, 0, values);
    for (int i = from; i < LANES; ++i)
        store(T, to, i, values[i]);
}

static inline void finish_row(panel_job* job)
{
    vec v0 = job->tile ? get_vec(0, job->tile) : (vec)0, v1 = job->tile ? get_vec(1, job->tile) : (vec)0;
    if (job->sums) {
        v0 += get_vec(0, job->sums);
        v1 += get_vec(1, job->sums);
    }
    if (job->result) {
        const real b = job->bias ? load(T, job->bias, 0) : 0;
        v0 += b;
        v1 += b;
        if (job->finish->accumulate) {   // what was read of others' pixels is not written
            v0 += load_lanes(job->result);
            v1 += load_lanes(job->result + LANES);
        }
        if (job->bounded) {
            v0 = BOUNDED(v0, (vec)job->low, (vec)job->high);
            v1 = BOUNDED(v1, (vec)job->low, (vec)job->high);
        } else {
            v0 = activate_lanes(v0, job->finish);
            v1 = activate_lanes(v1, job->finish);
        }
        FETCH("prefetchw", job->result + WIDE);
        if (job->from == 0)
            store_lanes(job->result, v0);
        else
            store_from(job->result, v0, job->from);
        if (job->from <= LANES)
            store_lanes(job->result + LANES, v1);
        else
            store_from(job->result + LANES, v1, job->from - LANES);
        job->result += job->result_step;
        job->bias += job->bias ? 1 : 0;
    } else {
        put_vec(v0, 0, job->sums);
        put_vec(v1, 1, job->sums);
    }
    job->tile += job->tile ? WIDE : 0;
    job->sums += job->sums ? WIDE : 0;
    --job->rows;
}

static inline void finish_rows(panel_job* job, int count)
{
    for (int i = min(count, job->rows); i > 0; --i)
        finish_row(job);
}

// The next `count` pairs of k of the panel, and zeros at the end of its last block.
static inline void split_pairs(panel_job* job, int count)
{
    const int depth = job->depth, end = min(job->k + 2 * count, (depth + 31) / 32 * 32);
    for (; job->k < end; job->k += 2) {
        const int k = job->k;
        __local uint* words = job->words + k / 32 * AMX_BLOCK + k / 2 % 16 * 16;
        for (int side = 0; side < 2 && job->wide > LANES * side; ++side, words += AMX_TILE) {
            vec even = 0, odd = 0;
            if (job->planes) {
                const __global stored* from = job->planes + k * job->plane + side * LANES;

                even = k < depth ? load_lanes(from) : (vec)0;
                odd = k + 1 < depth ? load_lanes(from + job->plane) : (vec)0;
            } else {
                even = k < depth ? get_vec(2 * k + side, job->packed) : (vec)0;
                odd = k + 1 < depth ? get_vec(2 * k + 2 + side, job->packed) : (vec)0;
            }
            amx_split_to_local(even, odd, words, &job->most[side]);
        }
    }
}

static inline void beside_products(panel_job* job, int rows)
{
    finish_rows(job, rows);
    split_pairs(job, job->share);
}
#ifndef DOT_VECTOR   // vectors would do neither beside products
DEFINE_AMX_MULTIPLY(multiply_beside, panel_job, beside_products)
#endif

// Does what waits at once.
static inline void settle_rows(panel_job* job)
{
    finish_rows(job, AMX_SIDE);
    __asm__ volatile("" ::: "memory");
}
