// clprim bench: how fast products, convolutions, reductions and copies of memory are.
#include <algorithm>
#include <functional>

#include <clprim/conv.hpp>
#include <clprim/copy.hpp>
#include <clprim/gemm.hpp>
#include <clprim/reduce.hpp>

#include "command.hpp"
#include "options.hpp"

namespace clprim::command {

namespace {

// One thing to measure. Exactly one of operations and bytes is the measure of speed.
struct Case {
    std::string group, name;
    double operations = 0, bytes = 0;
    std::function<void()> run;
};

class Bench {
public:
    Bench(Queue& queue, DataType dtype) : queue_(queue), dtype_(dtype) {}

    std::vector<Case> cases(double scale)
    {
        std::vector<Case> result;
        for (const std::int64_t size : {512, 1024, 2048})
            result.push_back(product(size, size, size));
        result.push_back(product(64, 4096, 1024));
        result.push_back(product(1, 4096, 4096));
        result.push_back(convolution("3x3 of 64 channels, 56x56", {16, 64, 56, 56}, {64, 64, 3, 3}, 1, 1));
        result.push_back(convolution("1x1 of 256 to 64 channels, 56x56", {16, 256, 56, 56}, {64, 256, 1, 1}, 0, 1));
        result.push_back(convolution("7x7 stride 2 of 3 channels, 224x224", {16, 3, 224, 224}, {64, 3, 7, 7}, 3, 2));
        result.push_back(depthwise());
        const auto many = static_cast<std::int64_t>(scale * (1 << 24));
        add_memory(result, many);
        return result;
    }

private:
    Tensor make(const Dims& shape)
    {
        const Tensor tensor = queue_.context().empty(shape, dtype_, queue_);
        fill(queue_, tensor, 0.5);
        return tensor;
    }

    Case product(std::int64_t m, std::int64_t n, std::int64_t k)
    {
        const Tensor a = make({m, k}), b = make({k, n}), c = make({m, n});
        return {"gemm", std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k),
                2.0 * static_cast<double>(m * n * k), 0,
                [=, this] { gemm(queue_, gemm_problem(a, b, c), a, b, c); }};
    }

    Case convolution(const char* name, const Dims& x_shape, const Dims& w_shape, std::int64_t pad, std::int64_t stride,
                     std::int64_t groups = 1)
    {
        ConvOptions options;
        options.pad_begin = options.pad_end = Dims(2, pad);
        options.stride = Dims(2, stride);
        options.groups = groups;
        const Tensor x = make(x_shape), w = make(w_shape), y = make(conv_output_shape(x_shape, w_shape, options));
        const double operations = 2.0 * static_cast<double>(y.numel() * w_shape[1] * w_shape[2] * w_shape[3]);
        return {"conv", name, operations, 0, [=, this] { conv_forward(queue_, x, w, {}, y, options); }};
    }

    Case depthwise()
    {
        return convolution("3x3 depthwise, 96 channels, 112x112", {16, 96, 112, 112}, {96, 1, 3, 3}, 1, 1, 96);
    }

    void add_memory(std::vector<Case>& result, std::int64_t count)
    {
        const double bytes = static_cast<double>(count) * static_cast<double>(size_of(dtype_));
        const Tensor x = make({count}), y = make({count}), sum = make({1});
        result.push_back({"bandwidth", "copy", 0, 2 * bytes, [=, this] { copy(queue_, x, y); }});
        result.push_back({"bandwidth", "fill", 0, bytes, [=, this] { fill(queue_, y, 1.0); }});
        result.push_back({"broadcast-reduce", "y = 2 x + y", 0, 3 * bytes, [=, this] {
            const Tensor inputs[] = {x, y}, outputs[] = {y};
            const Scalar two[] = {2.0};
            pointwise(queue_, inputs, outputs, two, "y0 = w0 * x0 + x1;");
        }});
        const ReduceRow& add = reduce_row("sum");
        result.push_back({"broadcast-reduce", "sum of all", 0, bytes, [=, this, &add] {
            const Input inputs[] = {x};
            const Tensor outputs[] = {sum};
            reduce(queue_, add, {inputs, outputs, {}, dtype_});
        }});
        const std::int64_t channels = 64, plane = count / channels / 16;
        const Tensor image = make({16, channels, plane}), scale = make({1, channels, 1});
        const double image_bytes = static_cast<double>(image.nbytes());
        result.push_back({"broadcast-reduce", "image * scale of channel", 0, 2 * image_bytes, [=, this] {
            const Tensor inputs[] = {image, scale}, outputs[] = {image};
            pointwise(queue_, inputs, outputs, {}, "y0 = x0 * x1;");
        }});
        result.push_back({"broadcast-reduce", "sum over all but channels", 0, image_bytes, [=, this, &add] {
            const Input inputs[] = {image};
            const Tensor outputs[] = {scale};
            reduce(queue_, add, {inputs, outputs, {}, dtype_});
        }});
    }

    Queue& queue_;
    DataType dtype_;
};

// Median of runs that take about `budget` seconds together, each waited for.
double measure(Queue& queue, const Case& test, double budget)
{
    test.run();      // builds the program
    queue.finish();
    std::vector<double> times;
    const auto begin = std::chrono::steady_clock::now();
    do {
        const auto start = std::chrono::steady_clock::now();
        test.run();
        queue.finish();
        times.push_back(seconds_since(start));
    } while (times.size() < 3 || (seconds_since(begin) < budget && times.size() < 1000));
    std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
    return times[times.size() / 2];
}

}  // namespace

void bench(const BenchOptions& options)
{
    Queue& queue = options.context().queue();
    Bench measured(queue, data_type_from_name(options.dtype));
    std::vector<Case> cases = measured.cases(options.scale);
    if (!options.groups.empty())
        std::erase_if(
            cases, [&](const Case& c) { return std::ranges::find(options.groups, c.group) == options.groups.end(); });
    Json results = Json::array();
    Progress progress("bench", cases.size());
    for (const Case& test : cases) {
        const double seconds = measure(queue, test, options.budget);
        Json row{{"group", test.group}, {"name", test.name}, {"milliseconds", seconds * 1e3}};
        row[test.operations > 0 ? "gflops" : "gbytes_per_second"] =
            std::max(test.operations, test.bytes) / seconds / 1e9;
        results.push_back(row);
        progress.step(test.name);
    }
    if (options.json)
        return print({{"device", queue.device().name}, {"dtype", options.dtype}, {"results", results}});
    std::printf("%s, %s\n", queue.device().name.c_str(), options.dtype.c_str());
    for (const Json& row : results)
        std::printf("%-17s %-38s %10.3f ms %9.1f %s\n", row["group"].get<std::string>().c_str(),
                    row["name"].get<std::string>().c_str(), row["milliseconds"].get<double>(),
                    row.value("gflops", row.value("gbytes_per_second", 0.0)),
                    row.contains("gflops") ? "GFLOP/s" : "GB/s");
}

}  // namespace clprim::command
