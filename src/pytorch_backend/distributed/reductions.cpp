#include <distributed/reductions.hpp>

#include <ATen/ATen.h>

#include <distributed/tensors.hpp>

namespace torch_ocl::distributed {

const char* name_of(RedOp op)
{
    constexpr const char* names[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"};
    return op < std::size(names) ? names[op] : "?";
}

bool averages(RedOp op) { return op == RedOp::AVG; }

namespace {

bool bitwise(RedOp op) { return op == RedOp::BAND || op == RedOp::BOR || op == RedOp::BXOR; }

bool adds(RedOp op) { return op == RedOp::SUM || op == RedOp::AVG; }

}  // namespace

std::optional<std::string> refuses(RedOp op, at::ScalarType dtype)
{
    const auto no = [&](const char* why) {
        return std::optional(c10::str(name_of(op), " of ", name_of(dtype), " tensors ", why));
    };
    if (c10::isFloat8Type(dtype))
        return no("does not exist: numbers of 8 bits are only moved");
    if (bitwise(op) && !c10::isIntegralType(dtype, true))
        return no("does not exist: bits are combined of integers and booleans");
    if (c10::isComplexType(dtype) && !adds(op))
        return no("does not exist: complex numbers are added or averaged");
    if (dtype == at::kBool && op == RedOp::AVG)
        return no("does not exist");
    if (dtype == at::kUInt64 && (op == RedOp::MIN || op == RedOp::MAX))
        return no("is not there");
    return std::nullopt;
}

namespace {

// By way of a wider type that engines know.
Reducible widened(const at::Tensor& host, at::ScalarType wider, RedOp op)
{
    const at::Tensor copy = host.to(wider);
    return {copy, op, [host, copy] { at::Tensor(host).copy_(copy); }};
}

}  // namespace

Reducible reducible(const at::Tensor& host, RedOp op)
{
    op = averages(op) ? RedOp::SUM : op;   // the division follows on the device
    switch (host.scalar_type()) {
    case at::kBool: {   // a sum of booleans is whether any is true
        const RedOp of_bytes = op == RedOp::SUM || op == RedOp::BOR        ? RedOp::MAX
                               : op == RedOp::PRODUCT || op == RedOp::BAND ? RedOp::MIN
                                                                           : op;
        return {host.view(at::kByte), of_bytes, {}};
    }
    case at::kShort:
    case at::kUInt16: return widened(host, at::kInt, op);
    case at::kUInt32: return widened(host, at::kLong, op);
    case at::kUInt64: return {host.view(at::kLong), op, {}};
    default: return {host.is_complex() ? at::view_as_real(host).view({-1}) : host, op, {}};
    }
}

namespace {

void combine(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, RedOp op)
{
    const bool boolean = a.scalar_type() == at::kBool;
    switch (op) {
    case RedOp::SUM:
    case RedOp::AVG: boolean ? at::logical_or_out(out, a, b) : at::add_out(out, a, b); break;
    case RedOp::PRODUCT: boolean ? at::logical_and_out(out, a, b) : at::mul_out(out, a, b); break;
    case RedOp::MIN: at::minimum_out(out, a, b); break;
    case RedOp::MAX: at::maximum_out(out, a, b); break;
    case RedOp::BAND: at::bitwise_and_out(out, a, b); break;
    case RedOp::BOR: at::bitwise_or_out(out, a, b); break;
    case RedOp::BXOR: at::bitwise_xor_out(out, a, b); break;
    default: TORCH_INTERNAL_ASSERT(false);
    }
}

}  // namespace

void reduce_rows(const std::vector<at::Tensor>& rows, at::Tensor& result, RedOp op)
{
    const auto dtype = rows[0].scalar_type();
    if (dtype == at::kUInt16 || dtype == at::kUInt32 || dtype == at::kUInt64) {   // ATen has little for them
        std::vector<at::Tensor> wider;
        for (const at::Tensor& row : rows)
            wider.push_back(dtype == at::kUInt64 ? row.view(at::kLong) : row.to(at::kLong));
        at::Tensor wide = at::empty(result.sizes(), result.options().dtype(at::kLong));
        reduce_rows(wider, wide, op);
        result.copy_(dtype == at::kUInt64 ? wide.view(at::kUInt64) : wide);
        return;
    }
    if (rows.size() == 2)   // rounded once, and right where the result is one of the two
        return combine(result, rows[0], rows[1], op);
    const bool half = dtype == at::kHalf || dtype == at::kBFloat16;
    at::Tensor total = half && (adds(op) || op == RedOp::PRODUCT) ? rows[0].to(at::kFloat) : rows[0].clone();
    for (std::size_t rank = 1; rank < rows.size(); ++rank)
        combine(total, total, rows[rank], op);
    result.copy_(total);
}

namespace {

at::Tensor factor_of(const c10d::ReduceOp& op, const at::Tensor& tensor)
{
    const auto* factor = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
    TORCH_CHECK(factor != nullptr, "a ReduceOp of PREMUL_SUM needs its factor: "
                "torch.distributed._make_nccl_premul_sum");
    return factor->tensor_factor.defined() ? factor->tensor_factor.to(tensor.options())
                                           : at::full({}, factor->double_factor, tensor.options());
}

}  // namespace

at::Tensor premultiplied(const at::Tensor& tensor, const c10d::ReduceOp& op)
{
    return op == RedOp::PREMUL_SUM ? tensor.mul(factor_of(op, tensor)) : tensor;
}

void premultiply_(at::Tensor& tensor, const c10d::ReduceOp& op)
{
    if (op == RedOp::PREMUL_SUM)
        tensor.mul_(factor_of(op, tensor));
}

void divide_(at::Tensor& sum, int size)
{
    if (c10::isIntegralType(sum.scalar_type(), false))
        sum.div_(size, "trunc");
    else
        sum.div_(size);
}

}  // namespace torch_ocl::distributed
