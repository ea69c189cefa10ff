#include <clprim/copy.hpp>
#include <clprim/error_hook.hpp>
#include <clprim/fft.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include <core/operands.hpp>
#include <kernels/fft/cpu.hpp>
#include <kernels/fft/layout.hpp>
#include <kernels/fft/roots.hpp>
#include <core/kept_tables.hpp>
#include <kernels/gemm/gpu_tile.hpp>
#include <kernels/team.hpp>

namespace clprim {

namespace {

// Prime factors, with pairs of twos as fours: half as many passes.
std::vector<cl_uint> factors_of(cl_uint n)
{
    std::vector<cl_uint> factors;
    for (; n % 4 == 0; n /= 4)
        factors.push_back(4);
    for (cl_uint p = 2; p * static_cast<std::uint64_t>(p) <= n; ++p)
        for (; n % p == 0; n /= p)
            factors.push_back(p);
    if (n > 1 || factors.empty())
        factors.push_back(n);
    return factors;
}

constexpr std::int64_t longest_line = 4096;
constexpr std::size_t most_passes = 8;

// The passes of a line, large powers of two first, or none where lines.cl has no small transform for a factor.
std::vector<int> radices_of(std::int64_t n)
{
    std::vector<int> radices;
    const auto take = [&](int radix) {
        n /= radix;
        radices.push_back(radix);
    };
    while (n % 64 == 0)
        take(8), take(8);
    if (n % 32 == 0)
        take(8);
    for (int radix : {4, 2, 3, 5, 7, 11, 13})
        while (n % radix == 0)
            take(radix);
    return n == 1 && !radices.empty() && radices.size() <= most_passes ? radices : std::vector<int>{};
}

// How a device transforms whole lines of n elements in one launch.
struct Line {
    std::int64_t n;
    std::vector<int> radices;
    unsigned team = 1, lines = 1;
    int sub_group = 0;   // SUB_GROUP where numbers of a small transform would be spilled; 0: as compilers like

    Line(const Device& device, std::int64_t n_, bool wide, bool across) : n(n_)
    {
        const bool cpu = device.kind == DeviceKind::cpu;
        const std::size_t bytes = static_cast<std::size_t>(n) * 4 * (wide ? 8 : 4);
        if (n > longest_line || (!cpu && bytes > device.local_memory))
            return;
        radices = radices_of(n);
        if (radices.empty() || cpu)
            return;
        if (std::ranges::any_of(radices, [&](int radix) { return radix > 8 || (wide && radix == 7); }))
            sub_group = detail::spilling_sub_group(device);
        const auto most = static_cast<unsigned>(std::min<std::size_t>(256, std::bit_floor(device.max_work_group_size)));
        const auto fits = static_cast<unsigned>(std::bit_floor(device.local_memory / bytes));
        team = std::clamp(std::bit_floor(static_cast<unsigned>(n) / 8), 1u, most);
        if (across)   // neighbours move what lies together
            team = std::min(team, std::max(most / std::min(fits, 16u), 1u));
        lines = std::min(fits, std::max((across ? most : 128u) / team, 1u));
        // Cores of Turing have 64 KiB for groups that may take 48: two smaller ones are more work-items.
        constexpr std::size_t half = 32768;
        if (lines > 1 && lines * bytes > half && device.local_memory < 2 * half)
            lines /= 2;
    }
    bool fits() const { return !radices.empty(); }

