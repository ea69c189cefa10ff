#include "onnx/model_files.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <clprim/error.hpp>

namespace clprim::onnx {
namespace {

std::int64_t time_of(const struct stat& status)
{
    return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

}  // namespace

ModelFile::ModelFile(const std::filesystem::path& path, std::string location) : location_(std::move(location))
{
    std::error_code error;
    path_ = std::filesystem::absolute(path, error);
    descriptor_ = opened();
    require(descriptor_ != nullptr, "cannot read ", path.string());
    struct stat status {};
    require(fstat(*descriptor_, &status) == 0 && S_ISREG(status.st_mode), path.string(), " is not a file");
    bytes_ = static_cast<std::uintmax_t>(status.st_size);
    number_ = status.st_ino;
    written_ = time_of(status);
}

void ModelFile::close() { descriptor_ = nullptr; }

ModelFile::Descriptor ModelFile::opened() const
{
    if (descriptor_)
        return descriptor_;
    const int descriptor = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return nullptr;
    return {new int(descriptor), [](const int* held) {
                ::close(*held);
                delete held;
            }};
}

bool ModelFile::is_unchanged() const
{
    const Descriptor descriptor = opened();
    struct stat status {};
    return descriptor && fstat(*descriptor, &status) == 0 && status.st_ino == number_ &&
           static_cast<std::uintmax_t>(status.st_size) == bytes_ && time_of(status) == written_;
}

bool ModelFile::read(std::uintmax_t offset, std::span<std::byte> buffer) const
{
    const Descriptor descriptor = opened();
    while (!buffer.empty()) {
        const std::size_t step = std::min<std::size_t>(buffer.size(), std::size_t{1} << 30);
        const ssize_t got = descriptor ? pread(*descriptor, buffer.data(), step, static_cast<off_t>(offset)) : -1;
        if (descriptor && got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        offset += static_cast<std::uintmax_t>(got);
        buffer = buffer.subspan(static_cast<std::size_t>(got));
    }
    return true;
}

}  // namespace clprim::onnx
