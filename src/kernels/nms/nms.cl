// Non-maximum suppression over boxes in order of score. Built with -DX=<dtype of the boxes>.
//
// nms_overlaps   word j of row i: bit b is set if box order[64 j + b] comes later and overlaps box order[i] too much.
// nms_select     one work-group walks over blocks of 64 rows: the first work-item settles the block (its own 64 x 64
//                corner of the matrix), then all mark what the kept rows suppress.
#pragma OPENCL FP_CONTRACT OFF
#include "core/dtype.cl"

typedef compute_t(X) real;
typedef storage_t(X) element;

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
    const long a = order[i] * box_stride;
    const real ax1 = load(X, boxes, a), ay1 = load(X, boxes, a + side_stride), ax2 = load(X, boxes, a + 2 * side_stride),
               ay2 = load(X, boxes, a + 3 * side_stride), area = (ax2 - ax1) * (ay2 - ay1);
    for (int j = max(i + 1, word * 64); j < min(count, word * 64 + 64); ++j) {
        const long b = order[j] * box_stride;
        const real x1 = load(X, boxes, b), y1 = load(X, boxes, b + side_stride), x2 = load(X, boxes, b + 2 * side_stride),
                   y2 = load(X, boxes, b + 3 * side_stride);
        const real left = ax1 < x1 ? x1 : ax1, top = ay1 < y1 ? y1 : ay1;
        const real right = x2 < ax2 ? x2 : ax2, bottom = y2 < ay2 ? y2 : ay2;
        const real w = right - left, h = bottom - top;
        const real inter = (w > 0 ? w : (real)0) * (h > 0 ? h : (real)0);
        if (inter / (area + (x2 - x1) * (y2 - y1) - inter) > threshold)
            bits |= 1UL << (j % 64);
    }
    overlaps[id] = bits;
}

__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void nms_select(const __global ulong* overlaps, ulong overlaps_offset, const __global long* order, ulong order_offset,
                __global ulong* dropped, ulong dropped_offset, __global long* keep, ulong keep_offset,
                __global long* kept, ulong kept_offset, int count, int words)
{
    overlaps += overlaps_offset;
    order += order_offset;
    dropped += dropped_offset;
    keep += keep_offset;
    __local ulong keep_bits;
    const int id = get_local_id(0);
    long total = 0;   // of the first work-item
    for (int word = id; word < words; word += 256)
        dropped[word] = 0;
    for (int block = 0; block < words; ++block) {
        barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
        if (id == 0) {
            ulong gone = dropped[block], bits = 0;
            for (int b = 0; b < min(64, count - block * 64); ++b)
                if (!(gone >> b & 1)) {
                    bits |= 1UL << b;
                    gone |= overlaps[(long)(block * 64 + b) * words + block];
                    keep[total++] = order[block * 64 + b];
                }
            keep_bits = bits;
        }
        barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
        for (int word = block + 1 + id; word < words; word += 256) {
            ulong gone = dropped[word];
            for (ulong bits = keep_bits; bits; bits &= bits - 1)
                gone |= overlaps[(block * 64L + (63 - clz(bits & -bits))) * words + word];
            dropped[word] = gone;
        }
    }
    if (id == 0)
        kept[kept_offset] = total;
}
