#include <runtime/errors.hpp>

#include <clprim/error_hook.hpp>

namespace torch_ocl {
namespace {

void throw_as_pytorch(const clprim::Error& error)
{
    if (dynamic_cast<const clprim::OutOfMemory*>(&error) != nullptr)
        TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
    if (dynamic_cast<const clprim::IndexError*>(&error) != nullptr)
        TORCH_CHECK_INDEX(false, error.what());
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
