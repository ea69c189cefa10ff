/* The first line of what torch._inductor.config.cpp_wrapper generates for the ocl device. */
#pragma once

#include <torch/csrc/inductor/cpp_wrapper/common.h>

#include "inductor_kernel.hpp"
