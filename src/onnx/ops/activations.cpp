#include "onnx/ops/activations.hpp"

#include "onnx/ops/elementwise.hpp"

namespace clprim::onnx {

// min and max are attributes before operator set 11, then inputs.
void clip(Call& call)
{
    check_type(call, 0, numbers);
    const Tensor x = call.tensor(0);
    Input bounds[2] = {Input(Scalar(), x.dtype), Input(Scalar(), x.dtype)};
    bool given[2] = {};
    for (const std::size_t k : {0u, 1u}) {
        const char* name = k == 0 ? "min" : "max";
        given[k] = call.opset() < 11 ? call.has_attribute(name) : call.has(k + 1);
        if (!given[k])
            continue;
        if (call.opset() < 11) {
            bounds[k] = Input(Scalar(call.float_attribute(name, 0)), x.dtype);
            continue;
        }
        const Value& bound = call.input(k + 1);
        call.check(bound.numel() == 1 && bound.type() == call.type(0), name, " must be one ", name_of(call.type(0)),
                   ", got ", name_of(bound.type()), " of shape ", to_string(bound.shape()));
        if (!bound.on_host())
            bounds[k] = Input(bound.reshaped({}, call.queue()).device(call.queue()));
        else if (is_floating_point(x.dtype))
            bounds[k] = Input(Scalar(bound.to_doubles(call.queue())[0]), x.dtype);
        else
            bounds[k] = Input(Scalar(bound.to_ints(call.queue())[0]), x.dtype);
    }
    if (!given[0] && !given[1])
        return call.output(0, call.input(0));
    const char* row = given[0] && given[1] ? "clamp" : given[0] ? "maximum" : "minimum";
    std::vector<Input> inputs{x};
    for (const std::size_t k : {0u, 1u})
        if (given[k])
            inputs.push_back(bounds[k]);
    pointwise_output(call, {.row = row, .inputs = inputs, .type = call.type(0), .common = x.dtype});
}

// The slope broadcasts to x; before operator set 7, one per channel did too.
void prelu(Call& call)
{
    check_types(call, numbers);
    const Tensor x = call.tensor(0);
    Tensor slope = call.tensor(1);
    if (call.opset() < 7 && slope.dim() == 1 && x.dim() > 2) {
        Dims shape(x.dim() - 1, 1);
        shape[0] = slope.size(0);
        slope = call.contiguous(1).reshape(shape);
    }
    call.check(broadcast(x.shape, slope.shape) == x.shape, "the slope's shape ", to_string(slope.shape),
               " does not broadcast to ", to_string(x.shape));
    pointwise_output(call, {.row = "prelu", .inputs = {x, slope}, .type = call.type(0), .common = x.dtype});
}

// Integers are compared with the real bounds.
void shrink(Call& call)
{
    check_types(call, numbers);
    const Tensor x = call.tensor(0);
    const bool wide = size_of(x.dtype) == 8 && call.queue().device().fp64;
    const DataType common = is_floating_point(x.dtype) ? x.dtype : wide ? DataType::float64 : DataType::float32;
    pointwise_output(call, {.row = "shrink", .inputs = {x}, .type = call.type(0), .common = common,
                            .scalars = {call.float_attribute("bias", 0), call.float_attribute("lambd", 0.5f)}});
}

void gelu(Call& call)
{
    check_types(call, floating);
    const std::string approximate = call.string_attribute("approximate", "none");
    call.check(approximate == "none" || approximate == "tanh", "approximate is ", approximate,
               ", expected none or tanh");
    const Tensor x = call.tensor(0);
    pointwise_output(call, approximate == "tanh" ? "gelu_tanh" : "gelu", {&x, 1}, x.dtype);
}

void swiglu(Call& call)
{
    check_types(call, floating);
    call.check(call.shape(0) == call.shape(1), "A has shape ", to_string(call.shape(0)), " and B ",
               to_string(call.shape(1)));
    const Tensor inputs[] = {call.tensor(0), call.tensor(1)};
    const Scalar alpha(call.float_attribute("alpha", 1));
    pointwise_output(call, "swiglu", inputs, inputs[0].dtype, {&alpha, 1});
}

}  // namespace clprim::onnx
