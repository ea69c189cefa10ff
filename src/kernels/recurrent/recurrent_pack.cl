// -DBYTES=int8|uint8 -DLOWEST=0|128 -DDOT_VECTOR=64|32 [-DDOT_VEX]
#include "core/dtype.cl"
#include "kernels/recurrent/recurrent_words.cl"

// Of `from`, [direction][k][gate][hidden]; a work-item packs a gate of a block.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pack_words(const __global storage_t(BYTES)* from, ulong from_offset, __global int* words, ulong words_offset,
                uint count, uint hidden)
{
    const uint width = 4 * hidden, panel = get_group_id(0), gate = panel % 4, direction = get_group_id(1);
    const uint along = words_along(count);
    from += from_offset + (ulong)direction * count * width;
    words += words_offset;
    __global int* sums = words + get_num_groups(1) * words_of_direction(count, hidden) +
                         ((ulong)direction * get_num_groups(0) + panel) * PANEL;
    words += direction * words_of_direction(count, hidden) + (ulong)panel * along * PANEL;
    for (uint i = 0; i < PANEL; ++i) {
        const uint unit = panel / 4 * PANEL + i;
        int sum = 0;
        for (uint w = 0; w < along; ++w) {
            char4 four = 0;
            for (uint b = 0; b < 4; ++b) {
                const uint k = 4 * w + b;
                const int byte =
                    unit < hidden && k < count ? (int)from[(ulong)k * width + gate * hidden + unit] - LOWEST : 0;
                ((char*)&four)[b] = (char)byte;
                sum += byte;
            }
            words[w * PANEL + i] = as_int(four);
        }
        sums[i] = sum;
    }
}
