#include <distributed/tensors.hpp>

#include <algorithm>
#include <functional>

#include <ATen/ops/empty.h>
#include <c10/util/StringUtil.h>
#include <c10/core/ScalarType.h>

namespace torch_ocl::distributed {

at::Tensor flat_source(const at::Tensor& tensor) { return tensor.detach().contiguous().view({-1}); }

at::Tensor flat_target(const at::Tensor& tensor, Moves& moves)
{
    if (tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg())
        return tensor.detach().view({-1});
    at::Tensor beside = at::empty(tensor.sizes(), tensor.options());
    moves.emplace_back(tensor.detach(), beside);
    return beside.view({-1});
}

at::Tensor flat_in_place(const at::Tensor& tensor, Moves& moves)
{
    const std::size_t before = moves.size();
    const at::Tensor target = flat_target(tensor, moves);
    if (moves.size() != before)
        moves.back().second.copy_(tensor.detach());
    return target;
}

bool of_one_size(const std::vector<at::Tensor>& tensors)
{
    return std::all_of(tensors.begin(), tensors.end(),
                       [&](const at::Tensor& tensor) { return tensor.numel() == tensors[0].numel(); });
}

std::vector<at::Tensor> all_of(const std::vector<at::Tensor>& some, const at::Tensor& last)
{
    std::vector<at::Tensor> all = some;
    all.push_back(last);
    return all;
}

std::function<void()> finish(Moves moves, std::function<void()> more)
{
    if (moves.empty())
        return more;
    return [moves = std::move(moves), more = std::move(more)] {
        if (more)
            more();
        for (const auto& [to, from] : moves)
            at::Tensor(to).copy_(from);
    };
}

std::string name_of(at::ScalarType dtype)
{
    switch (dtype) {
    case at::kFloat: return "float32";
    case at::kDouble: return "float64";
    case at::kHalf: return "float16";
    case at::kBFloat16: return "bfloat16";
    case at::kChar: return "int8";
    case at::kShort: return "int16";
    case at::kInt: return "int32";
    case at::kLong: return "int64";
    case at::kByte: return "uint8";
    case at::kBool: return "bool";
    case at::kComplexFloat: return "complex64";
    case at::kComplexDouble: return "complex128";
    default: return c10::toString(dtype);
    }
}

std::string described(const at::Tensor& tensor)
{
    return c10::str(name_of(tensor.scalar_type()), tensor.sizes());
}

std::string counted(const at::Tensor& tensor)
{
    return c10::str(tensor.numel(), tensor.numel() == 1 ? " element of " : " elements of ",
                    name_of(tensor.scalar_type()));
}

}  // namespace torch_ocl::distributed
