#include <kernels/fft/cpu.hpp>

#include <algorithm>
#include <cmath>

#include <kernels/fft/roots.hpp>
#include <core/kept_tables.hpp>

namespace clprim::detail {

namespace {

constexpr std::int64_t lanes = 16, longest_line = 4096;
constexpr std::size_t most_passes = 8;

// The passes of a line: eights first, whose results reach their places by shuffles and leave the next passes whole
// vectors, what is left of the twos last. None where there is no small transform for a factor.
std::vector<int> radices_of(std::int64_t n, bool eights)
{
    int twos = 0;
    for (; n % 2 == 0; n /= 2)
        ++twos;
    std::vector<int> first, odd, last;
    const bool pure = n == 1;
    if (eights)
        for (; twos >= 3 && (twos != 4 || !pure); twos -= 3)
            first.push_back(8);
    for (; twos >= 2; twos -= 2)
        (first.empty() ? first : last).push_back(4);
    if (twos == 1)
        (first.empty() ? first : last).push_back(2);
    for (const int radix : {3, 5, 7, 11, 13})
        for (; n % radix == 0; n /= radix)
            odd.push_back(radix);
    first.insert(first.end(), odd.begin(), odd.end());
    first.insert(first.end(), last.begin(), last.end());
    return n == 1 && !first.empty() && first.size() <= most_passes ? first : std::vector<int>{};
}

std::vector<int> line_radices(std::int64_t n) { return radices_of(n, n >= 8 * lanes); }

// The roots of a line and behind them those that cpu_lines.cl takes by vectors.
template <class R>
std::vector<R> vector_turns(std::int64_t n)
{
    std::vector<R> table = split_roots<R>(n);
    const std::vector<int> radices = line_radices(n);
    std::int64_t done = 1;
    for (const int radix : radices) {
        const std::int64_t items = n / radix;
        for (std::int64_t at = 0; done % lanes != 0 && at < items; at += lanes)
            for (int t = 1; t < radix; ++t)
                for (const bool imaginary : {false, true})
                    for (std::int64_t lane = 0; lane < lanes; ++lane) {
                        const std::int64_t j = std::min(at, items - lanes) + lane;
                        const auto [re, im] = root(j / done * done * t, n);
                        table.push_back(static_cast<R>(imaginary ? im : re));
                    }
        done *= radix;
    }
    return table;
}

template <class R>
std::vector<R> vector_turns_of_reals(std::int64_t n)
{
    std::vector<R> table = vector_turns<R>(n);
    for (std::int64_t k = 0; k < n; ++k)
        for (const double part : {root(k, 2 * n).first, root(k, 2 * n).second})
            table.push_back(static_cast<R>(part));
    return table;
}

// The roots of a line and what cpu_columns.cl turns 16 of them by, as part of a transform of `all`.
template <class R>
std::vector<R> lane_turns(std::int64_t all, std::int64_t n)
{
    std::vector<R> table = split_roots<R>(n);
    const std::vector<R> pairs = pair_turns<R>(all);
    table.insert(table.end(), pairs.begin(), pairs.end());
    for (std::int64_t k = 0; k < n; ++k)
        for (const bool imaginary : {false, true})
            for (std::int64_t lane = 0; lane < lanes; ++lane) {
                const auto [re, im] = root(k * lane, all);
                table.push_back(static_cast<R>(imaginary ? im : re));
            }
    return table;
}

std::string options(std::int64_t n, const std::vector<int>& radices, bool wide)
{
    std::string text = concat("-DR=", wide ? "double" : "float", " -DN=", n, " -DPASSES=", radices.size(),
                              " -DMOST_RADIX=", std::max(*std::ranges::max_element(radices), 8));
    for (std::size_t i = 0; i < radices.size(); ++i)
        text += concat(" -DRADIX_", i, '=', radices[i]);
    return text;
}

}  // namespace

bool cpu_line(const Device& device, std::int64_t n)
{
    if (device.kind != DeviceKind::cpu || n > longest_line)
        return false;
    const std::vector<int> radices = line_radices(n);
    return !radices.empty() && n / *std::ranges::max_element(radices) >= lanes;
}

bool cpu_columns(const Device& device, std::int64_t n, std::int64_t inner, bool wide)
{
    return device.kind == DeviceKind::cpu && inner >= lanes && n <= (wide ? longest_line / 8 : longest_line / 4) &&
           !radices_of(n, true).empty();
}

std::int64_t cpu_first_of_two(const Device& device, std::int64_t n, bool wide)
{
    for (auto first = static_cast<std::int64_t>(std::sqrt(static_cast<double>(n))); first >= lanes; --first)
        if (n % first == 0 && cpu_columns(device, first, n / first, wide) &&
            cpu_columns(device, n / first, first, wide))
            return first;
    return 0;
}

template <class R>
void transform_cpu_lines(Queue& queue, std::int64_t n, const Tensor& x, const Tensor& y, bool inverse, R scale)
{
    const bool real_in = !is_complex(x.dtype), real_out = !is_complex(y.dtype);
    const Tensor roots = table_of<R>(queue, real_in || real_out ? vector_turns_of_reals<R> : vector_turns<R>, n);
    std::string text = options(n, line_radices(n), sizeof(R) == 8);
    if (real_in || real_out)
        text += concat(real_in ? " -DREAL_IN" : " -DREAL_OUT", " -DTURNS=", roots.numel() - 4 * n);
    const auto lines = static_cast<cl_uint>(x.size(0));
    const cl_uint each = std::clamp(lines / (8 * queue.device().compute_units), 1u, 32u);
    Kernel& kernel = queue.context().program("kernels/fft/cpu_lines.cl", text).kernel("fft_lines");
    const auto reals = [&](Tensor t) {   // the kernel counts real numbers
        t.offset *= is_complex(t.dtype) ? 2 : 1;
        t.dtype = roots.dtype;
        return t;
    };
    queue.launch(kernel, Range::groups((lines + each - 1) / each), reals(x), reals(y), roots, lines, each,
                 cl_int(inverse), scale);
}

template <class R>
void transform_cpu_columns(Queue& queue, std::int64_t n, const Tensor& x, const Tensor& y, const Lines& lines, R scale)
{
    const Tensor roots =
        lines.all != 0 ? table_of<R>(queue, lane_turns<R>, lines.all, n) : table_of<R>(queue, split_roots<R>, n);
    std::string text = options(n, radices_of(n, true), sizeof(R) == 8);
    text += concat(lines.x.step == 1 ? " -DIN_ROWS" : "", lines.y.step == 1 ? " -DOUT_ROWS" : "",
                   lines.all != 0 ? " -DTURN" : "");
    Kernel& kernel = queue.context().program("kernels/fft/cpu_columns.cl", text).kernel("fft_columns");
    const Range range = Range::groups({(lines.inner + 15) / 16, lines.lines / lines.inner, 1}, {1, 1, 1});
    queue.launch(kernel, range, x, y, roots, lines, scale);
}

template void transform_cpu_lines<float>(Queue&, std::int64_t, const Tensor&, const Tensor&, bool, float);
template void transform_cpu_lines<double>(Queue&, std::int64_t, const Tensor&, const Tensor&, bool, double);
template void transform_cpu_columns<float>(Queue&, std::int64_t, const Tensor&, const Tensor&, const Lines&, float);
template void transform_cpu_columns<double>(Queue&, std::int64_t, const Tensor&, const Tensor&, const Lines&, double);

}  // namespace clprim::detail
