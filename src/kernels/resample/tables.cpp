#include <kernels/resample/tables.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

namespace clprim::detail {
namespace {

// Input elements per output element.
template <class Acc>
Acc scale_of(const Resampling& how, std::int64_t in, std::int64_t out, double factor)
{
    const bool nearest = how.filter <= Filter::nearest_exact;
    if (how.align_corners && !nearest)
        return out > 1 ? static_cast<Acc>(in - 1) / static_cast<Acc>(out - 1) : Acc(0);
    if (nearest)
        return factor > 0 ? static_cast<float>(1.0 / factor) : static_cast<float>(in) / static_cast<float>(out);
    return factor > 0 ? static_cast<Acc>(1.0 / factor) : static_cast<Acc>(in) / static_cast<Acc>(out);
}

// Products and sums are rounded once, as compilers do it in PyTorch's CPU kernels.
template <class Acc>
Acc cubic_near(Acc x, Acc a) { return std::fma(std::fma(a + 2, x, -(a + 3)) * x, x, Acc(1)); }
template <class Acc>
Acc cubic_far(Acc x, Acc a) { return std::fma(std::fma(std::fma(a, x, -5 * a), x, 8 * a), x, -4 * a); }

// The antialiasing filters, zero outside of their radius.
template <class Acc>
Acc antialias(Filter filter, Acc x)
{
    x = std::abs(x);
    if (filter == Filter::antialias_linear)
        return x < 1 ? 1 - x : 0;
    if (filter == Filter::antialias_cubic)
        return x < 1 ? cubic_near(x, Acc(-0.5)) : x < 2 ? cubic_far(x, Acc(-0.5)) : 0;
    const Acc pi = std::numbers::pi_v<Acc>;
    return x == 0 ? 1 : x < 3 ? std::sin(pi * x) * std::sin(pi * x / 3) * 3 / (pi * pi * x * x) : 0;
}

template <class Acc>
TapTable<Acc> sized(std::int64_t in, std::int64_t out, int taps)
{
    TapTable<Acc> t;
    t.size = static_cast<int>(in);
    t.taps = taps;
    t.first.assign(out, 0);
    t.count.assign(out, taps);
    t.weights.assign(out * taps, 1);
    return t;
}

template <class Acc>
TapTable<Acc> nearest_table(Filter filter, std::int64_t in, std::int64_t out, float scale)
{
    TapTable<Acc> t = sized<Acc>(in, out, 1);
    for (std::int64_t o = 0; o < out; ++o) {
        if (filter == Filter::nearest && (out == in || out == 2 * in)) {
            t.first[o] = static_cast<cl_int>(out == in ? o : o / 2);
            continue;
        }
        const float place = filter == Filter::nearest ? static_cast<float>(o) : static_cast<float>(o) + 0.5f;
        t.first[o] = static_cast<cl_int>(std::min(std::floor(place * scale), static_cast<float>(in - 1)));
    }
    return t;
}

// Two or four elements around a point.
template <class Acc>
TapTable<Acc> point_table(const Resampling& how, std::int64_t in, std::int64_t out, Acc scale, bool backward)
{
    const bool linear = how.filter == Filter::linear;
    TapTable<Acc> t = sized<Acc>(in, out, linear ? 2 : 4);
    for (std::int64_t o = 0; o < out; ++o) {
        const auto place = static_cast<Acc>(o);
        Acc source = how.align_corners        ? scale * place
                     : backward && !linear ? scale * (place + Acc(0.5)) - Acc(0.5)   // rounds twice in PyTorch
                                           : std::fma(scale, place + Acc(0.5), Acc(-0.5));
        if (linear)
            source = std::max(source, Acc(0));
        const Acc first = std::min(std::floor(source), static_cast<Acc>(in - 1));
        const Acc d = std::clamp(source - first, Acc(0), Acc(1)), a = Acc(-0.75);
        t.first[o] = static_cast<cl_int>(first) - !linear;
        Acc* w = &t.weights[o];
        if (linear)
            w[0] = 1 - d, w[out] = d;
        else
            w[0] = cubic_far(d + 1, a), w[out] = cubic_near(d, a), w[2 * out] = cubic_near(1 - d, a),
            w[3 * out] = cubic_far(2 - d, a);
    }
    return t;
}

template <class Acc>
TapTable<Acc> antialias_table(Filter filter, std::int64_t in, std::int64_t out, Acc scale)
{
    const Acc radius = filter == Filter::antialias_linear ? 1 : filter == Filter::antialias_cubic ? 2 : 3;
    const Acc support = scale >= 1 ? radius * scale : radius, inverse = scale >= 1 ? 1 / scale : 1;
    const int taps = static_cast<int>(std::min(std::ceil(support) * 2 + 1, static_cast<Acc>(in)));
    TapTable<Acc> t = sized<Acc>(in, out, taps);
    for (std::int64_t o = 0; o < out; ++o) {
        const Acc center = scale * (static_cast<Acc>(o) + Acc(0.5)), most = static_cast<Acc>(in);
        // Scales that the sizes contradict put a centre beyond the last element, which then counts alone.
        const Acc from = std::clamp(std::trunc(center - support + Acc(0.5)), Acc(0), most - 1);
        const Acc to = std::clamp(std::trunc(center + support + Acc(0.5)), from + 1, most);
        const int first = static_cast<int>(from), count = std::min(static_cast<int>(to) - first, taps);
        t.first[o] = first;
        t.count[o] = count;
        t.uneven |= count != taps;
        Acc total = 0;
        for (int k = 0; k < count; ++k) {
            const Acc x = (static_cast<Acc>(k + first) - center + Acc(0.5)) * inverse;
            total += t.weights[k * out + o] = count == 1 ? 1 : antialias(filter, x);
        }
        if (total != 0)
            for (int k = 0; k < count; ++k)
                t.weights[k * out + o] /= total;
    }
    return t;
}

// Of the gradient of x from that of y.
template <class Acc>
TapTable<Acc> transposed(const TapTable<Acc>& table)
{
    const int in = table.size, out = table.places();
    std::vector<cl_int> begin(in, out), end(in, 0);
    const auto each = [&](auto visit) {
        for (int o = 0; o < out; ++o)
            for (int k = 0; k < table.count[o]; ++k)
                visit(std::clamp(table.first[o] + k, 0, in - 1), o, table.weights[std::size_t(k) * out + o]);
    };
    each([&](int i, int o, Acc) {
        begin[i] = std::min(begin[i], o);
        end[i] = std::max(end[i], o + 1);
    });
    int taps = 1;
    for (int i = 0; i < in; ++i)
        taps = std::max(taps, end[i] - begin[i]);
    TapTable<Acc> t;
    t.size = out;
    t.taps = taps;
    t.first.resize(in);
    t.count.resize(in);
    t.weights.assign(std::size_t(in) * taps, 0);
    for (int i = 0; i < in; ++i) {
        const bool any = begin[i] < end[i];
        t.first[i] = any ? begin[i] : i > 0 ? t.first[i - 1] + t.count[i - 1] : 0;
        t.count[i] = any ? end[i] - begin[i] : 0;
        t.uneven |= t.count[i] != taps;
    }
    each([&](int i, int o, Acc weight) { t.weights[std::size_t(o - begin[i]) * in + i] += weight; });
    return t;
}

}  // namespace

template <class Acc>
int TapTable<Acc>::begin(int o) const { return std::clamp(first[o], 0, size - 1); }

template <class Acc>
int TapTable<Acc>::end(int o) const { return std::clamp(first[o] + count[o], begin(o), size); }

template <class Acc>
TapTable<Acc> tap_table(const Resampling& how, std::int64_t in, std::int64_t out, double factor, bool backward)
{
    const Acc scale = scale_of<Acc>(how, in, out, factor);
    TapTable<Acc> table = how.filter <= Filter::nearest_exact
                              ? nearest_table<Acc>(how.filter, in, out, static_cast<float>(scale))
                          : how.filter <= Filter::cubic ? point_table<Acc>(how, in, out, scale, backward)
                                                        : antialias_table<Acc>(how.filter, in, out, scale);
    return backward ? transposed(table) : table;
}

template <class Acc>
TapLanes<Acc> tap_lanes(const TapTable<Acc>& table, int channels)
{
    constexpr int vector = 16, none = 128;   // NO_TAP of cpu_windows.cl
    const int width = table.places() * channels, vectors = (width + vector - 1) / vector;
    TapLanes<Acc> t;
    std::vector<cl_int> ends(vectors);
    t.lanes.resize(vectors);
    for (int i = 0; i < vectors; ++i) {
        t.lanes[i] = table.begin(i * vector / channels) * channels;
        ends[i] = table.end((std::min((i + 1) * vector, width) - 1) / channels) * channels;
        t.span = std::max(t.span, ends[i] - t.lanes[i]);
    }
    if (t.span > none)
        return t;
    std::vector<unsigned char> lanes(std::size_t(table.taps) * vectors * vector, none);
    t.weights.assign(lanes.size(), 0);
    for (int o = 0; o < width; ++o)
        for (int k = 0; k < table.count[o / channels]; ++k) {
            const std::size_t at = std::size_t(k) * vectors * vector + o;
            const int element = std::clamp(table.first[o / channels] + k, 0, table.size - 1) * channels + o % channels;
            lanes[at] = static_cast<unsigned char>(element - t.lanes[o / vector]);
            t.weights[at] = table.weights[std::size_t(k) * table.places() + o / channels];
        }
    t.lanes.insert(t.lanes.end(), ends.begin(), ends.end());
    const std::size_t numbers = t.lanes.size();
    t.lanes.resize(numbers + lanes.size() / sizeof(cl_int));
    std::memcpy(&t.lanes[numbers], lanes.data(), lanes.size());
    return t;
}

template struct TapTable<float>;
template struct TapTable<double>;
template TapLanes<float> tap_lanes(const TapTable<float>&, int);
template TapLanes<double> tap_lanes(const TapTable<double>&, int);
template TapTable<float> tap_table(const Resampling&, std::int64_t, std::int64_t, double, bool);
template TapTable<double> tap_table(const Resampling&, std::int64_t, std::int64_t, double, bool);

}  // namespace clprim::detail
