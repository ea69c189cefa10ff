// Pictures as floats: reading, resizing, and what networks want subtracted and divided.
#pragma once

#include <string>
#include <vector>

#include <clprim/image.hpp>

namespace clprim::command {

// By content (clprim/image.hpp). Errors name the file.
Image read_image(const std::string& path);
bool is_image_path(const std::string& path);         // by the extension

struct Preparation {
    std::vector<float> mean{0.485f, 0.456f, 0.406f}, deviation{0.229f, 0.224f, 0.225f};   // of values from 0 to 1
    bool crop = true;        // keep the aspect and cut the middle; otherwise stretch
    bool channels_last = false;
};

// (pixel / 255 - mean) / deviation in `channels` planes (3, or 1 for grey) of height x width, resized by averaging over
// the source area (bilinear when enlarging).
std::vector<float> prepare_image(const Image& image, int channels, int height, int width, const Preparation& how);

}  // namespace clprim::command
