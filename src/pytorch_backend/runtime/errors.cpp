#include <runtime/errors.hpp>

#include <algorithm>
#include <string_view>

#include <clprim/error_hook.hpp>

namespace torch_ocl {
namespace {

// Operators whose bad index is a RuntimeError of PyTorch's CPU operators: the names under which kernels report it.
constexpr std::string_view without_index_error[] = {
    "gather", "scatter", "scatter_add", "scatter_reduce", "masked_scatter_", "embedding_bag", "max_unpool",
    "multi_margin_loss", "multilabel_margin_loss", "index_select of rows without elements"};

bool is_runtime_error(std::string_view message)
{
    return std::ranges::count(without_index_error, message.substr(0, message.find(':'))) != 0;
}

void throw_as_pytorch(const clprim::Error& error)
{
    if (dynamic_cast<const clprim::OutOfMemory*>(&error) != nullptr)
        TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
    if (dynamic_cast<const clprim::NotSupported*>(&error) != nullptr)
        TORCH_CHECK_NOT_IMPLEMENTED(false, error.what());
    if (dynamic_cast<const clprim::IndexError*>(&error) != nullptr) {
        TORCH_CHECK(!is_runtime_error(error.what()), error.what());
        TORCH_CHECK_INDEX(false, error.what());
    }
}

const bool hook_is_set = [] {
    clprim::set_error_hook(&throw_as_pytorch);
    return true;
}();

}  // namespace

void rethrow_translated()
{
    try {
        throw;
    }
    catch (const clprim::NotSupported& error) {
        TORCH_CHECK_NOT_IMPLEMENTED(false, error.what());
    }
    catch (const clprim::Error& error) {
        TORCH_CHECK(false, error.what());
    }
}

}  // namespace torch_ocl
