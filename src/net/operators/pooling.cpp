// Pooling over windows and over everything.
#include <clprim/pool.hpp>

#include "net/fields.hpp"

namespace clprim {

template <class F>
void fields(F& f, PoolingConfig& c)
{
    f("mode", c.mode);
    f.required("kernel", c.kernel);
    f("stride", c.stride);
    f("pad", c.pad);
    f("pad_end", c.pad_end);
    f("dilate", c.dilate);
    f("count_include_pad", c.count_include_pad);
    f("ceil_mode", c.ceil_mode);
    f("auto_pad", c.auto_pad);
    f("spatial", c.spatial);
}
template <class F>
void fields(F& f, GlobalPoolingConfig& c)
{
    f("mode", c.mode);
}

namespace {

bool is_max(const std::string& mode)
{
    require(mode == "max" || mode == "avg", "option \"mode\" must be max or avg, got ", mode);
    return mode == "max";
}

// What both kinds share: max saves where its maxima are.
class Pool {
public:
    explicit Pool(bool maximum) : maximum_(maximum) {}

    std::vector<TensorSpec> saved(const Dims& y) const
    {
        return maximum_ ? std::vector<TensorSpec>{{y, DataType::int64, false}} : std::vector<TensorSpec>{};
    }
    void forward(const OperatorCall& call, const PoolWindow& window) const
    {
        if (maximum_)
            max_pool(call.queue, call.inputs[0], call.outputs[0], call.saved.empty() ? Tensor() : call.saved[0],
                     window);
        else
            average_pool(call.queue, call.inputs[0], call.outputs[0], window);
    }
    void backward(const OperatorCall& call, const PoolWindow& window) const
    {
        if (maximum_)
            max_pool_backward(call.queue, call.output_gradients[0], call.saved[0], call.input_gradients[0], window);
        else
            average_pool_backward(call.queue, call.output_gradients[0], call.input_gradients[0], window);
    }

private:
    bool maximum_;
};

class Pooling : public ConfiguredOperator<PoolingConfig> {
public:
    explicit Pooling(const PoolingConfig& c)
        : ConfiguredOperator("Pooling" + std::to_string(c.spatial) + "D", c), pool_(is_max(c.mode))
    {
        require(c.spatial >= 1 && c.spatial <= 3, "pooling has 1 to 3 spatial axes, not ", c.spatial);
        require(!c.kernel.empty(), "option \"kernel\" is required");
        require(auto_pad_from(c.auto_pad) == AutoPad::none || (c.pad.empty() && c.pad_end.empty()),
                "options \"auto_pad\" and \"pad\" exclude each other");
        set(window_.kernel, c.kernel, 1, "kernel");
        set(window_.stride, c.stride, 1, "stride");
        set(window_.dilation, c.dilate, 1, "dilate");
        set(window_.padding, c.pad, 0, "pad");
        set(window_.padding_end, c.pad_end.empty() ? c.pad : c.pad_end, 0, "pad_end");
        require(c.mode == "max" || window_.dilation == std::array<int, 3>{1, 1, 1},
                "option \"dilate\" is for mode max");
        window_.count_include_pad = c.count_include_pad;
    }

    OperatorTraits traits() const override { return {.backward_reads_inputs = false}; }

    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require_inputs(inputs, 1);
        require_floating(inputs[0]);
        const Dims& x = inputs[0].shape;
        require(static_cast<std::int64_t>(x.size()) == config.spatial + 2, "input must have ", config.spatial + 2,
                " dimensions, got shape ", to_string(x));
        TensorSpec y = inputs[0];
        const AutoPad rule = auto_pad_from(config.auto_pad);
        for (std::int64_t i = 0; i < config.spatial; ++i) {
            const std::int64_t in = x[2 + i], stride = window_.stride[i];
            const std::int64_t extent = std::int64_t(window_.kernel[i] - 1) * window_.dilation[i] + 1;
            if (rule == AutoPad::same_upper || rule == AutoPad::same_lower) {
                const std::int64_t total =
                    std::max<std::int64_t>(0, ((in + stride - 1) / stride - 1) * stride + extent - in);
                const std::int64_t more = total - total / 2, less = total / 2;
                window_.padding[i] = static_cast<int>(rule == AutoPad::same_upper ? less : more);
                window_.padding_end[i] = static_cast<int>(rule == AutoPad::same_upper ? more : less);
            }
            const std::int64_t begin = window_.padding[i], end = window_.padding_end[i];
            require(begin < extent && end < extent, "padding must be smaller than the window of ", extent, ", got ",
                    begin, " and ", end);
            const std::int64_t room = in + begin + end - extent;
            require(in > 0 && room >= 0, "the window ", to_string(config.kernel), " does not fit the input ",
                    to_string(x));
            std::int64_t& out = y.shape[2 + i];
            out = room / stride + 1;
            // A window that would begin beyond the input and its padding in front is left out (PyTorch's rule).
            if (config.ceil_mode && room % stride != 0 && out * stride < in + begin)
                ++out;
        }
        return {y};
    }

    std::vector<TensorSpec> saved(std::span<const TensorSpec> inputs) override
    {
        return pool_.saved(outputs(inputs)[0].shape);
    }
    void forward(const OperatorCall& call) override { pool_.forward(call, window_); }
    void backward(const OperatorCall& call) override { pool_.backward(call, window_); }

private:
    void set(std::array<int, 3>& target, const Dims& list, std::int64_t least, const char* option) const
    {
        const Dims values = per_axis(list, config.spatial, least, option);
        for (std::size_t i = 0; i < values.size(); ++i) {
            require(values[i] >= least && values[i] < (1 << 24), "option \"", option, "\" must be ", least,
                    " or more, got ", to_string(list));
            target[i] = static_cast<int>(values[i]);
        }
    }

    Pool pool_;
    PoolWindow window_;
};

class GlobalPooling : public ConfiguredOperator<GlobalPoolingConfig> {
public:
    GlobalPooling(const char* type, const GlobalPoolingConfig& c) : ConfiguredOperator(type, c), pool_(is_max(c.mode))
    {
        window_.adaptive = true;
    }
    OperatorTraits traits() const override { return {.backward_reads_inputs = false}; }

    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require_inputs(inputs, 1);
        require_floating(inputs[0]);
        TensorSpec y = inputs[0];
        require(y.shape.size() >= 3 && y.shape.size() <= 5 && y.shape.product() > 0,
                "input must have 3 to 5 dimensions, none of them empty, got shape ", to_string(y.shape));
        for (std::size_t i = 2; i < y.shape.size(); ++i)
            y.shape[i] = 1;
        return {y};
    }

    std::vector<TensorSpec> saved(std::span<const TensorSpec> inputs) override
    {
        return pool_.saved(outputs(inputs)[0].shape);
    }
    void forward(const OperatorCall& call) override { pool_.forward(call, window_); }
    void backward(const OperatorCall& call) override { pool_.backward(call, window_); }

private:
    Pool pool_;
    PoolWindow window_;
};

}  // namespace

PoolingConfig PoolingConfig::from_json(const Options& options) { return read_config<PoolingConfig>(options); }
Options PoolingConfig::to_json() const { return write_config(*this); }
std::unique_ptr<Operator> make_operator(const PoolingConfig& config) { return std::make_unique<Pooling>(config); }
CLPRIM_OPERATOR(GlobalPoolingConfig, GlobalPooling, "GlobalPooling")

}  // namespace clprim
