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

std::shared_ptr<std::byte[]> ModelFile::map(std::uintmax_t offset, std::size_t bytes)
{
    const auto file = opened();
    auto mapped = file ? file->map(offset, bytes) : nullptr;
    mapped_ |= mapped != nullptr;
    return mapped;
}

bool ModelFile::was_written_to() const
{
    const auto file = opened();
    const auto status = file ? file->status() : std::nullopt;
    return status && status->number == status_.number && status != status_;
}

void require_unwritten(const std::vector<ModelFile>& mapped)
{
    for (const ModelFile& file : mapped)
        require(!file.was_written_to(), "the model's external data '", file.path().string(),
                "' changed since the model was read, which leaves weights in their file until they are used");
}

}  // namespace clprim::onnx
