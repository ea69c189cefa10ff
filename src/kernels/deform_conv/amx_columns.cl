// Strips of columns for gemm/amx.cl: 32 pixels of one tap by up to RUN channels, sampled and split in parts of 32
// channels of one pixel, so that they can be made beside the products of the strip before.
#include "kernels/gemm/amx.cl"

#define RUN 128   // of k that are multiplied at a time, so that strip and panel stay in the nearest cache
#define PARTS (RUN / 32)
#define STRIP (PARTS * AMX_BLOCK)   // words

// A sampling point made ready: where its first corner is, with the four corners' weights times the mask.
typedef struct {
    float weights[4];
    long at;
    int whole;   // whether all four corners are inside
    sample s;
} sampling_point;

typedef struct {
    const geometry* g;
    const layout* l;
    strides xs;
    sampling from;
    const __global float* x;   // of the image and group
    int n, first_channel;      // the group's
} column_source;

// A strip in the making: what comes next, and how much. The arrays are the caller's, so that the rest stays
// in registers.
typedef struct {
    column_source from;
    const __global float* x;         // at the part's first channel
    const sampling_point* point;
    __local uint* words;
    int row, left;                   // of 32; and parts of a pixel in all
    int share;                       // parts beside one step of a product
    amx_waiting waiting;
    sampling_point* points;          // [PARTS][32], a part's being those of the part before if its offsets are the same
    uint16* most;                    // [32], the largest magnitudes of the rows
} columns_job;

static inline void ready_point(const column_source* from, const sample s, sampling_point* point)
{
    point->s = s;
    point->at = s.y * from->xs.h + s.x * from->xs.w;
    point->whole = s.inside && s.y >= 0 && s.x >= 0 && s.y + 1 < from->g->height && s.x + 1 < from->g->width;
    for (int q = 0; q < 4; ++q)
        point->weights[q] = corner_weight(s, q) * s.mask;
}

// Begins the strip of `rows` pixels from `pixel` and the channels [k, k + run) of the group; nothing is gathered yet.
static inline void begin_columns(columns_job* job, int tap, int pixel, int rows, int k, int run, __local uint* words)
{
    const column_source* from = &job->from;
    job->left = rows > 0 ? run : 0;
    int last = -1;
    for (int part = 0; part < run / 32 && rows > 0; ++part) {
        sampling_point* points = job->points + 32 * part;
        const int offset_group = offset_group_of(*from->g, *from->l, from->first_channel + k + 32 * part);
        for (int r = 0; r < 32; ++r) {
            sample s = {0};
            if (offset_group == last)
                points[r] = points[r - 32];
            else if (r < rows)
                s = read_sample(*from->g, from->from, from->n, offset_group, tap, pixel + r);
            if (offset_group != last)
                ready_point(from, s, &points[r]);
        }
        last = offset_group;
    }
    for (int r = 0; r < 32; ++r)
        job->most[r] = 0;
    job->x = from->x + k;
    job->point = job->points;
    job->words = words;
    job->row = 0;
}

// 32 channels from x at a sampling point.
static inline void sample_channels(const column_source* from, const __global float* x, const sampling_point* point,
                                   float16* v0, float16* v1)
{
    const __global float* a = x + point->at;
    const __global float *b = a + from->xs.w, *c = a + from->xs.h, *d = b + from->xs.h;
    const float16 wa = point->weights[0], wb = point->weights[1], wc = point->weights[2], wd = point->weights[3];
    if (point->whole) {
        *v0 = fma(wd, vload16(0, d), fma(wc, vload16(0, c), fma(wb, vload16(0, b), wa * vload16(0, a))));
        *v1 = fma(wd, vload16(1, d), fma(wc, vload16(1, c), fma(wb, vload16(1, b), wa * vload16(1, a))));
        return;
    }
    *v0 = 0;
    *v1 = 0;
#define ADD_CORNER(q, weight, corner)                                                                       \
    if (corner_inside(*from->g, point->s, q)) {                                                             \
        *v0 = fma(weight, vload16(0, corner), *v0);                                                         \
        *v1 = fma(weight, vload16(1, corner), *v1);                                                         \
    }
    ADD_CORNER(0, wa, a)
    ADD_CORNER(1, wb, b)
    ADD_CORNER(2, wc, c)
    ADD_CORNER(3, wd, d)
#undef ADD_CORNER
}

static inline void gather_columns(columns_job* job, int count)
{
    count = min(count, job->left);
    job->left -= count;
    for (; count > 0; --count) {
        float16 v0, v1;
        sample_channels(&job->from, job->x, job->point, &v0, &v1);
        amx_split_to_local((float16)(v0.even, v1.even), (float16)(v0.odd, v1.odd), job->words, job->most + job->row);
        ++job->point;
        ++job->row;
        job->words += 16;
        if (job->row == 32) {
            job->row = 0;
            job->x += 32;
            job->words += AMX_BLOCK - 32 * 16;
        }
    }
}

// The channels [k, k + run) of one row of a strip that was gathered, as floats.
static inline void refetch_columns(const columns_job* job, int row, int k, int run, __local float* columns)
{
    for (int part = 0; part < run / 32; ++part) {
        float16 v0, v1;
        sample_channels(&job->from, job->from.x + k + 32 * part, job->points + 32 * part + row, &v0, &v1);
        vstore16(v0, 2 * part, columns);
        vstore16(v1, 2 * part + 1, columns);
    }
}

static inline int unfit_columns(const columns_job* job)
{
    int unfit = 0;
    for (int r = 0; r < 32; ++r)
        unfit |= amx_unfit_row(job->most[r]);
    return unfit;
}

static inline void gather_beside(columns_job* job, int rows)
{
    amx_add_rows(&job->waiting, rows);
    gather_columns(job, job->share);
}
DEFINE_AMX_MULTIPLY(multiply_and_gather, columns_job, gather_beside)