    std::string options(bool wide, bool across, const char* kind) const
    {
        std::string text = detail::concat("-DR=", wide ? "double" : "float", " -DN=", n, " -DPASSES=", radices.size(),
                                          " -DTEAM=", team, " -DLINES=", lines, " -DMOST_RADIX=",
                                          std::max(*std::ranges::max_element(radices), 8));
        for (std::size_t i = 0; i < radices.size(); ++i)
            text += detail::concat(" -DRADIX_", i, '=', radices[i]);
        if (sub_group > 0)
            text += detail::concat(" -DSUB_GROUP=", sub_group);
        return text + (across && lines > 1 ? " -DACROSS" : "") + kind;
    }
};

// One launch of lines.cl, between complex tensors or between one of pairs of real numbers and one of terms. p.all: of a
// transform that the lines are part of, or 0.
template <class R>
void transform_lines(Queue& queue, const Line& line, const Tensor& x, const Tensor& y, const detail::Lines& p, R scale)
{
    const bool wide = sizeof(R) == 8, across = p.x.step != 1, real_in = !is_complex(x.dtype),
               real_out = !is_complex(y.dtype);
    const Tensor roots = detail::table_of<R>(queue, detail::split_roots<R>, line.n);
    Tensor turns = roots;
    if (p.all != 0) {
        turns = detail::table_of<R>(queue, detail::pair_turns<R>, p.all);
    } else if (real_in || real_out) {
        turns = detail::table_of<R>(queue, detail::paired_roots<R>, 2 * line.n);
    }
    turns.dtype = real_in ? y.dtype : x.dtype;   // or none that is looked at
    const char* kind = real_in ? " -DREAL_IN" : real_out ? " -DREAL_OUT" : p.all != 0 ? " -DTURN" : "";
    const Program& program = queue.context().program("kernels/fft/lines.cl", line.options(wide, across, kind));
    const Range range = Range::groups((p.lines + line.lines - 1) / line.lines, std::size_t{line.team} * line.lines);
    queue.launch(program.kernel("fft_lines"), range, x, y, roots, turns, p, scale);
}

// n = first * second, both of which are lines of the device; 0 if there are none.
std::int64_t first_of_two(const Device& device, std::int64_t n, bool wide)
{
    const auto root = static_cast<std::int64_t>(std::sqrt(static_cast<double>(n)));
    for (std::int64_t first = root; first > 1; --first)
        if (n % first == 0 && Line(device, first, wide, true).fits() && Line(device, n / first, wide, false).fits())
            return first;
    return 0;
}

// Lines too long for fast memory, in two launches (Bailey, "FFTs in external or hierarchical memory", 1990): n / first
// transforms of every n / first-th element, turned, then `first` transforms of neighbours.
template <class R>
void transform_in_two(Queue& queue, const Tensor& input, const Tensor& output, std::int64_t first, bool inverse,
                      R scale)
{
    const bool wide = sizeof(R) == 8;
    const auto n = static_cast<cl_uint>(input.size(1)), batch = static_cast<cl_uint>(input.size(0)),
               one = static_cast<cl_uint>(first), two = n / one;
    const Tensor between = queue.context().empty(input.shape, input.dtype, queue);
    const detail::Layout columns{n, 1, two};
    const detail::Lines down{columns, columns, batch * two, two, n, detail::fine_turns(n), inverse},
        along{{n, two, 1}, {n, 1, one}, batch * one, one, 0, 0, inverse};
    if (detail::cpu_columns(queue.device(), one, two, wide) && detail::cpu_columns(queue.device(), two, one, wide)) {
        detail::transform_cpu_columns<R>(queue, one, input, between, down, 1);
        detail::transform_cpu_columns<R>(queue, two, between, output, along, scale);
        return;
    }
    transform_lines<R>(queue, Line(queue.device(), one, wide, true), input, between, down, 1);
    transform_lines<R>(queue, Line(queue.device(), two, wide, false), between, output, along, scale);
}

template <class R>
bool in_fast_memory(const Device& device, std::int64_t n)
{
    return Line(device, n, sizeof(R) == 8, false).fits() || first_of_two(device, n, sizeof(R) == 8) != 0;
}

template <class R>
void transform(Queue& queue, const Tensor& input, const Tensor& output, bool inverse, R scale);

// Any length as a circular convolution with a chirp (Bluestein, "A linear filtering approach to the computation of
// discrete Fourier transform", 1970), by transforms of a power of two.
template <class R>
void transform_by_chirp(Queue& queue, const Tensor& input, const Tensor& output, bool inverse, R scale)
{
    const std::int64_t n = input.size(1), lines = input.size(0), m = detail::padded(n);
    const auto complex_table = [&](std::vector<R> (*make)(std::int64_t), std::int64_t size) {
        Tensor table = detail::table_of<R>(queue, make, n);
        return Tensor(table.memory, input.dtype, {1, size});
    };
    const Tensor factors = complex_table(detail::chirp<R>, n), filter = complex_table(detail::chirp_filter<R>, m);
    const Tensor spectrum = queue.context().empty({1, m}, input.dtype, queue);
    const Tensor a = queue.context().empty({lines, m}, input.dtype, queue);
    const Tensor b = queue.context().empty({lines, m}, input.dtype, queue);
    const Program& program =
        queue.context().program("kernels/fft/chirp.cl", sizeof(R) == 8 ? "-DR=double" : "-DR=float");
    const auto range = [&](std::int64_t columns) {
        return Range::groups({static_cast<std::size_t>((columns + 63) / 64), static_cast<std::size_t>(lines), 1},
                             {64, 1, 1});
    };
    const auto from = static_cast<cl_uint>(n), to = static_cast<cl_uint>(m);
    transform<R>(queue, filter, spectrum, false, 1);
    queue.launch(program.kernel("chirp_in"), range(m), input, a, factors, from, to, cl_int(inverse));
    transform<R>(queue, a, b, false, 1);
    queue.launch(program.kernel("chirp_between"), range(m), b, spectrum, to);
    transform<R>(queue, b, a, true, 1 / static_cast<R>(m));
    queue.launch(program.kernel("chirp_out"), range(n), a, output, factors, from, to, cl_int(inverse), scale);
}

// Any length, by a launch for each factor.
template <class R>
void transform_by_factors(Queue& queue, const Tensor& input, const Tensor& output, bool inverse, R scale)
{
    const bool wide = sizeof(R) == 8;
    const auto n = static_cast<cl_uint>(input.size(1));
    const std::vector<cl_uint> factors = factors_of(n);
    Tensor roots = detail::table_of<R>(queue, detail::paired_roots<R>, n);
    roots.dtype = input.dtype;
    Kernel& kernel =
        queue.context().program("kernels/fft/fft.cl", wide ? "-DR=double" : "-DR=float").kernel("fft_pass");
    Range range;
    range.dims = 2;
    range.local = {64, 1, 1};
    range.global = {(static_cast<std::size_t>(n) + 63) / 64 * 64, static_cast<std::size_t>(input.size(0)), 1};
    // The passes go back and forth between two tensors, of which the last one is the output.
    const Tensor other = factors.size() > 1 ? queue.context().empty(input.shape, input.dtype, queue) : Tensor();
    Tensor from = input;
    cl_uint done = 1, rest = n;
    for (std::size_t pass = 0; pass < factors.size(); ++pass) {
        const Tensor to = (factors.size() - pass) % 2 ? output : other;
        const R factor = pass + 1 == factors.size() ? scale : 1;
        queue.launch(kernel, range, from, to, roots, n, done, rest, factors[pass], cl_int(inverse), factor);
        done *= factors[pass];
        rest /= factors[pass];
        from = to;
    }
}

template <class R>
void transform(Queue& queue, const Tensor& input, const Tensor& output, bool inverse, R scale)
{
    const auto n = static_cast<cl_uint>(input.size(1)), count = static_cast<cl_uint>(input.size(0));
    const bool wide = sizeof(R) == 8;
    if (input.numel() > std::numeric_limits<cl_uint>::max())   // lines.cl counts lines in 32 bits
        return transform_by_factors<R>(queue, input, output, inverse, scale);
    const Device& device = queue.device();
    const detail::Lines rows{{n, n, 1}, {n, n, 1}, count, count, 0, 0, inverse};
    if (detail::cpu_line(device, n) && n % 4 == 0)
        return detail::transform_cpu_lines<R>(queue, n, input, output, inverse, scale);
    if (detail::cpu_columns(device, n, count, wide))
        return detail::transform_cpu_columns<R>(queue, n, input, output, rows, scale);
    if (const std::int64_t first = detail::cpu_first_of_two(device, n, wide))
        return transform_in_two<R>(queue, input, output, first, inverse, scale);
    if (detail::cpu_line(device, n))
        return detail::transform_cpu_lines<R>(queue, n, input, output, inverse, scale);
    if (const Line line(device, n, wide, false); line.fits())
        return transform_lines<R>(queue, line, input, output, rows, scale);
    if (const std::int64_t first = first_of_two(device, n, wide))
        return transform_in_two<R>(queue, input, output, first, inverse, scale);
    constexpr cl_uint small_prime = 31;
    if (factors_of(n).back() > small_prime &&
        in_fast_memory<R>(device, detail::padded(input.size(1))))
        return transform_by_chirp<R>(queue, input, output, inverse, scale);
    transform_by_factors<R>(queue, input, output, inverse, scale);
}

}  // namespace

namespace {

// Along the middle axis of [outer, n, inner], where the lines lie if the device takes them so.
template <class R>
void transform_middle(Queue& queue, const Tensor& input, const Tensor& output, bool inverse, R scale)
{
    const Device& device = queue.device();
    const auto outer = static_cast<cl_uint>(input.size(0)), n = static_cast<cl_uint>(input.size(1)),
               inner = static_cast<cl_uint>(input.size(2));
    const auto count = [](const Tensor& x) { return x.size(0) * x.size(2); };
    if (inner != 1 && input.numel() <= std::numeric_limits<cl_uint>::max()) {
        const detail::Layout columns{std::uint64_t{n} * inner, 1, inner};
        const detail::Lines lines{columns, columns, outer * inner, inner, 0, 0, inverse};
        if (detail::cpu_columns(device, n, inner, sizeof(R) == 8))
            return detail::transform_cpu_columns<R>(queue, n, input, output, lines, scale);
        const Line line(device, n, sizeof(R) == 8, true);
        if (device.kind != DeviceKind::cpu && line.fits())
            return transform_lines<R>(queue, line, input, output, lines, scale);
    }
    if (inner == 1)
        return transform<R>(queue, input.reshape({outer, n}), output.reshape({outer, n}), inverse, scale);
    const auto turned = [](const Tensor& x) { return x.transpose(1, 2); };
    const Tensor rows = queue.context().empty({count(input), n}, input.dtype, queue),
                 terms = queue.context().empty({count(input), n}, input.dtype, queue);
    copy(queue, turned(input), rows.reshape({outer, inner, n}));
    transform<R>(queue, rows, terms, inverse, scale);
    copy(queue, terms.reshape({outer, inner, n}), turned(output));
}

// Between lines of real numbers and of half of their terms, by transforms of pairs: in one launch for lines that fit
// fast memory.
template <class R>
void transform_real(Queue& queue, const Tensor& x, const Tensor& y, R scale)
{
    const bool inverse = is_complex(x.dtype), wide = sizeof(R) == 8;
    const Tensor &real = inverse ? y : x, &terms = inverse ? x : y;
    const auto n = static_cast<cl_uint>(real.size(1) / 2), count = static_cast<cl_uint>(real.size(0));
    const Device& device = queue.device();
    const bool columns = detail::cpu_columns(device, n, count, wide);
    if (detail::cpu_line(device, n) && (n % 4 == 0 || !columns))
        return detail::transform_cpu_lines<R>(queue, n, x, y, inverse, scale);
    const Line line(device, n, wide, false);
    if (line.fits() && !columns)
        return transform_lines<R>(queue, line, x, y,
                                  {{static_cast<cl_ulong>(x.size(1)), 0, 1}, {static_cast<cl_ulong>(y.size(1)), 0, 1},
                                   count, 1, 0, 0, inverse}, scale);
    const bool vectors = device.kind == DeviceKind::cpu && n > 16;   // a vector has terms between the ends
    const Program& program = queue.context().program(vectors ? "kernels/fft/cpu_pairs.cl" : "kernels/fft/pairs.cl",
                                                     wide ? "-DR=double" : "-DR=float");
    const bool apart = real.offset % 2 != 0;   // numbers at odd places are no complex ones
    const Tensor whole = apart ? queue.context().empty(real.shape, real.dtype, queue) : real;
    const Tensor pairs(whole.memory, whole.offset / 2, terms.dtype, {count, n}, {n, 1}),
        between = queue.context().empty({count, n}, terms.dtype, queue);
    Tensor turns = detail::table_of<R>(queue, detail::paired_roots<R>, 2 * n);
    turns.dtype = terms.dtype;
    const Range range = vectors ? Range::groups({(n + 1023) / 1024, count, 1}, {1, 1, 1})
                                : Range::groups({n / 64 + 1, count, 1}, {64, 1, 1});
    if (inverse) {
        queue.launch(program.kernel("from_terms"), range, x, between, turns, n);
        transform<R>(queue, between, pairs, true, scale);
        if (apart)
            copy(queue, whole, real);
        return;
    }
    if (apart)
        copy(queue, real, whole);
    transform<R>(queue, pairs, between, false, 1);
    queue.launch(program.kernel("to_terms"), range, between, y, turns, n, scale);
}

void transform_real(Queue& queue, std::string_view name, const Tensor& real, const Tensor& terms, bool inverse,
                    double scale)
{
    const bool wide = real.dtype == DataType::float64;
    require(real.dtype == (wide ? DataType::float64 : DataType::float32) &&
                terms.dtype == (wide ? DataType::complex128 : DataType::complex64),
            name, ": expected float32 and complex64, or float64 and complex128, got ", name_of(real.dtype), " and ",
            name_of(terms.dtype));
    require(real.dim() == 2 && terms.dim() == 2 && real.size(0) == terms.size(0) &&
                terms.size(1) == real.size(1) / 2 + 1 && real.is_contiguous() && terms.is_contiguous(),
            name, ": expected contiguous tensors [lines, n] and [lines, n / 2 + 1], got ", to_string(real.shape),
            " and ", to_string(terms.shape));
    require<NotSupported>(takes_real_lines(queue, real.dtype, real.size(1)), name, ": ", real.size(1),
                          " elements are not transformed as real ones (takes_real_lines)");
    if (real.numel() == 0)
        return;
    const Tensor &from = inverse ? terms : real, &to = inverse ? real : terms;
    if (wide)
        transform_real<double>(queue, from, to, scale);
    else
        transform_real<float>(queue, from, to, static_cast<float>(scale));
}

}  // namespace

bool takes_real_lines(Queue& queue, DataType dtype, std::int64_t n)
{
    const bool wide = dtype == DataType::float64;
    return n % 2 == 0 && n > 0 && (wide ? queue.device().fp64 : dtype == DataType::float32);
}

void rfft(Queue& queue, const Tensor& input, const Tensor& output, double scale)
{
    detail::check_operands("rfft", {{"input", input}, {"output", output}});
    transform_real(queue, "rfft", input, output, false, scale);
}

void irfft(Queue& queue, const Tensor& input, const Tensor& output, double scale)
{
    detail::check_operands("irfft", {{"input", input}, {"output", output}});
    transform_real(queue, "irfft", output, input, true, scale);
}

void fft(Queue& queue, const Tensor& input, bool inverse, const Tensor& output, double scale)
{
    detail::check_operands("fft", {{"input", input}, {"output", output}});
    const bool wide = input.dtype == DataType::complex128;
    detail::require_dtype(wide || input.dtype == DataType::complex64,
                          "fft: expected complex64 or complex128, got ", name_of(input.dtype));
    require(output.dtype == input.dtype && output.shape == input.shape && (input.dim() == 2 || input.dim() == 3) &&
                input.is_contiguous() && output.is_contiguous(),
            "fft: input and output are contiguous tensors [lines, n] or [outer, n, inner] of one dtype, got ",
            to_string(input.shape), " and ", to_string(output.shape));
    require<NotSupported>(!wide || queue.device().fp64, "fft: the device ", queue.device().name, " has no float64");
    require(input.size(1) < (std::int64_t{1} << 31), "fft: lines of 2^31 elements or more are not supported");
    if (input.numel() == 0)
        return;
    const std::int64_t inner = input.dim() == 3 ? input.size(2) : 1;
    const Dims shape{input.size(0), input.size(1), inner};
    const Tensor x = input.reshape(shape), y = output.reshape(shape);
    if (wide)
        transform_middle<double>(queue, x, y, inverse, scale);
    else
        transform_middle<float>(queue, x, y, inverse, static_cast<float>(scale));
}

}  // namespace clprim
