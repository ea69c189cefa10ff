#include <kernels/conv/gpu_tables.hpp>

#include <algorithm>
#include <vector>

#include <core/kept_tables.hpp>

namespace clprim::conv {
namespace {

constexpr int behind_taps = 32;   // entries that the longest slab may read behind the last k

// What tables depend on.
struct TapShape {
    std::int32_t taps[3], step[3], axis[3], channel, depth, total, taps_inner, planes, behind;

    // Along d, h, w.
    void find(int tap, int (&at)[3]) const
    {
        at[0] = tap / (taps[2] * taps[1]);
        at[1] = tap / taps[2] % taps[1];
        at[2] = tap % taps[2];
    }

    int element(int c, const int (&at)[3]) const
    {
        int result = c * channel;
        for (int i = 0; i < 3; ++i)
            result += at[i] * step[i] * axis[i];
        return result;
    }
};

TapShape shape_of(const gpu_conv_problem& p, bool planes, int behind)
{
    TapShape shape{{}, {}, {}, p.source_channel, p.depth, p.total, p.taps_inner, planes, behind};
    std::copy_n(p.taps, 3, shape.taps);
    std::copy_n(p.step, 3, shape.step);
    std::copy_n(p.source_axis, 3, shape.axis);
    return shape;
}

std::vector<std::int32_t> places_of_k(const TapShape& shape)
{
    const int taps = shape.taps[0] * shape.taps[1] * shape.taps[2];
    std::vector<std::int32_t> table(4 * static_cast<std::size_t>(shape.total + shape.behind));
    for (int k = 0; k < shape.total; ++k) {
        int at[3];
        shape.find(shape.taps_inner ? k % taps : k / shape.depth, at);
        std::int32_t* entry = &table[4 * static_cast<std::size_t>(k)];
        entry[0] = shape.element(shape.taps_inner ? k / taps : k % shape.depth, at);
        for (int i = 0; i < 3; ++i)
            entry[1 + i] = at[i] * shape.step[i];
    }
    return table;
}

std::vector<std::int32_t> places_of_eights(const TapShape& shape)
{
    const int eights = (shape.total + 7) / 8;
    std::vector<std::int32_t> table(2 * static_cast<std::size_t>(shape.total / 8 + shape.behind));
    for (int i = 0; i < eights; ++i) {
        int at[3];
        shape.find(8 * i / shape.depth, at);
        std::int32_t* entry = &table[2 * static_cast<std::size_t>(i)];
        entry[0] = 2 * shape.element(8 * i % shape.depth, at);
        entry[1] = 1 << (TAP_BITS_X + at[2]) | 1 << (TAP_BITS_Y + at[1]);
        if (shape.planes)
            entry[1] |= 1 << (TAP_BITS_Z + at[0]);
    }
    return table;
}

}  // namespace

Tensor tap_table(Queue& queue, const gpu_conv_problem& p)
{
    return detail::table_of(queue, places_of_k, shape_of(p, false, behind_taps));
}

Tensor matrix_table(Queue& queue, const gpu_conv_problem& p, bool planes, int behind)
{
    return detail::table_of(queue, places_of_eights, shape_of(p, planes, behind));
}

}  // namespace clprim::conv
