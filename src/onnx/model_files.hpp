// The files that a model was read from, to read them again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <core/system.hpp>

namespace clprim::onnx {

// A file that stays open while copies of this live: it can be read again after it was replaced, moved or deleted.
class ModelFile {
public:
    // `location`: what the model calls it; empty for its own file. Throws InvalidArgument for what cannot be opened or
    // is no file.
    explicit ModelFile(const std::filesystem::path& path, std::string location = {});

    // For models of very many files: it is opened by its path when it is read again, and must be there then.
    void close();

    const std::filesystem::path& path() const { return path_; }          // as it was then, absolute
    const std::string& location() const { return location_; }
    std::uintmax_t bytes() const { return status_.bytes; }
    // Whether nobody wrote to it since it was opened.
    bool is_unchanged() const;
    // Fills a buffer from a place of the file; false if it ends before that, or cannot be read.
    bool read(std::uintmax_t offset, std::span<std::byte> buffer) const;
    // Bytes of it that are read when they are looked at; null where that cannot be.
    std::shared_ptr<std::byte[]> map(std::uintmax_t offset, std::size_t bytes);
    bool is_mapped() const { return mapped_; }
    // Whether somebody wrote to what was mapped. A file that took its place, or none, changes nothing of that.
    bool was_written_to() const;

private:
    std::shared_ptr<const clprim::detail::InputFile> opened() const;

    std::filesystem::path path_;
    std::string location_;
    std::shared_ptr<const clprim::detail::InputFile> file_;   // null once closed
    clprim::detail::InputFile::Status status_{};
    bool mapped_ = false;
};

// Before constants are looked at that may be mapped: throws InvalidArgument naming a file that was written to.
void require_unwritten(const std::vector<ModelFile>& mapped);

}  // namespace clprim::onnx
