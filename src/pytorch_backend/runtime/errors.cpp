#include <runtime/errors.hpp>

namespace torch_ocl {

void rethrow_translated()
{
    try {
        throw;
    }
    catch (const clprim::OutOfMemory& error) {
        TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
    }
    catch (const clprim::IndexError& error) {
        TORCH_CHECK_INDEX(false, error.what());
    }
    catch (const clprim::NotSupported& error) {
        TORCH_CHECK_NOT_IMPLEMENTED(false, error.what());
    }
    catch (const clprim::Error& error) {
        TORCH_CHECK(false, error.what());
    }
}

}  // namespace torch_ocl
