// The files that a model was read from, to read it again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace clprim::onnx {

struct ModelFile {
    std::filesystem::path path;                    // absolute
    std::uintmax_t bytes = 0;
    std::filesystem::file_time_type written{};

    friend bool operator==(const ModelFile&, const ModelFile&) = default;
};

// A file as it is now; of no bytes where there is none.
ModelFile look_at(const std::filesystem::path& path);

bool all_unchanged(const std::vector<ModelFile>& files);

}  // namespace clprim::onnx
