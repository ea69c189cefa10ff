// What fuse_rotary.cpp makes.
#include <algorithm>
#include <array>

#include <clprim/copy.hpp>

#include "onnx/ops/families.hpp"
#include "onnx/ops/result_like.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

constexpr std::size_t cosines = 1, sines = 2, shape_of_joined = 3, rest = 4;

// Whether a Reshape makes x's shape of pairs [..., size / 2, 2].
bool joins_to(const Dims& x, const std::vector<std::int64_t>& shape)
{
    const std::size_t dims = x.size();
    if (shape.size() != dims || std::ranges::count(shape, -1) > 1)
        return false;
    for (std::size_t i = 0; i < dims; ++i)
        if (shape[i] != x[i] && shape[i] != -1 && (shape[i] != 0 || i + 1 == dims))
            return false;
    return true;
}

// Whether axes are what the fusion has taken them for, and operands fit one kernel.
bool one_kernel(const Call& call)
{
    const Dims& x = call.shape(0);
    const std::size_t dims = x.size();
    if (dims == 0 || x.product() == 0 || x.back() % 2 != 0 || !is_floating_point(storage_type(call.type(0))))
        return false;
    for (const std::size_t i : {cosines, sines})
        if (call.type(i) != call.type(0) || is_narrow(call.type(i)))
            return false;
    const auto all_last = [&](const char* name, std::size_t of) {
        return std::ranges::all_of(call.ints_attribute(name), [&](std::int64_t axis) {
            return axis == -1 || axis + 1 == static_cast<std::int64_t>(of);
        });
    };
    const std::int64_t half = call.integer_attribute("half", 0);
    if (!all_last("axes", dims) || !all_last("axes_of_pairs", dims + 1) || (half != 0 && 2 * half != x.back()))
        return false;
    if (call.has(shape_of_joined) &&
        (!call.input(shape_of_joined).on_host() || !joins_to(x, call.ints(shape_of_joined))))
        return false;
    if (call.has(rest)) {
        Dims beside = call.shape(rest);
        if (beside.size() != dims || call.type(rest) != call.type(0))
            return false;
        beside[dims - 1] = x.back();
        if (beside != x)
            return false;
    }
    Dims angles = x;
    if (call.integer_attribute("by_pairs", 0))
        angles[dims - 1] /= 2;
    return std::ranges::all_of(std::array{cosines, sines}, [&](std::size_t i) {
        return call.shape(i).size() <= dims && broadcast(angles, call.shape(i)) == angles;
    });
}

void rotary(Call& call)
{
    if (!one_kernel(call)) {
        std::vector<Value> arguments;
        for (std::size_t i = 0; i < call.inputs(); ++i)
            arguments.push_back(call.has(i) ? call.input(i) : Value());
        return call.output(0, call.run(*call.attribute<GraphRef>("operators"), arguments)[0]);
    }
    const bool interleaved = call.integer_attribute("interleaved", 0) != 0,
               by_pairs = call.integer_attribute("by_pairs", 0) != 0;
    const auto part = [&](const Tensor& t, std::int64_t which) {
        const std::size_t last = t.dim() - 1;
        if (t.dim() == 0 || t.size(last) == 1)
            return t;
        const std::int64_t half = t.size(last) / 2;
        if (!interleaved)
            return t.slice(last, which * half, (which + 1) * half);
        Tensor result = t.slice(last, which, which + 1);
        result.shape[last] = half;
        result.strides[last] = 2 * t.stride(last);
        return result;
    };
    const Tensor x = call.tensor(0), c = call.tensor(cosines), s = call.tensor(sines);
    Tensor y;
    if (call.has(rest)) {
        const Tensor other = call.tensor(rest);
        const std::size_t last = x.dim() - 1;
        const std::int64_t turned = x.size(last), size = turned + other.size(last);
        const bool behind = call.integer_attribute("rest_first", 0) != 0;
        Dims shape = x.shape;
        shape[last] = size;
        const Tensor all = call.allocate(shape, x.dtype);
        call.output(0, Value(all));
        copy(call.queue(), other, behind ? all.slice(last, 0, size - turned) : all.slice(last, turned, size));
        y = behind ? all.slice(last, size - turned, size) : all.slice(last, 0, turned);
    } else {
        y = result_like(call, std::span(&x, 1), x.shape, x.dtype);
        call.output(0, Value(y));
    }
    const Tensor outputs[] = {part(y, 0), part(y, 1)};
    if (by_pairs)
        return pointwise(call.queue(), std::array{part(x, 0), part(x, 1), c, s}, outputs, {},
                         "y0 = x0 * x2 - x1 * x3; y1 = x1 * x2 + x0 * x3;");
    pointwise(call.queue(), std::array{part(x, 0), part(x, 1), part(c, 0), part(c, 1), part(s, 0), part(s, 1)}, outputs,
              {}, "y0 = x0 * x2 - x1 * x4; y1 = x1 * x3 + x0 * x5;");
}

const OperatorRow fused_rotary_rows[] = {{"Rotary", 1, rotary, nullptr, "clprim"}};

}  // namespace

std::span<const OperatorRow> fused_rotary_operators() { return fused_rotary_rows; }

}  // namespace clprim::onnx
