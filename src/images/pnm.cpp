// PBM, PGM and PPM, as text (P1 to P3) and as bytes (P4 to P6).
#include <algorithm>
#include <cctype>
#include <charconv>

#include "images/formats.hpp"

namespace clprim::images {

namespace {

class Scanner {
public:
    explicit Scanner(std::string_view file) : file_(file), at_(2) {}      // behind "P1"

    // A number behind white space and comments.
    std::int64_t number()
    {
        skip();
        std::int64_t value = 0;
        const auto [end, error] = std::from_chars(file_.data() + at_, file_.data() + file_.size(), value);
        require(error == std::errc() && value >= 0, "PNM: a number is missing");
        at_ = static_cast<std::size_t>(end - file_.data());
        return value;
    }

    // Bits as text need no space between them.
    std::int64_t bit()
    {
        skip();
        require(at_ < file_.size() && (file_[at_] == '0' || file_[at_] == '1'), "PNM: a bit is missing");
        return file_[at_++] - '0';
    }

    // The bytes behind the one white space that ends the header.
    std::string_view rest(std::int64_t size)
    {
        require(static_cast<std::size_t>(size) < file_.size() - at_, "PNM: the file is truncated");
        return file_.substr(at_ + 1, static_cast<std::size_t>(size));
    }

private:
    void skip()
    {
        for (; at_ < file_.size(); ++at_) {
            if (file_[at_] == '#')
                at_ = std::min(file_.find('\n', at_), file_.size() - 1);
            else if (!std::isspace(static_cast<unsigned char>(file_[at_])))
                return;
        }
    }

    std::string_view file_;
    std::size_t at_;
};

}  // namespace

Image read_pnm(Bytes file)
{
    Scanner scanner(text(file));
    const int kind = text(file)[1] - '0', samples = kind % 3 == 0 ? 3 : 1;
    const bool bits = kind % 3 == 1, as_text = kind <= 3;
    const std::int64_t width = scanner.number(), height = scanner.number(), largest = bits ? 1 : scanner.number();
    require(largest > 0 && largest < 65536, "PNM: the largest value is ", largest, ", expected 1 to 65535");
    const int bytes = largest > 255 ? 2 : 1;
    Image image = sized(width, height);
    const std::int64_t row = bits ? (width + 7) / 8 : width * samples * bytes;
    const std::string_view data = as_text ? std::string_view() : scanner.rest(row * height);
    const auto byte = [&](std::int64_t i) { return static_cast<std::uint8_t>(data[static_cast<std::size_t>(i)]); };
    const auto sample = [&](std::int64_t y, std::int64_t x) -> std::int64_t {
        if (as_text)
            return bits ? 1 - scanner.bit() : scanner.number();
        if (bits)
            return 1 - (byte(y * row + x / 8) >> (7 - x % 8) & 1);          // 1 is black
        return bytes == 1 ? byte(y * row + x) : byte(y * row + 2 * x) * 256 + byte(y * row + 2 * x + 1);
    };
    std::size_t to = 0;
    for (std::int64_t y = 0; y < height; ++y)
        for (std::int64_t x = 0; x < width * samples; ++x) {
            const std::int64_t value = sample(y, x);
            require(value <= largest, "PNM: a value of ", value, " is above ", largest);
            for (int copy = 0; copy < 3 / samples; ++copy)                  // grey three times
                image.pixels[to++] = static_cast<std::uint8_t>((value * 255 + largest / 2) / largest);
        }
    return image;
}

}  // namespace clprim::images
