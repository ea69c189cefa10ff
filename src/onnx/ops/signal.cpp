// Fourier transforms, windows, the mel scale.
#include <cmath>

#include <clprim/copy.hpp>
#include <clprim/fft.hpp>
#include <clprim/sequence.hpp>

#include "onnx/ops/elementwise.hpp"
#include "onnx/ops/families.hpp"

namespace clprim::onnx {

namespace {

// [..., 2] real numbers as [...] complex ones.
Tensor as_complex(Tensor pairs)
{
    pairs.dtype = pairs.dtype == DataType::float64 ? DataType::complex128 : DataType::complex64;
    pairs.offset /= 2;
    pairs.shape.resize(pairs.dim() - 1);
    pairs.strides = contiguous_strides(pairs.shape);
    return pairs;
}

// A transform over the last axis but one of lines [..., n, 1 or 2], of any strides, cut or padded with zeros to
// `length`.
struct Transform {
    Tensor lines;
    std::int64_t length;
    bool inverse = false, onesided = false;
};

// Double where the device has it: in float32 a bin that should vanish keeps 1e-7 of the largest one.
DataType working_type(const Call& call) { return call.queue().device().fp64 ? DataType::float64 : DataType::float32; }

// The other half of a spectrum whose signal is real: bin length - k is the conjugate of bin k.
void complete(Queue& queue, const Tensor& spectrum, std::int64_t length)
{
    const std::size_t axis = spectrum.dim() - 2;
    const std::int64_t first = length / 2 + 1;
    if (first >= length)
        return;
    const Tensor rest = spectrum.slice(axis, first, length), imaginary = rest.slice(axis + 1, 1, 2);
    const auto along = static_cast<std::int64_t>(axis);
    flip(queue, spectrum.slice(axis, 1, length - first + 1), {&along, 1}, rest);
    pointwise(queue, {&imaginary, 1}, {&imaginary, 1}, {}, "y0 = -x0;");
}

// [..., length or, of a one-sided spectrum, length / 2 + 1, 2]; [..., length, 1] of an inverse one-sided one.
Tensor transform(const Call& call, const Transform& problem)
{
    Queue& queue = call.queue();
    const Tensor& lines = problem.lines;
    const std::size_t axis = lines.dim() - 2;
    Dims shape = lines.shape;
    shape[axis] = problem.length;
    shape[axis + 1] = 2;
    const Tensor work = call.allocate(shape, working_type(call)), result = call.allocate(shape, work.dtype);
    const bool half = problem.inverse && problem.onesided;
    const std::int64_t taken = std::min(lines.size(axis), half ? problem.length / 2 + 1 : problem.length);
    const std::int64_t parts = lines.size(axis + 1);
    if (taken < problem.length || parts < 2)
        fill(queue, work, 0);
    copy(queue, lines.slice(axis, 0, taken), work.slice(axis, 0, taken).slice(axis + 1, 0, parts));
    if (half)
        complete(queue, work, problem.length);
    const std::int64_t count = shape.product() / std::max<std::int64_t>(2 * problem.length, 1);
    const Dims flat{count, problem.length};
    fft(queue, as_complex(work).reshape(flat), problem.inverse, as_complex(result).reshape(flat));
    if (half)
        return result.slice(axis + 1, 0, 1);
    return problem.onesided ? result.slice(axis, 0, problem.length / 2 + 1) : result;
}

// Writes a transform, divided by `divisor`, as output 0.
void emit(Call& call, const Tensor& result, std::int64_t divisor)
{
    const Tensor y = call.output_tensor(0, result.shape, call.type(0));
    const Scalar scale(1.0 / static_cast<double>(divisor));
    if (divisor == 1)
        copy(call.queue(), result, y);
    else
        pointwise(call.queue(), {&result, 1}, {&y, 1}, {&scale, 1}, "y0 = x0 * w0;");
}

// The axis is an attribute before operator set 20, then an input.
void dft(Call& call)
{
    check_type(call, 0, floating);
    const Tensor x = call.tensor(0);
    call.check(x.dim() >= 2 && (x.shape.back() == 1 || x.shape.back() == 2), "input has shape ", to_string(x.shape),
               ", expected [..., 1] or [..., 2]");
    const std::int64_t given = call.opset() < 20 ? call.integer_attribute("axis", 1)
                               : call.has(2)     ? call.integer(2)
                                                 : -2;
    const std::size_t axis = call.axis(given, x.dim());
    call.check(axis + 1 < x.dim(), "axis ", given, " holds real and imaginary parts");
    const bool inverse = call.integer_attribute("inverse", 0), onesided = call.integer_attribute("onesided", 0);
    call.check(!onesided || inverse == (x.shape.back() == 2), onesided && inverse
                                                                  ? "a one-sided inverse takes complex input"
                                                                  : "a one-sided spectrum is that of a real signal");
    const std::int64_t size = x.size(axis);
    const std::int64_t length = call.has(1) ? call.integer(1) : inverse && onesided ? 2 * (size - 1) : size;
    call.check(length > 0 && length < (std::int64_t{1} << 31), "dft_length is ", length);
    const Tensor result = transform(call, {x.transpose(axis, x.dim() - 2), length, inverse, onesided});
    emit(call, result.transpose(axis, x.dim() - 2), inverse ? length : 1);
}

// Frames are a view of the signal that overlaps itself.
void stft(Call& call)
{
    check_type(call, 0, floating);
    Tensor signal = call.contiguous(0);
    if (signal.dim() == 2)      // not by the definition, but exporters leave the 1 of a real signal out
        signal = signal.reshape({signal.size(0), signal.size(1), 1});
    call.check(signal.dim() == 3 && (signal.shape.back() == 1 || signal.shape.back() == 2), "signal has shape ",
               to_string(signal.shape), ", expected [batch_size, signal_length, 1 or 2], the last not needed for 1");
    const std::int64_t step = call.integer(1), size = signal.size(1), parts = signal.size(2);
    const std::int64_t length = call.has(3) ? call.integer(3) : call.has(2) ? call.shape(2).product() : size;
    call.check(step > 0, "frame_step is ", step);
    call.check(length > 0 && length <= size, "frame_length is ", length, ", the signal has ", size, " samples");
    const bool onesided = call.integer_attribute("onesided", 1);
    call.check(!onesided || parts == 1, "a one-sided spectrum is that of a real signal");
    Tensor frames = signal;
    frames.shape = {signal.size(0), (size - length) / step + 1, length, parts};
    frames.strides = {signal.stride(0), step * parts, parts, 1};
    if (call.has(2)) {
        call.check(call.type(2) == call.type(0) && call.shape(2) == Dims{length}, "window is ", name_of(call.type(2)),
                   " ", to_string(call.shape(2)), ", expected ", name_of(call.type(0)), " [", length, "]");
        const Tensor inputs[] = {frames, call.contiguous(2).reshape({length, 1})};
        const Tensor weighted = call.allocate(frames.shape, working_type(call));
        pointwise(call.queue(), inputs, {&weighted, 1}, {}, "y0 = x0 * x1;");
        frames = weighted;
    }
    emit(call, transform(call, {frames, length, false, onesided}), 1);
}

// Computed on the host in double, as the type that an attribute says.
void emit_table(Call& call, const Dims& shape, const std::vector<double>& table)
{
    const std::int64_t given = call.integer_attribute("output_datatype", 1);
    call.check(given > 0 && given <= static_cast<std::int64_t>(ElementType::bfloat16) &&
                   given != static_cast<int>(ElementType::string),
               "output_datatype is ", given, ", expected a type of numbers");
    const auto type = static_cast<ElementType>(given);
    if (type == ElementType::float64)
        return call.output(0, Value::copy_of(type, shape, table.data()));
    Value single = Value::zeros(ElementType::float32, shape);
    std::copy(table.begin(), table.end(), single.mutable_host<float>().begin());
    if (type == ElementType::float32)
        return call.output(0, std::move(single));
    copy(call.queue(), single.device(call.queue()), call.output_tensor(0, shape, type));
}

// a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n)
void window(Call& call)
{
    const std::string& name = call.node().op_type;
    const std::array<double, 3> a = name == "HannWindow"      ? std::array{0.5, 0.5, 0.0}
                                    : name == "HammingWindow" ? std::array{25.0 / 46, 21.0 / 46, 0.0}
                                                              : std::array{0.42, 0.5, 0.08};
    const std::int64_t size = call.integer(0), most = std::int64_t{1} << 28;
    call.check(size >= 0 && size <= most, "size is ", size, ", expected 0 to ", most);
    const std::int64_t n = call.integer_attribute("periodic", 1) ? size : size - 1;
    std::vector<double> table(static_cast<std::size_t>(size), 1.0);   // of one element: 1
    for (std::size_t i = 0; n > 0 && i < table.size(); ++i) {
        const double angle = 2 * 3.14159265358979323846 * static_cast<double>(i) / static_cast<double>(n);
        table[i] = a[0] - a[1] * std::cos(angle) + a[2] * std::cos(2 * angle);
    }
    emit_table(call, {size}, table);
}

// Triangles of height 1 over the bins of a spectrum, evenly spaced on the mel scale.
void mel_weight_matrix(Call& call)
{
    const std::int64_t bands = call.integer(0), length = call.integer(1), rate = call.integer(2);
    const double low = call.number(3), high = call.number(4);
    const std::int64_t bins = length / 2 + 1, most = std::int64_t{1} << 28;
    call.check(bands > 0 && length > 0 && rate > 0 && bands <= most / bins, "num_mel_bins is ", bands, ", dft_length ",
               length, ", sample_rate ", rate);
    const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
    const double step = (mel(high) - mel(low)) / static_cast<double>(bands + 2);
    std::vector<std::int64_t> edges;
    for (std::int64_t i = 0; i < bands + 2; ++i) {
        const double hertz = 700 * (std::pow(10, (mel(low) + step * static_cast<double>(i)) / 2595) - 1);
        const double edge = std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
        call.check(edge >= 0 && edge < static_cast<double>(bins), "a band edge of ", hertz,
                   " Hz lies outside of the spectrum");
        edges.push_back(static_cast<std::int64_t>(edge));
    }
    std::vector<double> table(static_cast<std::size_t>(bins * bands));
    for (std::int64_t band = 0; band < bands; ++band) {
        const auto at = static_cast<std::size_t>(band);
        const std::int64_t left = edges[at], centre = edges[at + 1], right = edges[at + 2];
        const auto weight = [&](std::int64_t bin) -> double& {
            return table[static_cast<std::size_t>(bin * bands + band)];
        };
        for (std::int64_t bin = left; bin <= centre; ++bin)
            weight(bin) = left == centre ? 1 : static_cast<double>(bin - left) / static_cast<double>(centre - left);
        for (std::int64_t bin = centre; bin < right; ++bin)
            weight(bin) = static_cast<double>(right - bin) / static_cast<double>(right - centre);
    }
    emit_table(call, {bins, bands}, table);
}

const OperatorRow signal_rows[] = {
    {"DFT", 17, dft}, {"STFT", 17, stft},
    {"HannWindow", 17, window}, {"HammingWindow", 17, window}, {"BlackmanWindow", 17, window},
    {"MelWeightMatrix", 17, mel_weight_matrix},
};

}  // namespace

std::span<const OperatorRow> signal_operators() { return signal_rows; }

}  // namespace clprim::onnx
