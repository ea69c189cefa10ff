// Labelled images in memory, as bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace clprim::command {

struct Dataset {
    int channels = 1, height = 0, width = 0;
    std::vector<std::uint8_t> pixels;        // N, C, H, W
    std::vector<std::int32_t> labels;
    std::vector<std::string> classes;        // names, where they are known

    std::size_t size() const { return labels.size(); }
    std::size_t image_bytes() const
    {
        return static_cast<std::size_t>(channels) * static_cast<std::size_t>(height * width);
    }
    int class_count() const;
};

// A pair of idx files as MNIST has, plain or gzipped. Throws InvalidArgument for what is not one, or truncated.
Dataset read_idx(const std::string& images, const std::string& labels);
// Images of a folder whose folders are the classes, resized to size x size in colour. `classes` gives the order; empty:
// sorted names.
Dataset read_folder(const std::string& folder, int size, const std::vector<std::string>& classes = {});

struct Split {
    Dataset train, test;
};
// A folder with train-images-idx3-ubyte and so on (with or without .gz), with folders train and val or test, or with
// one folder for each class, of whose images every tenth is kept for testing.
Split read_data(const std::string& folder, int size);

}  // namespace clprim::command
