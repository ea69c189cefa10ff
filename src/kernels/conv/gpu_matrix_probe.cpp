// Whether a device computes convolutions by block reads of two dimensions, and weight gradients by loads that
// transpose, and computes them right.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include <clprim/copy.hpp>
#include <core/dry_run.hpp>
#include <core/program_cache.hpp>
#include <core/tuning_store.hpp>
#include <kernels/conv/gpu_matrix.hpp>

namespace clprim::conv {
namespace {

constexpr cl_long side = 11, inward = 32, outward = 40, taps = 9;   // an image with padding 1 on each side

float value(cl_long i, cl_long j) { return static_cast<float>((3 * i + 5 * j + i * j / 7) % 3 - 1); }

Tensor upload(Queue& queue, const std::vector<float>& values, Dims shape, DataType type)
{
    const Tensor floats = queue.context().empty(shape, DataType::float32, queue);
    queue.write(*floats.memory, 0, values.data(), values.size() * sizeof values[0]);
    const Tensor result = queue.context().empty(std::move(shape), type, queue);
    copy(queue, floats, result);
    return result;
}

bool near(Queue& queue, const Tensor& actual, const std::vector<float>& expected)
{
    const Tensor floats = queue.context().empty(actual.shape, DataType::float32, queue);
    copy(queue, actual, floats);
    std::vector<float> got(expected.size());
    queue.read(*floats.memory, 0, got.data(), got.size() * sizeof got[0]);
    for (std::size_t i = 0; i < got.size(); ++i)
        if (!(std::abs(got[i] - expected[i]) <= 0.01f * std::abs(expected[i])))   // zeros are exact
            return false;
    return true;
}

// Small whole numbers, channels innermost in all tensors.
struct Known {
    Known()
    {
        const auto fill = [](std::vector<float>& to, cl_long columns, cl_long seed) {
            for (std::size_t i = 0; i < to.size(); ++i)
                to[i] = value(static_cast<cl_long>(i) / columns + seed, static_cast<cl_long>(i) % columns);
        };
        fill(x, inward, 1);
        fill(w, inward, 2);
        fill(dy, outward, 3);
        for (cl_long pixel = 0; pixel < side * side; ++pixel)
            for (cl_long tap = 0; tap < taps; ++tap) {
                const cl_long row = pixel / side + tap / 3 - 1, column = pixel % side + tap % 3 - 1;
                if (row >= 0 && row < side && column >= 0 && column < side)
                    add(pixel, tap, row * side + column);
            }
    }
    void add(cl_long pixel, cl_long tap, cl_long from)
    {
        for (cl_long o = 0; o < outward; ++o)
            for (cl_long c = 0; c < inward; ++c) {
                const auto xi = static_cast<std::size_t>(from * inward + c);
                const auto wi = static_cast<std::size_t>((o * taps + tap) * inward + c);
                const auto yi = static_cast<std::size_t>(pixel * outward + o);
                y[yi] += x[xi] * w[wi];
                dw[wi] += x[xi] * dy[yi];
            }
    }
    std::vector<float> x = std::vector<float>(side * side * inward), w = std::vector<float>(outward * taps * inward),
                       dy = std::vector<float>(side * side * outward), y = dy, dw = w;
};

Call call_of(ConvPass pass, DataType type, const Tensor& x, const Tensor& w, const Tensor& y)
{
    Call call;
    call.pass = pass;
    call.dtype = type;
    call.x = x, call.w = w, call.y = y;
    Problem& p = call.problem;
    p.batch = 1;
    p.in_channels = inward;
    p.out_channels = outward;
    for (int axis : {1, 2}) {
        p.in[axis] = p.out[axis] = side;
        p.kernel[axis] = 3;
        p.pad[axis] = 1;
    }
    const auto strides = [](cl_long (&to)[5], cl_long channels, cl_long rows) {
        const cl_long all[5] = {rows * rows * channels, 1, 0, rows * channels, channels};
        std::copy_n(all, 5, to);
    };
    strides(p.x_strides, inward, side);
    strides(p.y_strides, outward, side);
    strides(p.w_strides, inward, 3);
    return call;
}

// What is asked for, of tensors in memory.
using Try = std::function<bool(Queue&, DataType, const Known&, const Tensor& x, const Tensor& w, const Tensor& dy)>;

bool blocks_are_right(Queue& queue, DataType type, const Known& known, const Tensor& x, const Tensor& w,
                      const Tensor& dy)
{
    const Tensor y = queue.context().empty(dy.shape, type, queue), dw = queue.context().empty(w.shape, type, queue);
    run_in_blocks(queue, call_of(ConvPass::forward, type, x, w, y));
    run_weight_in_blocks(queue, call_of(ConvPass::backward_weight, type, x, dw, dy));
    return near(queue, y, known.y) && near(queue, dw, known.dw);
}

bool turned_is_right(Queue& queue, DataType type, const Known& known, const Tensor& x, const Tensor& w,
                     const Tensor& dy)
{
    const Tensor dw = queue.context().empty(w.shape, type, queue);
    run_gpu_matrix_weight_at(queue, call_of(ConvPass::backward_weight, type, x, dw, dy), turned_point());
    return near(queue, dw, known.dw);
}

bool right(const Device& device, DataType type, const Try& attempt)
try {
    Queue& queue = Context::get(device.index).new_queue();   // the one that asks may be recording
    const Known known;
    const Tensor x = upload(queue, known.x, {side, side, inward}, type);
    const Tensor w = upload(queue, known.w, {outward, taps, inward}, type);
    const Tensor dy = upload(queue, known.dy, {side, side, outward}, type);
    return attempt(queue, type, known, x, w, dy);
} catch (const Error&) {   // it does not build, or does not run
    return false;
}

// Found out once for each device, type and question, and kept on disk for as long as the kernels stay the same.
bool works(const Device& device, DataType type, const char* family, const std::vector<const char*>& kernels,
           const Try& attempt)
{
    if (detail::dry_run())
        return true;
    static std::mutex mutex;
    static std::map<std::tuple<int, DataType, std::string>, bool> known;
    const std::lock_guard lock(mutex);
    const auto [found, is_new] = known.try_emplace({device.index, type, family}, false);
    if (is_new) {
        TuningStore& store = TuningStore::of(device);
        std::string sources;
        for (const char* kernel : kernels)
            sources += kernel_source(kernel);
        const std::string question = fmt::format("{} of {} {}", family, name_of(type), cache_hash(sources));
        std::optional<std::string> answer = store.find(family, question);
        if (!answer) {
            answer = right(device, type, attempt) ? "works" : "does not work";
            store.keep(family, question, *answer);
        }
        found->second = *answer == "works";
    }
    return found->second;
}

}  // namespace

bool blocks_work(const Device& device, DataType type)
{
    return works(device, type, "conv_blocks",
                 {"kernels/conv/gpu_matrix_blocks.cl", "kernels/conv/gpu_matrix_blocks_weight.cl"}, blocks_are_right);
}

bool turned_works(const Device& device, DataType type)
{
    return works(device, type, "conv_turned", {"kernels/conv/gpu_matrix_turned_weight.cl"}, turned_is_right);
}

}  // namespace clprim::conv
