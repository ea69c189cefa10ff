#include "onnx/ops/linear_attention.hpp"

#include <cmath>

#include <clprim/copy.hpp>
#include <clprim/linear_attention.hpp>

#include "onnx/ops/support.hpp"

namespace clprim::onnx {

void linear_attention_operator(Call& call)
{
    const std::string rule = call.string_attribute("update_rule", "gated_delta");
    call.check(rule == "linear" || rule == "gated" || rule == "delta" || rule == "gated_delta", "update_rule is '",
               rule, "', expected linear, gated, delta or gated_delta");
    const bool gated = rule.starts_with("gated"), delta = rule.ends_with("delta");
    call.check(gated == call.has(4), "update_rule ", rule, gated ? " needs" : " takes no", " decay");
    call.check(delta == call.has(5), "update_rule ", rule, delta ? " needs" : " takes no", " beta");
    LinearAttention problem;
    problem.heads = call.attribute<std::int64_t>("q_num_heads");
    problem.kv_heads = call.attribute<std::int64_t>("kv_num_heads");
    call.check(problem.heads > 0 && problem.kv_heads > 0, "there must be heads");
    problem.query = call.contiguous(0);
    problem.key = call.contiguous(1);
    problem.value = call.contiguous(2);
    call.check(problem.query.dim() == 3 && problem.value.dim() == 3, "query and value must have three axes");
    if (gated)
        problem.decay = call.contiguous(4);
    if (delta)
        problem.beta = call.contiguous(5);
    const Dims& q = problem.query.shape;
    call.check(problem.heads <= q[2] && q[2] % problem.heads == 0, "query's last axis of ", q[2],
               " is not divisible by ", problem.heads, " heads");
    const std::int64_t key_size = q[2] / problem.heads, value_size = problem.value.size(2) / problem.kv_heads;
    const Dims state{q[0], problem.kv_heads, key_size, value_size};
    problem.state = call.allocate(state, DataType::float32);
    call.check(!call.has(3) || call.shape(3) == state, "past_state must have shape ", to_string(state));
    if (call.has(3))
        copy(call.queue(), call.tensor(3), problem.state);
    else
        fill(call.queue(), problem.state, 0);
    problem.y = call.allocate({q[0], q[1], problem.heads * value_size}, problem.query.dtype);
    const float scale = call.float_attribute("scale", 0);
    problem.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(key_size));
    linear_attention(call.queue(), problem);
    call.output(0, Value(problem.y));
    call.output(1,
                Value(converted(call, problem.state, call.has(3) ? storage_type(call.type(3)) : problem.query.dtype)));
}

}  // namespace clprim::onnx
