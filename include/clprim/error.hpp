// Exceptions of clprim. Every public function throws one of these and nothing else of its own.
#pragma once

#include <cstddef>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include <clprim/export.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// Base of all exceptions thrown by clprim.
class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// An argument breaks the contract of the function called; nothing was launched.
class InvalidArgument : public Error {
public:
    using Error::Error;
};

// The request is meaningful, but this device or this build cannot serve it (float64 on a device without it, say).
class NotSupported : public Error {
public:
    using Error::Error;
};

// An index lay outside its dimension. Found by a kernel, reported at the next synchronisation of its queue.
class IndexError : public Error {
public:
    using Error::Error;
};

// An OpenCL call failed. The message holds the call, OpenCL's name of the code and, for a launch, the kernel.
class OpenCLError : public Error {
public:
    OpenCLError(std::string_view call, int code, std::string_view detail = {});
    int code() const noexcept { return code_; }

private:
    int code_;
};

// A program did not compile; log() is the driver's own build log.
class BuildError : public Error {
public:
    BuildError(std::string_view program, std::string_view options, std::string log);
    const std::string& log() const noexcept { return log_; }

private:
    std::string log_;
};

// The device has no room for an allocation, also after the allocator gave back everything it had cached.
class OutOfMemory : public Error {
public:
    OutOfMemory(const std::string& message, std::size_t requested) : Error(message), requested_(requested) {}
    std::size_t requested() const noexcept { return requested_; }

private:
    std::size_t requested_;
};

// OpenCL's name of an error code, e.g. "CL_INVALID_KERNEL_ARGS"; "unknown OpenCL error" for others.
const char* opencl_error_name(int code) noexcept;

// Throws OpenCLError unless code is CL_SUCCESS.
void check_opencl(int code, std::string_view call, std::string_view detail = {});

namespace detail {
template <class... Parts>
std::string concat(const Parts&... parts)
{
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
}
}  // namespace detail

// Throws E (InvalidArgument by default) with the concatenated parts unless the condition holds.
template <class E = InvalidArgument, class... Parts>
inline void require(bool condition, const Parts&... parts)
{
    if (!condition) [[unlikely]]
        throw E(detail::concat(parts...));
}

}  // namespace clprim
CLPRIM_API_END
