// What the files of the C interface share: its handles, and errors.
#pragma once

#include <clprim.h>

#include <new>
#include <string>

#include <clprim/onnx.hpp>

struct clprim_tensor {
    clprim::Value value;
    clprim::Queue* queue = nullptr;   // of the session that made it
};

namespace clprim::c_api {

// Keeps the message for clprim_last_error and returns the status.
clprim_status failed(clprim_status status, const char* message) noexcept;

// No exception crosses into C.
template <class F>
clprim_status guarded(F&& body) noexcept
{
    try {
        body();
        return CLPRIM_OK;
    } catch (const InvalidArgument& e) {
        return failed(CLPRIM_INVALID_ARGUMENT, e.what());
    } catch (const NotSupported& e) {
        return failed(CLPRIM_NOT_SUPPORTED, e.what());
    } catch (const IndexError& e) {
        return failed(CLPRIM_INDEX_ERROR, e.what());
    } catch (const OutOfMemory& e) {
        return failed(CLPRIM_OUT_OF_MEMORY, e.what());
    } catch (const std::bad_alloc&) {
        return failed(CLPRIM_OUT_OF_MEMORY, "the host has no memory left");
    } catch (const OpenCLError& e) {
        return failed(CLPRIM_OPENCL_ERROR, e.what());
    } catch (const BuildError& e) {
        return failed(CLPRIM_OPENCL_ERROR, e.what());
    } catch (const Cancelled& e) {
        return failed(CLPRIM_CANCELLED, e.what());
    } catch (const std::exception& e) {
        return failed(CLPRIM_INTERNAL_ERROR, e.what());
    } catch (...) {
        return failed(CLPRIM_INTERNAL_ERROR, "unknown error");
    }
}

inline Context& context_of(const char* device)
{
    return device ? Context::get(std::string_view(device)) : Context::get(0);
}

}  // namespace clprim::c_api
