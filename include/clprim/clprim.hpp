// Umbrella header of the core.
#pragma once

#include <clprim/activation.hpp>
#include <clprim/context.hpp>
#include <clprim/device.hpp>
#include <clprim/dtype.hpp>
#include <clprim/error.hpp>
#include <clprim/memory.hpp>
#include <clprim/program.hpp>
#include <clprim/queue.hpp>
#include <clprim/tensor.hpp>
#include <clprim/version.h>
