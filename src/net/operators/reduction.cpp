// Sums and means over axes.
#include <clprim/reduce.hpp>

#include "net/fields.hpp"

namespace clprim {

template <class F>
void fields(F& f, ReductionConfig& c)
{
    f("method", c.method);
    f("keep_dim", c.keep_dim);
    f("output_scale", c.output_scale);
    f("dims", c.dims);
    f("start_axis", c.start_axis);
}

namespace {

// In gradients x0 is dy, x1 the input; w0 the scale.
struct Method {
    const char* name;
    const char* step;
    const char* gradient;
    bool reads_input, mean;
};
constexpr Method methods[] = {
    {"sum", "s.sum += x0;", "y0 = w0 * x0;", false, false},
    {"sumsq", "s.sum += x0 * x0;", "y0 = 2 * w0 * x0 * x1;", true, false},
    {"abssum", "s.sum += fabs(x0);", "y0 = x1 > 0 ? w0 * x0 : x1 < 0 ? -w0 * x0 : 0;", true, false},
    {"mean", "s.sum += x0;", "y0 = w0 * x0;", false, true},
};

class Reduction : public ConfiguredOperator<ReductionConfig> {
public:
    Reduction(const char* type, const ReductionConfig& c) : ConfiguredOperator(type, c)
    {
        for (const Method& candidate : methods)
            if (c.method == candidate.name)
                method_ = &candidate;
        require(method_ != nullptr, "option \"method\" must be sum, sumsq, abssum or mean, got ", c.method);
        require(c.dims.empty() || c.start_axis == 0, "options \"dims\" and \"start_axis\" exclude each other");
    }

    OperatorTraits traits() const override { return {.backward_reads_inputs = method_->reads_input}; }

    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require_inputs(inputs, 1);
        require_floating(inputs[0]);
        const Dims& x = inputs[0].shape;
        const auto rank = static_cast<std::int64_t>(x.size());
        std::vector<bool> reduced(x.size());
        const auto mark = [&](std::int64_t dim) {
            require(dim >= -rank && dim < rank, "axis ", dim, " is out of range for shape ", to_string(x));
            reduced[static_cast<std::size_t>(dim < 0 ? dim + rank : dim)] = true;
        };
        for (const std::int64_t dim : config.dims)
            mark(dim);
        if (config.dims.empty() && rank > 0) {
            mark(config.start_axis);
            const std::int64_t first = config.start_axis < 0 ? config.start_axis + rank : config.start_axis;
            for (std::int64_t dim = first; dim < rank; ++dim)
                mark(dim);
        }
        kept_ = x;
        Dims without;
        for (std::size_t i = 0; i < x.size(); ++i) {
            if (reduced[i])
                kept_[i] = 1;
            else
                without.push_back(x[i]);
        }
        const std::int64_t outputs = kept_.product(), count = outputs ? x.product() / outputs : 0;
        scale_ = method_->mean ? config.output_scale / static_cast<double>(count) : config.output_scale;
        if (without.empty())
            without = Dims{1};
        return {{config.keep_dim ? kept_ : without, inputs[0].dtype}};
    }

    void forward(const OperatorCall& call) override
    {
        const Tensor y[] = {call.outputs[0].reshape(kept_)};
        const Scalar scale[] = {Scalar(scale_)};
        pointwise_reduce(call.queue, call.inputs, y, scale,
                         {"T sum;", "s.sum = 0;", method_->step, "s.sum += other.sum;", "y0 = w0 * s.sum;"});
    }

    void backward(const OperatorCall& call) override
    {
        std::vector<Tensor> operands{call.output_gradients[0].reshape(kept_)};
        if (method_->reads_input)
            operands.push_back(call.inputs[0]);
        const Scalar scale[] = {Scalar(scale_)};
        pointwise(call.queue, operands, call.input_gradients, scale, method_->gradient);
    }

private:
    const Method* method_ = nullptr;
    Dims kept_;
    double scale_ = 1;
};

}  // namespace

CLPRIM_OPERATOR(ReductionConfig, Reduction, "Reduction")

}  // namespace clprim
