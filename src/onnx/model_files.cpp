#include "onnx/model_files.hpp"

#include <algorithm>
#include <system_error>

namespace clprim::onnx {

ModelFile look_at(const std::filesystem::path& path)
{
    std::error_code error;
    ModelFile file;
    file.path = std::filesystem::absolute(path, error);
    const auto bytes = std::filesystem::file_size(path, error);
    if (error)
        return file;
    file.bytes = bytes;
    file.written = std::filesystem::last_write_time(path, error);
    return file;
}

bool all_unchanged(const std::vector<ModelFile>& files)
{
    return std::ranges::all_of(files, [](const ModelFile& file) { return look_at(file.path) == file; });
}

}  // namespace clprim::onnx
