// What a program can do wrong beside kernels' operands: files and bytes that are none, devices that are not there,
// objects of OpenCL that do not fit, nets, solvers, sessions and recordings used out of turn. All throw one of
// clprim's exceptions.
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include <clprim/clprim.hpp>
#include <clprim/conv.hpp>
#include <clprim/image.hpp>
#include <clprim/interop.hpp>
#include <clprim/memory_history.hpp>
#include <clprim/onnx.hpp>
#include <clprim/onnx_operator.hpp>
#include <clprim/pointwise.hpp>
#include <clprim/profile.hpp>
#include <clprim/recording.hpp>
#include <clprim/reduce.hpp>
#include <clprim/runtime.hpp>
#include <clprim/solver.hpp>
#include <clprim/transfer.hpp>
#include <clprim/tuning.hpp>
#include <clprim/weights.hpp>

namespace clprim {
namespace {

struct WrongCall {
    const char* name;
    std::function<void()> act;
};

class WrongCallsTest : public testing::Test {
protected:
    Context& context = Context::get();
    Queue& queue = context.queue();
    const Tensor none, x = context.empty({2, 3}, DataType::float32, queue);

    Tensor forged() const
    {
        Tensor t = x;
        t.shape = {2, 300};
        return t;
    }

    void refuse(const std::vector<WrongCall>& calls)
    {
        for (const WrongCall& call : calls) {
            try {
                call.act();
                queue.finish();
                ADD_FAILURE() << call.name << " was accepted";
            } catch (const Error& error) {
                EXPECT_STRNE(error.what(), "") << call.name;
            } catch (const std::exception& error) {
                ADD_FAILURE() << call.name << ": another exception: " << error.what();
            }
        }
    }
};

Bytes bytes_of(std::string_view text)
{
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    return std::make_shared<const std::vector<std::byte>>(begin, begin + text.size());
}

TEST_F(WrongCallsTest, Files)
{
    const HostTensor empty, lying{DataType::float32, {1 << 20}, {}, nullptr},
        negative{DataType::float32, {-4}, {}, nullptr}, untyped{static_cast<DataType>(99), {0}, {}, nullptr};
    refuse({
        {"host_tensor of another size", [&] { host_tensor(DataType::float32, {4}, std::vector<std::byte>(3)); }},
        {"host_tensor of a negative size", [&] { host_tensor(DataType::float32, {-1}, std::vector<std::byte>(4)); }},
        {"host_tensor of sizes that wrap",
         [&] { host_tensor(DataType::float32, {std::int64_t{1} << 62, 4}, std::vector<std::byte>(0)); }},
        {"host_tensor of no type", [&] { host_tensor(static_cast<DataType>(99), {4}, std::vector<std::byte>(4)); }},
        {"host_tensor of too few values", [&] { host_tensor({4}, std::vector<float>(3)); }},
        {"to_device of nothing", [&] { to_device(queue, empty); }},
        {"to_device of a shape without data", [&] { to_device(queue, lying); }},
        {"to_device of a negative size", [&] { to_device(queue, negative); }},
        {"to_device of no type", [&] { to_device(queue, untyped); }},
        {"to_device into nothing", [&] { to_device(queue, host_tensor({2}, std::vector<float>(2)), none); }},
        {"to_device into another shape", [&] { to_device(queue, host_tensor({2}, std::vector<float>(2)), x); }},
        {"to_device into a forged tensor",
         [&] { to_device(queue, host_tensor({2, 300}, std::vector<float>(600)), forged()); }},
        {"to_host of nothing", [&] { to_host(queue, none); }},
        {"to_host of a forged tensor", [&] { to_host(queue, forged()); }},
        {"load_weights of no file", [&] { load_weights("/nonexistent/weights.npz"); }},
        {"load_weights of a folder", [&] { load_weights("/"); }},
        {"save_weights nowhere", [&] { save_weights("/nonexistent/weights.npz", {}); }},
        {"save_weights of no format", [&] { save_weights("weights.docx", {}); }},
        {"save_weights of a shape without data", [&] { npz_bytes({{"w", lying}}); }},
        {"safetensors of a shape without data", [&] { safetensors_bytes({{"w", lying}}); }},
        {"dlpw of a shape without data", [&] { dlpw_bytes({{"w", lying}}); }},
        {"npy of a shape without data", [&] { npy_bytes(lying); }},
        {"npy of a negative size", [&] { npy_bytes(negative); }},
        {"npy of no type", [&] { npy_bytes(untyped); }},
        {"parse_weights of null", [&] { parse_weights(nullptr, "w"); }},
        {"parse_safetensors of null", [&] { parse_safetensors(nullptr, "w"); }},
        {"parse_dlpw of null", [&] { parse_dlpw(nullptr, "w"); }},
        {"parse_npz of null", [&] { parse_npz(nullptr, "w"); }},
        {"parse_npy of null", [&] { parse_npy(nullptr, "w"); }},
        {"parse_weights of nothing", [&] { parse_weights(bytes_of(""), "w"); }},
        {"parse_dlpw of text", [&] { parse_dlpw(bytes_of("none of it"), "w"); }},
        {"decode_image of nothing", [&] { decode_image({}); }},
        {"decode_image of text", [&] { decode_image(*bytes_of("none of it")); }},
    });
}

TEST_F(WrongCallsTest, DevicesAndOpenCL)
{
    const cl::Buffer buffer(context.handle(), CL_MEM_READ_WRITE, 64);
    constexpr std::int64_t huge = std::int64_t{1} << 62;
    const DataType unknown = static_cast<DataType>(99);
    refuse({
        {"device_at below", [&] { device_at(-1); }},
        {"device_at beyond", [&] { device_at(1 << 20); }},
        {"Context::get beyond", [&] { Context::get(1 << 20); }},
        {"Context::get of no device", [&] { Context::get("none of them"); }},
        {"a queue that is not there", [&] { context.queue(1 << 20); }},
        {"a queue below", [&] { context.queue(-1); }},
        {"empty of a negative size", [&] { context.empty({-1}, DataType::float32, queue); }},
        {"empty of sizes that wrap", [&] { context.empty({huge, 4}, DataType::float32, queue); }},
        {"empty of bytes that wrap", [&] { context.empty({huge}, DataType::float32, queue); }},
        {"empty of no type", [&] { context.empty({4}, unknown, queue); }},
        {"a program that is not there", [&] { context.program("kernels/none.cl"); }},
        {"a program that is none", [&] { context.program_from_text("none", "none of it"); }},
        {"a kernel that is not there", [&] {
             context.program_from_text("one", "__kernel void one() {}").kernel("two");
         }},
        {"use_context of null", [&] { use_context(nullptr); }},
        {"use_context of its own", [&] { use_context(context.handle()()); }},
        {"adopt null", [&] { adopt(context, nullptr, DataType::float32, {4}); }},
        {"adopt more than there is", [&] { adopt(context, buffer(), DataType::float32, {17}); }},
        {"adopt from beyond", [&] { adopt(context, buffer(), DataType::float32, {4}, 64); }},
        {"adopt from within an element", [&] { adopt(context, buffer(), DataType::float32, {4}, 2); }},
        {"adopt a negative size", [&] { adopt(context, buffer(), DataType::float32, {-4}); }},
        {"adopt sizes that wrap", [&] { adopt(context, buffer(), DataType::float32, {huge, 4}); }},
        {"adopt strides beyond", [&] { adopt(context, buffer(), DataType::float32, {2, 2}, 0, {huge, 1}); }},
        {"adopt too few strides", [&] { adopt(context, buffer(), DataType::float32, {2, 2}, 0, {1}); }},
        {"adopt no type", [&] { adopt(context, buffer(), unknown, {4}); }},
        {"adopt no queue", [&] { adopt(context, static_cast<cl_command_queue>(nullptr)); }},
        {"with_threads of none", [&] { context.with_threads(0); }},
        {"adopt no event", [&] { adopt(static_cast<cl_event>(nullptr)); }},
        {"memory_of nothing", [&] { memory_of(none); }},
        {"host_address of nothing", [&] { host_address(none); }},
        {"data_type_from_name", [&] { data_type_from_name("number"); }},
        {"limit_tuning to nothing", [&] { limit_tuning(0); }},
        {"limit_tuning to NaN", [&] { limit_tuning(std::numeric_limits<double>::quiet_NaN()); }},
        {"import_tuning of no file", [&] { import_tuning(context.device(), "/nonexistent/tuning.json"); }},
        {"export_tuning nowhere", [&] { export_tuning(context.device(), "/nonexistent/tuning.json"); }},
        {"use_programs of no folder", [&] { use_programs("/nonexistent"); }},
        {"pointwise_row of no name", [&] { pointwise_row("none"); }},
        {"reduce_row of no name", [&] { reduce_row("none"); }},
    });
}

TEST_F(WrongCallsTest, Models)
{
    const auto function = [](const OnnxCall&) { return std::vector<Value>(); };
    refuse({
        {"a model of nothing", [&] { OnnxModel::from_bytes({}); }},
        {"a model of text", [&] { OnnxModel::from_bytes(*bytes_of("none of it")); }},
        {"a model that is not there", [&] { OnnxModel model("/nonexistent/model.onnx"); }},
        {"a model that is a folder", [&] { OnnxModel model("/"); }},
        {"an operator without a name", [&] { register_onnx_operator({.domain = "d", .code = "y0 = x0;"}); }},
        {"an operator of nothing", [&] { register_onnx_operator({.domain = "d", .name = "N"}); }},
        {"an operator of both", [&] {
             register_onnx_operator({.domain = "d", .name = "N", .code = "y0 = x0;", .run = function});
         }},
        {"an operator that there is", [&] { register_onnx_operator({.name = "Relu", .code = "y0 = x0;"}); }},
    });
}

TEST_F(WrongCallsTest, Nets)
{
    Net net(context);
    net.add_input("x", {{2, 3}});
    net.add(PointwiseConfig{.function = "relu"}, "y", {"x"}, {"y"});
    net.mark_output("y");
    SGD solver;
    refuse({
        {"an operator of null", [&] { Net(context).add_operator(nullptr, "y", {}, {"y"}); }},
        {"an input twice", [&] { net.add_input("x", {{2, 3}}); }},
        {"an input of a negative size", [&] { Net(context).add_input("x", {{-2, 3}}); }},
        {"an input of no type", [&] { Net(context).add_input("x", {{2}, static_cast<DataType>(99)}); }},
        {"an input that is not there",
         [&] { net.add(PointwiseConfig{.function = "relu"}, "z", {"none"}, {"z"}); }},
        {"a function that is not there",
         [&] { Net(context).add(PointwiseConfig{.function = "none"}, "z", {"x"}, {"z"}); }},
        {"an output that is not there", [&] { net.mark_output("none"); }},
        {"a tensor that is not there", [&] { net.tensor("none"); }},
        {"an input beyond", [&] { net.input(7); }},
        {"a parameter that is not there", [&] { net.parameter("none"); }},
        {"queues below", [&] { net.queue_count(-1); }},
        {"a file that is not there", [&] { Net(context).load_json_file("/nonexistent/net.json"); }},
        {"no JSON", [&] { Net(context).load_json("none of it"); }},
        {"a solver of a net that is not set up", [&] { solver.step(net); }},
        {"a checkpoint that is not there", [&] { solver.load_checkpoint(net, "/nonexistent/c.npz"); }},
        {"a checkpoint nowhere", [&] { solver.save_checkpoint(net, "/nonexistent/c.npz"); }},
        {"options that are none", [&] { Options options("[1]"); }},
        {"an option of another type", [&] { Options(R"({"a": "b"})").integer("a"); }},
        {"an option that is not there", [&] { Options().integer("a"); }},
    });
}

TEST_F(WrongCallsTest, QueuesAndRecordings)
{
    Recording ended(queue);
    ended.end();
    refuse({
        {"a second recording", [&] {
             Recording first(queue);
             Recording second(queue);
         }},
        {"a recording under way replayed", [&] {
             Recording recording(queue);
             recording.replay(queue);
         }},
    });
    EXPECT_NO_THROW(queue.wait_for(Event()));
    EXPECT_NO_THROW(ended.end());
    EXPECT_NO_THROW(ended.replay(queue));
    Profile profile;
    profile.stop();
    EXPECT_NO_THROW(profile.stop());
    EXPECT_NO_THROW(pop_correlation());
    EXPECT_NO_THROW(pop_annotation());
    EXPECT_NO_THROW(release_memory_pool(1u << 30));
}

}  // namespace
}  // namespace clprim
