// Files that are read in place.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

#include <core/system.hpp>

namespace {

using clprim::detail::InputFile;

class MappedFile : public testing::Test {
protected:
    MappedFile() : path_(std::filesystem::temp_directory_path() / ("clprim_input_file_" +
                                                                   std::to_string(clprim::detail::thread_id())))
    {
        std::mt19937 random(1);
        for (std::size_t i = 0; i < 300'000; ++i)
            bytes_.push_back(static_cast<std::byte>(random()));
        write();
    }
    ~MappedFile() override { std::filesystem::remove(path_); }

    void write() const
    {
        std::ofstream(path_, std::ios::binary)
            .write(reinterpret_cast<const char*>(bytes_.data()), static_cast<std::streamsize>(bytes_.size()));
    }

    std::filesystem::path path_;
    std::vector<std::byte> bytes_;
};

TEST_F(MappedFile, HasTheFilesBytesFromAnyOffset)
{
    const auto file = InputFile::open(path_);
    ASSERT_NE(file, nullptr);
    for (const std::size_t offset : {0, 1, 4095, 4096, 4097, 65536, 131'073, 299'999})
        for (const std::size_t count : {std::size_t{1}, std::size_t{5000}, bytes_.size() - offset}) {
            if (count > bytes_.size() - offset)
                continue;
            const auto mapped = file->map(offset, count);
            ASSERT_NE(mapped, nullptr) << offset << " " << count;
            EXPECT_TRUE(std::equal(mapped.get(), mapped.get() + count, bytes_.begin() + static_cast<long>(offset)))
                << offset << " " << count;
        }
}

TEST_F(MappedFile, OutlivesTheFileAndItsName)
{
    auto file = InputFile::open(path_);
    const auto mapped = file->map(100, 200'000);
    ASSERT_NE(mapped, nullptr);
    file = nullptr;
    std::filesystem::remove(path_);
    EXPECT_TRUE(std::equal(mapped.get(), mapped.get() + 200'000, bytes_.begin() + 100));
}

TEST_F(MappedFile, IsWrittenToInPrivate)
{
    const auto file = InputFile::open(path_);
    const auto before = file->status();
    const auto mapped = file->map(4097, 70'000), other = file->map(4097, 70'000);
    ASSERT_TRUE(mapped && other);
    std::fill_n(mapped.get(), 70'000, std::byte{7});
    EXPECT_EQ(std::count(mapped.get(), mapped.get() + 70'000, std::byte{7}), 70'000);
    EXPECT_TRUE(std::equal(other.get(), other.get() + 70'000, bytes_.begin() + 4097));
    std::vector<std::byte> read(bytes_.size());
    ASSERT_TRUE(file->read(0, read));
    EXPECT_EQ(read, bytes_);
    EXPECT_EQ(file->status(), before);
}

TEST_F(MappedFile, EndsWhereTheFileDoes)
{
    const auto file = InputFile::open(path_);
    for (const auto& [offset, count] : {std::pair<std::uint64_t, std::size_t>{0, bytes_.size() + 1},
                                        {bytes_.size(), 1},
                                        {bytes_.size() + 1, 1},
                                        {~std::uint64_t{0}, 2},
                                        {1, ~std::size_t{0}},
                                        {0, 0}})
        EXPECT_EQ(file->map(offset, count), nullptr) << offset << " " << count;
    std::filesystem::resize_file(path_, 1000);
    EXPECT_EQ(file->map(0, 1001), nullptr);
    EXPECT_NE(file->map(0, 1000), nullptr);
}

}  // namespace
