#include "onnx/ops/recurrent_activations.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace clprim::onnx {

namespace {

struct Definition {
    const char* expression;           // {0}: the variable, {1}: alpha, {2}: beta
    bool has_alpha = false, has_beta = false;
    float alpha = 0, beta = 0;
};

const std::map<std::string, Definition>& definitions()
{
    static const std::map<std::string, Definition> result = {
        {"relu", {"fmax({0}, (T)0)"}},
        {"tanh", {"tanh({0})"}},
        {"sigmoid", {"1 / (1 + exp(-{0}))"}},
        {"affine", {"{1} * {0} + {2}", true, true, 1, 0}},
        {"leakyrelu", {"({0} >= 0 ? {0} : {1} * {0})", true, false, 0.01F}},
        {"thresholdedrelu", {"({0} >= {1} ? {0} : (T)0)", true, false, 1}},
        {"scaledtanh", {"{1} * tanh({2} * {0})", true, true, 1, 1}},
        {"hardsigmoid", {"fmin(fmax({1} * {0} + {2}, (T)0), (T)1)", true, true, 0.2F, 0.5F}},
        {"elu", {"({0} >= 0 ? {0} : {1} * expm1({0}))", true, false, 1}},
        {"softsign", {"{0} / (1 + fabs({0}))"}},
        {"softplus", {"({0} > 20 ? {0} : log1p(exp({0})))"}},
    };
    return result;
}

}  // namespace

std::string RecurrentActivation::of(const std::string& variable) const
{
    return fmt::format(fmt::runtime(definitions().at(name).expression), variable, fmt::format("(T){:.9e}f", alpha),
                       fmt::format("(T){:.9e}f", beta));
}

// Lists of alpha and beta have entries for those activations only that take one.
std::vector<RecurrentActivation> recurrent_activations(const Call& call, std::vector<std::string> defaults,
                                                       std::size_t directions)
{
    auto names = call.attribute<std::vector<std::string>>("activations", {});
    const std::size_t expected = defaults.size() * directions;
    if (names.empty())
        for (std::size_t i = 0; i < directions; ++i)
            names.insert(names.end(), defaults.begin(), defaults.end());
    call.check(names.size() == expected, "there are ", names.size(), " activations, expected ", expected);
    const auto alphas = call.attribute<std::vector<float>>("activation_alpha", {});
    const auto betas = call.attribute<std::vector<float>>("activation_beta", {});
    std::size_t alpha = 0, beta = 0;
    std::vector<RecurrentActivation> result;
    for (std::string name : names) {
        std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        const auto found = definitions().find(name);
        call.check(found != definitions().end(), "unknown activation '", name, "'");
        const Definition& definition = found->second;
        RecurrentActivation activation{name, definition.alpha, definition.beta};
        if (definition.has_alpha && alpha < alphas.size())
            activation.alpha = alphas[alpha++];
        if (definition.has_beta && beta < betas.size())
            activation.beta = betas[beta++];
        result.push_back(activation);
    }
    return result;
}

}  // namespace clprim::onnx
