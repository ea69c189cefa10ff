// What the files of the C interface share: its handles, and errors.
#pragma once

#include <clprim.h>

#include <filesystem>
#include <mutex>
#include <new>
#include <string>

#include <clprim/onnx.hpp>

struct clprim_tensor {
    clprim::Value value;
    clprim::Queue* queue = nullptr;   // of the session that made it
    std::mutex mutex{};
    clprim::Tensor row_major{};       // for clprim_tensor_buffer, where the value's own elements lie otherwise
};

namespace clprim::c_api {

// Keeps "function: message" for clprim_last_error and returns the status.
clprim_status failed(const char* function, clprim_status status, const char* message) noexcept;

// No exception crosses into C. `function` is the caller's __func__.
template <class F>
clprim_status guarded(const char* function, F&& body) noexcept
{
    try {
        body();
        return CLPRIM_OK;
    } catch (const InvalidArgument& e) {
        return failed(function, CLPRIM_INVALID_ARGUMENT, e.what());
    } catch (const NotSupported& e) {
        return failed(function, CLPRIM_NOT_SUPPORTED, e.what());
    } catch (const IndexError& e) {
        return failed(function, CLPRIM_INDEX_ERROR, e.what());
    } catch (const OutOfMemory& e) {
        return failed(function, CLPRIM_OUT_OF_MEMORY, e.what());
    } catch (const std::bad_alloc&) {
        return failed(function, CLPRIM_OUT_OF_MEMORY, "the host has no memory left");
    } catch (const OpenCLError& e) {
        return failed(function, CLPRIM_OPENCL_ERROR, e.what());
    } catch (const BuildError& e) {
        return failed(function, CLPRIM_OPENCL_ERROR, e.what());
    } catch (const Cancelled& e) {
        return failed(function, CLPRIM_CANCELLED, e.what());
    } catch (const std::filesystem::filesystem_error& e) {   // a path that the system refuses
        return failed(function, CLPRIM_INVALID_ARGUMENT, e.what());
    } catch (const std::exception& e) {
        return failed(function, CLPRIM_INTERNAL_ERROR, e.what());
    } catch (...) {
        return failed(function, CLPRIM_INTERNAL_ERROR, "unknown error");
    }
}

inline void require_given(const void* argument, const char* name, const char* expected)
{
    require(argument != nullptr, name, " is NULL; expected ", expected);
}

inline Context& context_of(const char* device)
{
    return device ? Context::get(std::string_view(device)) : Context::get(0);
}

}  // namespace clprim::c_api
