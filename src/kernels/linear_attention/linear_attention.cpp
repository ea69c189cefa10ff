#include <clprim/linear_attention.hpp>

#include "kernels/team.hpp"
#include "core/operands.hpp"

namespace clprim {

namespace {

// linear_attention_t of linear_attention.cl
struct Geometry {
    cl_uint batch, steps, heads, kv_heads, key_size, value_size, decay_size, beta_heads;
};

void require_shape(const char* name, const Tensor& tensor, const Dims& shape, DataType type)
{
    require(tensor.shape == shape && tensor.dtype == type && tensor.is_contiguous(), "linear_attention: ", name, " is ",
            name_of(tensor.dtype), " ", to_string(tensor.shape), ", expected contiguous ", name_of(type), " ",
            to_string(shape));
}

}  // namespace

void linear_attention(Queue& queue, const LinearAttention& p)
{
    detail::check_operands("linear_attention",
                           {{"query", p.query}, {"key", p.key}, {"value", p.value}, {"y", p.y}, {"state", p.state},
                            {"decay", p.decay, detail::optional}, {"beta", p.beta, detail::optional}});
    require(p.query.dim() == 3 && p.key.dim() == 3 && p.value.dim() == 3,
            "linear_attention: query, key and value must have "
            "three axes");
    require(p.heads > 0 && p.kv_heads > 0 && p.heads % p.kv_heads == 0, "linear_attention: ", p.heads,
            " query heads cannot share ", p.kv_heads, " key heads");
    const std::int64_t batch = p.query.size(0), steps = p.query.size(1);
    require(p.query.size(2) % p.heads == 0 && p.value.size(2) % p.kv_heads == 0, "linear_attention: query ",
            to_string(p.query.shape), " and value ", to_string(p.value.shape), " cannot be split into heads");
    const std::int64_t key_size = p.query.size(2) / p.heads, value_size = p.value.size(2) / p.kv_heads;
    const DataType type = p.query.dtype;
    require(is_floating_point(type) && type != DataType::float64, "linear_attention: not implemented for ",
            name_of(type));
    require_shape("query", p.query, {batch, steps, p.heads * key_size}, type);
    require_shape("key", p.key, {batch, steps, p.kv_heads * key_size}, type);
    require_shape("value", p.value, {batch, steps, p.kv_heads * value_size}, type);
    require_shape("y", p.y, {batch, steps, p.heads * value_size}, type);
    require_shape("state", p.state, {batch, p.kv_heads, key_size, value_size}, DataType::float32);
    std::int64_t decay_size = 0, beta_heads = 0;
    if (p.decay.defined()) {
        decay_size = p.decay.shape.back() == p.kv_heads ? 1 : key_size;
        require_shape("decay", p.decay, {batch, steps, p.kv_heads * decay_size}, type);
    }
    if (p.beta.defined()) {
        beta_heads = p.beta.shape.back() == 1 ? 1 : p.kv_heads;
        require_shape("beta", p.beta, {batch, steps, beta_heads}, type);
    }
    const std::int64_t items = batch * p.kv_heads * value_size;
    if (items == 0 || steps == 0)
        return;
    const auto u = [](std::int64_t v) { return static_cast<cl_uint>(v); };
    const Geometry geometry{u(batch), u(steps), u(p.heads), u(p.kv_heads), u(key_size), u(value_size), u(decay_size),
                            u(beta_heads)};
    Kernel& kernel = queue.context().program("kernels/linear_attention/linear_attention.cl", detail::define("X", type))
                         .kernel("linear_attention");
    queue.launch(kernel, Range::linear(static_cast<std::size_t>(items), 16), p.query, p.key, p.value, p.decay, p.beta,
                 p.state, p.y, geometry, static_cast<float>(p.scale));
}

}  // namespace clprim
