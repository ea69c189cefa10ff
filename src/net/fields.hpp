// Configurations to and from Options. A configuration lists its members once, in a function template
//     template <class F> void fields(F& f, XConfig& c) { f("stride", c.stride); f.required("kernel", c.kernel); }
// which reads and writes them. Options that no member is called like are reported.
#pragma once

#include <set>

#include <clprim/operators.hpp>

namespace clprim {

std::string_view name_of(Activation activation);
Activation standard_activation(std::string_view name);   // throws InvalidArgument

class FieldReader {
public:
    explicit FieldReader(const Options& options) : options_(options) {}

    void operator()(const char* name, std::int64_t& value) { if (has(name)) value = options_.integer(name); }
    void operator()(const char* name, double& value) { if (has(name)) value = options_.number(name); }
    void operator()(const char* name, bool& value) { if (has(name)) value = options_.boolean(name); }
    void operator()(const char* name, std::string& value) { if (has(name)) value = options_.text(name); }
    void operator()(const char* name, Dims& value) { if (has(name)) value = options_.dims(name); }
    void operator()(const char* name, std::vector<double>& value) { if (has(name)) value = options_.numbers(name); }
    void operator()(const char* name, Activation& value)
    {
        if (has(name))
            value = standard_activation(options_.text(name));
    }
    template <class T>
    void required(const char* name, T& value)
    {
        require(options_.has(name), "option \"", name, "\" is required");
        (*this)(name, value);
    }
    void finish() const
    {
        for (const std::string& name : options_.names())
            if (!known_.contains(name))
                options_.report_unknown(name);
    }

private:
    bool has(const char* name) { known_.insert(name); return options_.has(name); }

    const Options& options_;
    std::set<std::string> known_;
};

class FieldWriter {
public:
    Options options;

    template <class T>
    void operator()(const char* name, T& value)
    {
        if constexpr (std::is_same_v<T, Activation>)
            options.set(name, name_of(value));
        else if constexpr (std::is_same_v<T, std::string>)
            options.set(name, std::string_view(value));
        else if constexpr (std::is_same_v<T, Dims>) {
            if (!value.empty())   // an empty list is the default
                options.set(name, value);
        } else
            options.set(name, value);
    }
    template <class T>
    void required(const char* name, T& value) { (*this)(name, value); }
};

template <class Config>
Config read_config(const Options& options)
{
    Config config;
    FieldReader reader(options);
    fields(reader, config);
    reader.finish();
    return config;
}

template <class Config>
Options write_config(Config config)
{
    FieldWriter writer;
    fields(writer, config);
    return writer.options;
}

// What every class of an operator file begins with.
template <class Config>
class ConfiguredOperator : public Operator {
public:
    ConfiguredOperator(std::string type, Config config) : config(std::move(config)), type_(std::move(type)) {}
    std::string_view type() const override { return type_; }
    Options options() const override { return config.to_json(); }

protected:
    Config config;

private:
    std::string type_;
};

// from_json, to_json and make_operator of a configuration whose operator is one class under one name.
#define CLPRIM_OPERATOR(Config, Class, name)                                                                           \
    Config Config::from_json(const Options& options) { return read_config<Config>(options); }                          \
    Options Config::to_json() const { return write_config(*this); }                                                    \
    std::unique_ptr<Operator> make_operator(const Config& config) { return std::make_unique<Class>(name, config); }

// Checks that operators share. `what` is the number of inputs expected, in words for the message.
inline void require_inputs(std::span<const TensorSpec> inputs, std::size_t count)
{
    require(inputs.size() == count, "takes ", count, count == 1 ? " input" : " inputs", ", got ", inputs.size());
}
inline void require_floating(const TensorSpec& spec, const char* argument = "input")
{
    require(is_floating_point(spec.dtype), argument, " must be floating-point, got ", name_of(spec.dtype));
}

// A list with one entry per axis; one entry stands for all, none for `fallback` everywhere.
Dims per_axis(const Dims& list, std::int64_t axes, std::int64_t fallback, const char* option);

// Shape that two shapes broadcast to (numpy's rules). Throws InvalidArgument.
Dims broadcast(const Dims& a, const Dims& b);

// Padding at begin and end that gives the outputs which "same_upper" and "same_lower" promise.
enum class AutoPad { none, valid, same_upper, same_lower };
AutoPad auto_pad_from(std::string_view name);

// y = act(y) in place; no-op for identity. The gradient before the activation: dy itself or a new tensor.
void apply_activation(Queue& queue, Activation activation, const Tensor& y);
Tensor activation_gradient(Queue& queue, Activation activation, const Tensor& dy, const Tensor& y);

}  // namespace clprim
