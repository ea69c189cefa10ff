// Values of nets in double, for tests.
#pragma once

#include <functional>
#include <random>
#include <vector>

#include <clprim/copy.hpp>
#include <clprim/net.hpp>

namespace clprim::test {

using Values = std::vector<double>;

inline Values random_values(std::int64_t count, unsigned seed, double low = -1, double high = 1)
{
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> uniform(low, high);
    Values values(static_cast<std::size_t>(count));
    for (double& v : values)
        v = static_cast<float>(uniform(random));
    return values;
}

// Calls f(position) for all positions within a shape.
inline void each(const Dims& shape, const std::function<void(const Dims&)>& f)
{
    Dims at(shape.size(), 0);
    for (std::int64_t n = shape.product(); n > 0; --n) {
        f(at);
        for (std::size_t i = shape.size(); i-- > 0;) {
            if (++at[i] < shape[i])
                break;
            at[i] = 0;
        }
    }
}

inline double at(const Values& values, const Dims& shape, const Dims& position)
{
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < shape.size(); ++i)
        offset = offset * shape[i] + position[i];
    return values[static_cast<std::size_t>(offset)];
}

inline std::string input_name(std::size_t i) { return std::string("x").append(std::to_string(i)); }

inline void write(Queue& queue, const Tensor& target, const Values& values)
{
    const std::vector<float> floats(values.begin(), values.end());
    to_device(queue, host_tensor(target.shape, floats), target);
}

inline Values read(Queue& queue, const Tensor& source)
{
    const Tensor floats = queue.context().empty(source.shape, DataType::float32, queue);
    copy(queue, source, floats);
    const HostTensor host = to_host(queue, floats);
    const auto* begin = reinterpret_cast<const float*>(host.data.data());
    return {begin, begin + host.data.size() / sizeof(float)};
}

// A net of one operator "op" with inputs x0, x1.., in train mode, all inputs but integers with gradients, whose output
// "y" is weighted by the gradient `dy`.
struct Single {
    Net net;
    Values dy;

    Single(const std::string& type, const std::string& options, const std::vector<TensorSpec>& inputs,
           NetMode mode = NetMode::train)
        : net(Context::get())
    {
        std::vector<std::string> names;
        for (const TensorSpec& spec : inputs) {
            names.push_back(input_name(names.size()));
            net.add_input(names.back(), spec, is_floating_point(spec.dtype));
        }
        net.add_operator(make_operator(type, Options(options)), "op", names, {"y"});
        net.mark_output("y");
        net.use_output_gradient("y");
        net.mode(mode);
        net.setup();
    }
    void set(const std::string& name, const Values& values) { write(net.queue(), net.tensor(name), values); }
    void set_parameter(int i, const Values& values)
    {
        write(net.queue(), net.parameter("op." + std::to_string(i)), values);
        net.parameters_changed();
    }
    Values forward()
    {
        net.forward();
        return read(net.queue(), net.tensor("y"));
    }
    void backward(const Values& gradient)
    {
        write(net.queue(), net.gradient("y"), gradient);
        net.backward();
    }
    Values gradient(const std::string& name) { return read(net.queue(), net.gradient(name)); }
    Values parameter_gradient(int i) { return read(net.queue(), net.parameter_gradient("op." + std::to_string(i))); }
};

}  // namespace clprim::test
