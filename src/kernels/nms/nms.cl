// Non-maximum suppression over boxes in order of score. Built with -DX=<dtype of the boxes>.
//
// nms_overlaps   word j of row i: bit b is set if box order[64 j + b] comes later and overlaps box order[i] too much.
// nms_select     one work-group (-DSELECT) walks over blocks of 64 rows: the first work-item settles the block (its own 64 x 64
//                corner of the matrix), then all keep its rows and mark what those suppress.
// nms_lists      a work-group (-DGROUP) per list walks over blocks of 64 boxes in order of score: they are compared
//                with the boxes kept so far, then with each other, and the first work-item keeps those that are left.
//                Takes no memory that grows with the square of the boxes, and ends with the last box that is wanted.
// nms_triples    (image, class, box) of every kept box, list by list.
#pragma OPENCL FP_CONTRACT OFF
#include "core/dtype.cl"

typedef compute_t(X) real;
typedef storage_t(X) element;
typedef struct { real x1, y1, x2, y2; } box_t;

static inline box_t load_box(const __global element* boxes, long at, long side_stride)
{
    box_t box;
    box.x1 = load(X, boxes, at);
    box.y1 = load(X, boxes, at + side_stride);
    box.x2 = load(X, boxes, at + 2 * side_stride);
    box.y2 = load(X, boxes, at + 3 * side_stride);
    return box;
}

// Intersection over union above the threshold; that of two empty boxes is NaN, which is above none.
static inline bool overlap(box_t a, box_t b, real threshold)
{
    const real left = a.x1 < b.x1 ? b.x1 : a.x1, top = a.y1 < b.y1 ? b.y1 : a.y1;
    const real right = b.x2 < a.x2 ? b.x2 : a.x2, bottom = b.y2 < a.y2 ? b.y2 : a.y2;
    const real w = right - left, h = bottom - top;
    const real inter = (w > 0 ? w : (real)0) * (h > 0 ? h : (real)0);
    return inter / ((a.x2 - a.x1) * (a.y2 - a.y1) + (b.x2 - b.x1) * (b.y2 - b.y1) - inter) > threshold;
}

#ifndef GROUP
__kernel void nms_overlaps(const __global element* boxes, ulong boxes_offset, long box_stride, long side_stride,
                           const __global long* order, ulong order_offset, __global ulong* overlaps,
                           ulong overlaps_offset, int count, int words, real threshold)
{
    boxes += boxes_offset;
    order += order_offset;
    overlaps += overlaps_offset;
    const long id = get_global_id(0);
    if (id >= (long)count * words)
        return;
    const int i = id / words, word = id % words;
    ulong bits = 0;
    const box_t own = load_box(boxes, order[i] * box_stride, side_stride);
    for (int j = max(i + 1, word * 64); j < min(count, word * 64 + 64); ++j)
        if (overlap(own, load_box(boxes, order[j] * box_stride, side_stride), threshold))
            bits |= 1UL << (j % 64);
    overlaps[id] = bits;
}

__kernel __attribute__((reqd_work_group_size(SELECT, 1, 1)))
void nms_select(const __global ulong* overlaps, ulong overlaps_offset, const __global long* order, ulong order_offset,
                __global ulong* dropped, ulong dropped_offset, __global long* keep, ulong keep_offset,
                __global long* kept, ulong kept_offset, int count, int words)
{
    overlaps += overlaps_offset;
    order += order_offset;
    dropped += dropped_offset;
    keep += keep_offset;
    __local ulong keep_bits, corner[64];
    const int id = get_local_id(0);
    long total = 0;
    for (int word = id; word < words; word += SELECT)
        dropped[word] = 0;
    for (int block = 0; block < words; ++block) {
        const int size = min(64, count - block * 64);
        for (int b = id; b < size; b += SELECT)
            corner[b] = overlaps[(block * 64L + b) * words + block];
        barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
        if (id == 0) {
            ulong gone = dropped[block], bits = 0;
            for (int b = 0; b < size; ++b)
                if (!(gone >> b & 1)) {
                    bits |= 1UL << b;
                    gone |= corner[b];
                }
            keep_bits = bits;
        }
        barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
        const ulong kept_here = keep_bits;
        for (int b = id; b < size; b += SELECT)
            if (kept_here >> b & 1)
                keep[total + popcount(kept_here & ((1UL << b) - 1))] = order[block * 64 + b];
        total += popcount(kept_here);
        for (int word = block + 1 + id; word < words; word += SELECT) {
            ulong gone = dropped[word];
            for (ulong bits = kept_here; bits; bits &= bits - 1)
                gone |= overlaps[(block * 64L + (63 - clz(bits & -bits))) * words + word];
            dropped[word] = gone;
        }
    }
    if (id == 0)
        kept[kept_offset] = total;
}

#else
#define BLOCK 64

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void nms_lists(const __global element* boxes, ulong boxes_offset, const __global element* scores, ulong scores_offset,
               const __global long* order, ulong order_offset, __global long* keep, ulong keep_offset,
               __global long* counts, ulong counts_offset, int count, int classes, int most, real iou_threshold,
               int has_threshold, real score_threshold)
{
    const long list = get_group_id(0);
    boxes += boxes_offset + list / classes * count * 4;
    scores += scores_offset + list * count;
    order += order_offset + list * count;
    keep += keep_offset + list * most;
    __local box_t block[BLOCK];
    __local int dropped[BLOCK], total;
    __local ulong overlaps[GROUP];
    const int id = get_local_id(0), column = id % BLOCK, part = id / BLOCK;
    int kept = 0;   // the same for all work-items
    for (int first = 0; first < count && kept < most; first += BLOCK) {
        if (has_threshold && load(X, scores, first) <= score_threshold)
            break;
        if (part == 0) {
            const int at = min(first + id, count - 1);
            const real score = load(X, scores, at);
            block[id] = load_box(boxes, order[at] * 4, 1);
            dropped[id] = first + id >= count || !(has_threshold ? score > score_threshold : score == score);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        const box_t own = block[column];
        bool gone = false;
        for (int k = part; k < kept && !gone; k += GROUP / BLOCK)
            gone = overlap(load_box(boxes, keep[k] * 4, 1), own, iou_threshold);
        ulong later = 0;
        for (int j = column + 1 + part; j < BLOCK; j += GROUP / BLOCK)
            if (overlap(own, block[j], iou_threshold))
                later |= 1UL << j;
        overlaps[id] = later;
        if (gone)
            dropped[column] = 1;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (id == 0) {
            ulong suppressed = 0;
            int n = kept;
            for (int c = 0; c < BLOCK && n < most; ++c)
                if (!dropped[c] && !(suppressed >> c & 1)) {
                    keep[n++] = order[first + c];
                    for (int p = c; p < GROUP; p += BLOCK)
                        suppressed |= overlaps[p];
                }
            total = n;
        }
        barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
        kept = total;
    }
    if (id == 0)
        counts[counts_offset + list] = kept;
}

__kernel void nms_triples(const __global long* keep, ulong keep_offset, const __global long* ends, ulong ends_offset,
                          __global long* triples, ulong triples_offset, long lists, long most, int classes,
                          long rows)
{
    ends += ends_offset;
    const long id = get_global_id(0), list = id / most, rank = id % most;
    if (list >= lists)
        return;
    const long begin = list ? ends[list - 1] : 0;
    if (rank >= ends[list] - begin || begin < 0 || begin >= rows - rank)
        return;
    __global long* triple = triples + triples_offset + (begin + rank) * 3;
    triple[0] = list / classes;
    triple[1] = list % classes;
    triple[2] = keep[keep_offset + id];
}
#endif
