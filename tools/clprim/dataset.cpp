#include "dataset.hpp"

#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include <clprim/error.hpp>

#include "images.hpp"

namespace clprim::command {

namespace fs = std::filesystem;

namespace {

class IdxReader {
public:
    // gzopen reads plain files as well.
    explicit IdxReader(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb"), &gzclose)
    {
        require(file_ != nullptr, "cannot read ", path);
    }

    // The sizes of an array of bytes with `dims` axes.
    std::vector<std::uint32_t> header(int dims)
    {
        std::uint8_t magic[4];
        read(magic, 4);
        require(magic[0] == 0 && magic[1] == 0 && magic[2] == 8 && magic[3] == dims, path_,
                " is no idx file of bytes with ", dims, " axes");
        std::vector<std::uint32_t> sizes;
        for (int i = 0; i < dims; ++i) {
            std::uint8_t b[4];
            read(b, 4);
            sizes.push_back(static_cast<std::uint32_t>(b[0]) << 24 | static_cast<std::uint32_t>(b[1]) << 16 |
                            static_cast<std::uint32_t>(b[2]) << 8 | b[3]);
            require(sizes.back() <= 1u << 26, path_, ": absurd size ", sizes.back());
        }
        return sizes;
    }

    // Grows with what the file really holds: a header alone reserves nothing.
    std::vector<std::uint8_t> bytes(std::uint64_t count)
    {
        std::vector<std::uint8_t> result;
        while (result.size() < count) {
            const std::size_t begin = result.size(), piece = std::min<std::uint64_t>(count - begin, 1 << 24);
            result.resize(begin + piece);
            read(result.data() + begin, piece);
        }
        return result;
    }

private:
    void read(std::uint8_t* target, std::size_t count)
    {
        require(gzread(file_.get(), target, static_cast<unsigned>(count)) == static_cast<int>(count), path_,
                " is truncated or damaged");
    }

    std::string path_;
    std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

std::string with_or_without_gz(const fs::path& path)
{
    return fs::exists(path) ? path.string() : path.string() + ".gz";
}

bool has_idx(const fs::path& folder)
{
    return fs::exists(with_or_without_gz(folder / "train-images-idx3-ubyte"));
}

Dataset part_of(const Dataset& data, const std::vector<std::size_t>& chosen)
{
    Dataset result{data.channels, data.height, data.width, {}, {}, data.classes};
    for (const std::size_t i : chosen) {
        const auto begin = data.pixels.begin() + static_cast<std::ptrdiff_t>(i * data.image_bytes());
        result.pixels.insert(result.pixels.end(), begin, begin + static_cast<std::ptrdiff_t>(data.image_bytes()));
        result.labels.push_back(data.labels[i]);
    }
    return result;
}

}  // namespace

int Dataset::class_count() const
{
    const int largest = labels.empty() ? 0 : *std::ranges::max_element(labels);
    return std::max(largest + 1, static_cast<int>(classes.size()));
}

Dataset read_idx(const std::string& images, const std::string& labels)
{
    IdxReader image_file(images), label_file(labels);
    const auto sizes = image_file.header(3);
    const auto count = label_file.header(1)[0];
    require(sizes[0] == count, images, " holds ", sizes[0], " images, ", labels, " ", count, " labels");
    require(sizes[1] > 0 && sizes[2] > 0 && sizes[1] <= 4096 && sizes[2] <= 4096, images, ": images of ", sizes[1],
            " x ", sizes[2]);
    Dataset data{1, static_cast<int>(sizes[1]), static_cast<int>(sizes[2]), {}, {}, {}};
    const auto numbers = label_file.bytes(count);
    data.labels.assign(numbers.begin(), numbers.end());
    data.pixels = image_file.bytes(static_cast<std::uint64_t>(count) * sizes[1] * sizes[2]);
    return data;
}

Dataset read_folder(const std::string& folder, int size, const std::vector<std::string>& classes)
{
    Dataset data{3, size, size, {}, {}, classes};
    if (classes.empty())
        for (const auto& entry : fs::directory_iterator(folder))
            if (entry.is_directory())
                data.classes.push_back(entry.path().filename().string());
    if (classes.empty())
        std::ranges::sort(data.classes);
    require(!data.classes.empty(), folder, " has no folders of images");
    Preparation plain;               // back to bytes: prepare_image gives 0 to 1
    plain.mean = {0};
    plain.deviation = {1};
    for (std::size_t label = 0; label < data.classes.size(); ++label) {
        std::vector<fs::path> files;
        require(fs::is_directory(fs::path(folder) / data.classes[label]), folder, " has no folder ",
                data.classes[label]);
        for (const auto& entry : fs::directory_iterator(fs::path(folder) / data.classes[label]))
            if (entry.is_regular_file() && is_image_path(entry.path().string()))
                files.push_back(entry.path());
        std::ranges::sort(files);
        for (const fs::path& file : files) {
            for (const float x : prepare_image(read_image(file.string()), 3, size, size, plain))
                data.pixels.push_back(static_cast<std::uint8_t>(std::clamp(x * 255 + 0.5f, 0.0f, 255.0f)));
            data.labels.push_back(static_cast<std::int32_t>(label));
        }
    }
    require(data.size() > 0, folder, " holds no images");
    return data;
}

Split read_data(const std::string& folder, int size)
{
    const fs::path root(folder);
    const auto idx = [&](const char* part) {
        return read_idx(with_or_without_gz(root / (std::string(part) + "-images-idx3-ubyte")),
                        with_or_without_gz(root / (std::string(part) + "-labels-idx1-ubyte")));
    };
    if (has_idx(root))
        return {idx("train"), idx("t10k")};
    for (const char* test : {"val", "test"})
        if (fs::is_directory(root / "train") && fs::is_directory(root / test)) {
            Dataset train = read_folder((root / "train").string(), size);
            Dataset held = read_folder((root / test).string(), size, train.classes);
            return {std::move(train), std::move(held)};
        }
    const Dataset all = read_folder(folder, size);
    std::vector<std::size_t> train, test;
    for (std::size_t i = 0; i < all.size(); ++i)
        (i % 10 == 9 ? test : train).push_back(i);
    return {part_of(all, train), part_of(all, test)};
}

}  // namespace clprim::command
