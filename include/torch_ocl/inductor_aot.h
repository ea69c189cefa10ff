/* The first line of what AOTInductor generates for the ocl device.
 *
 * PyTorch's headers of a package know four kinds of devices and how each keeps constants. The ocl device's way is that
 * of MPS: one buffer, and tensors at offsets into it. So the headers are read as for MPS, with this device's type and
 * functions in the places of those; a package is opened as "mps:<index>" (inductor/runner.cpp). */
#pragma once

#include "inductor.h"

#define USE_MPS 1
#define aoti_torch_device_type_mps aoti_torch_device_type_privateuse1
#define aoti_torch_mps_malloc torch_ocl_malloc
#define aoti_torch_mps_free torch_ocl_free
#define aoti_torch_mps_memcpy torch_ocl_memcpy
#define aoti_torch_mps_copy_buffer torch_ocl_copy

#include <torch/csrc/inductor/aoti_include/common.h>

#include "inductor_kernel.hpp"
