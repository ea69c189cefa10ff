// Sessions in C++: where results go, recordings, misuse.
#include <clprim/memory_history.hpp>
#include <clprim/onnx.hpp>
#include <clprim/recording.hpp>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "net/net_values.hpp"

namespace {

using namespace clprim;
using test::Values;

TEST(SessionMisuse, RefusesWhatItCannotWriteTo)
{
    Net net(Context::get());
    net.add_input("x", {{2, 3}});
    net.add(PointwiseConfig{.function = "relu"}, "y", {"x"}, {"y"});
    net.add(PointwiseConfig{.function = "sigmoid"}, "z", {"x"}, {"z"});
    net.mark_output("y");
    net.mark_output("z");
    net.setup();
    const std::string bytes = convert_to_onnx(net);
    Session session(OnnxModel::from_bytes(std::as_bytes(std::span(bytes))));
    Queue& queue = session.queue();
    const Value x = Value::zeros(ElementType::float32, {2, 3});
    const Tensor row = queue.context().empty({1, 3}, DataType::float32, queue);
    const Tensor both = queue.context().empty({3, 3}, DataType::float32, queue);
    EXPECT_THROW(session.run({{"x", x}}, {.outputs = {}, .bound = {{"y", row.expand({2, 3})}}}), InvalidArgument);
    EXPECT_THROW(session.run({{"x", x}}, {.outputs = {},
                                          .bound = {{"y", both.slice(0, 0, 2)}, {"z", both.slice(0, 1, 3)}}}),
                 InvalidArgument);
    EXPECT_NO_THROW(session.run({{"x", x}}, {.outputs = {}, .bound = {{"y", both.slice(0, 0, 2)}}}));
    Session kept(std::move(session));
    EXPECT_THROW(session.run({{"x", x}}), InvalidArgument);
    EXPECT_THROW(session.inputs(), InvalidArgument);
    EXPECT_THROW(session.profile(), InvalidArgument);
    session.cancel();
    EXPECT_EQ(kept.run({{"x", x}}).size(), 2u);
}

TEST(Session, ReadsResultsIntoTheHostsMemory)
{
    Net net(Context::get());
    net.add_input("x", {{2, 3}});
    net.add(PointwiseConfig{.function = "relu"}, "y", {"x"}, {"y"});
    net.add(PointwiseConfig{.function = "abs"}, "z", {"x"}, {"z"});
    net.add(PointwiseConfig{.function = "sqrt"}, "r", {"z"}, {"r"});
    for (const char* name : {"y", "z", "r"})
        net.mark_output(name);
    net.setup();
    const std::string bytes = convert_to_onnx(net);
    Session session(OnnxModel::from_bytes(std::as_bytes(std::span(bytes))));
    const Tensor bound = session.context().empty({2, 3}, DataType::float32, session.queue());
    for (int run = 1; run <= 4; ++run) {                  // node by node, recorded, replayed
        const auto number = static_cast<float>(run);
        const std::vector<float> x{-number, number, 0, 4, 9, -16};
        std::map<std::string, std::vector<float>> host;
        RunOptions options{.outputs = {}, .bound = {{"z", bound}}, .to_host = {}};
        options.to_host = [&](const std::string& name, ElementType type, const Dims& shape) -> void* {
            EXPECT_EQ(type, ElementType::float32);
            EXPECT_EQ(shape, (Dims{2, 3}));
            if (name == "r")
                return nullptr;
            host[name].resize(6);
            return host[name].data();
        };
        const Session::Values values =
            session.run({{"x", Value::copy_of(ElementType::float32, {2, 3}, x.data())}}, options);
        EXPECT_EQ(host.size(), 1u);
        EXPECT_EQ(host["y"], (std::vector<float>{0, number, 0, 4, 9, 0}));
        ASSERT_EQ(values.size(), 2u);
        EXPECT_EQ(test::read(session.queue(), values.at("z").device(session.queue())),
                  (std::vector<double>{number, number, 0, 4, 9, 16}));
        EXPECT_FLOAT_EQ(values.at("r").host<float>(session.queue())[5], 4.f);
    }
}

// A model that was read from a file gives weights back in its first run, but not one that is only kept for later.
TEST(Session, OfAFileInARecording)
{
    Net net(Context::get());
    net.load_json(R"({"inputs": [{"name": "x", "shape": [1, 64, 9, 8]}], "outputs": ["y"], "operators": [
        {"name": "a", "type": "Convolution2D", "inputs": ["x"], "outputs": ["z"],
         "options": {"channels_out": 64, "kernel": 3, "pad": 1}},
        {"name": "b", "type": "Convolution2D", "inputs": ["z"], "outputs": ["y"],
         "options": {"channels_out": 64, "kernel": 3, "pad": 1}}]})");
    net.mode(NetMode::predict);
    net.setup();
    net.initialize_parameters(7);
    const std::string bytes = convert_to_onnx(net);
    const auto file = std::filesystem::temp_directory_path() / ("recorded" + std::to_string(::getpid()) + ".onnx");
    std::ofstream(file, std::ios::binary) << bytes;
    Session whole(OnnxModel::from_bytes(std::as_bytes(std::span(bytes)))), session{OnnxModel(file)};
    Queue& queue = session.queue();
    const Tensor x = queue.context().empty({1, 64, 9, 8}, DataType::float32, queue);
    test::write(queue, x, test::random_values(x.numel(), 1));
    const auto result = [&](Session& one) { return test::read(queue, one.run({{"x", x}}).at("y").device(queue)); };
    const Values expected = result(whole);
    const std::uint64_t pool = new_memory_pool(), before = exchange_memory_pool(pool);   // for what is recorded
    Recording recording(queue);
    const Session::Values kept = session.run({{"x", x}});
    recording.end();
    exchange_memory_pool(before);
    recording.replay(queue);
    EXPECT_EQ(test::read(queue, kept.at("y").device(queue)), expected);
    for (int run = 0; run < 3; ++run)
        EXPECT_EQ(result(session), expected);
    release_memory_pool(pool);
    std::filesystem::remove(file);
}

}  // namespace
