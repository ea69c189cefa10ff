#include <gtest/gtest.h>

#include <clprim/clprim.hpp>
#include <core/program_cache.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <sys/wait.h>
#include <unistd.h>

using namespace clprim;
namespace fs = std::filesystem;

namespace {

// The folder is read once per process, before the first test asks for it.
const fs::path folder = [] {
    const fs::path path = fs::temp_directory_path() / ("clprim-test-cache-" + std::to_string(::getpid()));
    fs::create_directories(path);
    ::setenv("CLPRIM_CACHE_DIR", path.c_str(), 1);
    ::setenv("CLPRIM_KEEP_BINARIES", "1", 1);
    return path;
}();

struct RemoveFolder : testing::Environment {
    void TearDown() override { fs::remove_all(folder); }
};
const auto* const removal = testing::AddGlobalTestEnvironment(new RemoveFolder);

std::size_t entries()
{
    std::size_t n = 0;
    for (const auto& file : fs::directory_iterator(folder))
        n += file.path().extension() == ".bin";
    return n;
}

fs::path the_entry()
{
    for (const auto& file : fs::directory_iterator(folder))
        if (file.path().extension() == ".bin")
            return file.path();
    return {};
}

std::string source(int constant)
{
    return "__kernel void constant_" + std::to_string(constant) + "(__global int* x, ulong offset) { x[offset] = " +
           std::to_string(constant) + "; }";
}

int run(ProgramCache& cache, int constant)
{
    Context& context = Context::get(0);
    const Tensor x = context.empty({1}, DataType::int32, context.queue());
    const std::string name = "constant_" + std::to_string(constant);
    context.queue().launch(cache.from_text(name, source(constant), "").kernel(name), Range::groups(1), x);
    int value = 0;
    context.queue().read(*x.memory, 0, &value, sizeof value);
    return value;
}

using ProgramCacheTest = testing::Test;

}  // namespace

TEST_F(ProgramCacheTest, BuildsOnceThenComesFromMemoryAndDisk)
{
    const auto before = entries();
    ProgramCache first(Context::get(0).device(), Context::get(0).handle());
    const Program& program = first.from_text("one", source(1), "");
    EXPECT_EQ(&first.from_text("one", source(1), ""), &program);
    EXPECT_EQ(first.builds(), 1u);
    EXPECT_EQ(entries(), before + 1);
    ProgramCache second(Context::get(0).device(), Context::get(0).handle());
    EXPECT_EQ(run(second, 1), 1);
    EXPECT_EQ(second.builds(), 0u) << "the program on disk was not used";
    second.from_text("one", source(1), "-DOTHER");
    EXPECT_EQ(second.builds(), 1u) << "other options must give another program";
}

TEST_F(ProgramCacheTest, CorruptEntriesAreBuiltAgain)
{
    for (const auto& file : fs::directory_iterator(folder))
        fs::remove(file);
    ProgramCache(Context::get(0).device(), Context::get(0).handle()).from_text("two", source(2), "");
    ASSERT_EQ(entries(), 1u);
    const fs::path file = the_entry();
    const auto size = fs::file_size(file);
    for (std::uintmax_t keep : {std::uintmax_t{0}, std::uintmax_t{10}, size / 2, size - 1}) {
        fs::resize_file(file, keep);
        ProgramCache cache(Context::get(0).device(), Context::get(0).handle());
        EXPECT_EQ(run(cache, 2), 2);
        EXPECT_EQ(cache.builds(), 1u) << "an entry cut to " << keep << " bytes was trusted";
    }
    {
        std::fstream flip(file, std::ios::in | std::ios::out | std::ios::binary);
        flip.seekp(static_cast<std::streamoff>(fs::file_size(file) - 3));
        flip.put('\x5a');
        flip.put('\xa5');
    }
    ProgramCache cache(Context::get(0).device(), Context::get(0).handle());
    EXPECT_EQ(run(cache, 2), 2);
    EXPECT_EQ(cache.builds(), 1u) << "an entry with changed bytes was trusted";
}

TEST_F(ProgramCacheTest, AnotherKeyIsNeverServed)
{
    const fs::path file = folder / "entry";
    save_cache_entry(file, "driver 1", {1, 2, 3});
    EXPECT_EQ(load_cache_entry(file, "driver 1"), (std::vector<unsigned char>{1, 2, 3}));
    EXPECT_EQ(load_cache_entry(file, "driver 2"), std::nullopt);
    EXPECT_EQ(load_cache_entry(folder / "absent", "driver 1"), std::nullopt);
}

TEST_F(ProgramCacheTest, WhatIntelsCompilerIsToldBesideOptionsBelongsToTheKey)
{
    const char* const former = std::getenv("CL_CONFIG_LLVM_OPTIONS");
    const std::string kept = former ? former : "";
    ProgramCache(Context::get(0).device(), Context::get(0).handle()).from_text("nine", source(9), "");
    const auto before = entries();
    ::setenv("CL_CONFIG_LLVM_OPTIONS", "-opt-bisect-verbose=0 ", 1);   // the driver has read it before
    ProgramCache told(Context::get(0).device(), Context::get(0).handle());
    EXPECT_EQ(run(told, 9), 9);
    if (former)
        ::setenv("CL_CONFIG_LLVM_OPTIONS", kept.c_str(), 1);
    else
        ::unsetenv("CL_CONFIG_LLVM_OPTIONS");
    EXPECT_EQ(told.builds(), 1u);
    EXPECT_EQ(entries(), before + 1);
}

TEST_F(ProgramCacheTest, ConcurrentProcessesLeaveWholeEntries)
{
    const fs::path file = folder / "shared";
    std::vector<unsigned char> data(200000, 7);
    for (int child = 0; child < 4; ++child)
        if (::fork() == 0) {
            for (int i = 0; i < 50; ++i) {
                save_cache_entry(file, "key", data);
                const auto seen = load_cache_entry(file, "key");
                if (!seen || *seen != data)
                    ::_exit(1);
            }
            ::_exit(0);
        }
    for (int child = 0; child < 4; ++child) {
        int status = 0;
        ::wait(&status);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

TEST_F(ProgramCacheTest, AProcessWaitsForTheOneThatBuilds)
{
    const fs::path file = folder / "0123456789";
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        const BuildLock lock(file);
        const bool told = ::write(ready[1], "x", 1) == 1;
        ::usleep(200000);
        save_cache_entry(file, "key", {1, 2, 3});
        ::_exit(!told || lock.waited());
    }
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    const BuildLock lock(file);
    EXPECT_TRUE(lock.waited());
    EXPECT_EQ(load_cache_entry(file, "key"), (std::vector<unsigned char>{1, 2, 3}));
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_FALSE(BuildLock(folder / "another").waited());   // nobody builds that one
    EXPECT_FALSE(BuildLock(fs::path()).waited());
}
