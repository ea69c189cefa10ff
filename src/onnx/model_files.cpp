#include "onnx/model_files.hpp"

#include <system_error>
#include <utility>

#include <clprim/error.hpp>

namespace clprim::onnx {

using clprim::detail::InputFile;

ModelFile::ModelFile(const std::filesystem::path& path, std::string location) : location_(std::move(location))
{
    std::error_code error;
    path_ = std::filesystem::absolute(path, error);
    file_ = InputFile::open(path_);
    require(file_ != nullptr, "cannot read ", path.string());
    const auto status = file_->status();
    require(status && status->regular, path.string(), " is not a file");
    status_ = *status;
}

void ModelFile::close() { file_ = nullptr; }

std::shared_ptr<const InputFile> ModelFile::opened() const { return file_ ? file_ : InputFile::open(path_); }

bool ModelFile::is_unchanged() const
{
    const auto file = opened();
    return file && file->status() == status_;
}

bool ModelFile::read(std::uintmax_t offset, std::span<std::byte> buffer) const
{
    const auto file = opened();
    return buffer.empty() || (file && file->read(offset, buffer));
}

}  // namespace clprim::onnx
