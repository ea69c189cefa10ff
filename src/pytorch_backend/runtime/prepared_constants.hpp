// What operators derive from tensors that never change (clprim/prepared.hpp), such as the weights of a frozen model.
#pragma once

#include <ATen/core/Tensor.h>
#include <clprim/prepared.hpp>

namespace torch_ocl {

// Where it is kept: by storage and view, until the storage goes. A tensor that was written to after all, as its version
// tells, begins anew. The result is valid while `constant` lives and is not written to.
clprim::Prepared* prepared_of(const at::Tensor& constant);

// Lets go what was kept for storages that are gone; new constants do so from time to time.
void release_prepared_of_gone();

}  // namespace torch_ocl
