// Registers an operator's form with `out` together with those that return a new tensor or write their first argument.
// PyTorch would supply them, as operators that build the shapes, then call the form with `out` through the dispatcher,
// which builds them again: on small tensors most of the time.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace torch_ocl {
namespace detail {

template <auto out, class Indices, class... Arguments>
struct FormsOf;

// For Tensor& out(Arguments..., Tensor& result), where an undefined result is made and the first argument may be the
// result itself: the functions below.
template <auto out, std::size_t first, std::size_t... rest, class... Arguments>
struct FormsOf<out, std::index_sequence<first, rest...>, Arguments...> {
    template <std::size_t i>
    using Argument = std::tuple_element_t<i, std::tuple<Arguments...>>;

    static at::Tensor functional(Argument<first> self, Argument<rest>... others)
    {
        at::Tensor result;
        out(self, others..., result);
        return result;
    }
    static at::Tensor& in_place(at::Tensor& self, Argument<rest>... others) { return out(self, others..., self); }
};

template <auto out, class Function = decltype(out)>
struct Forms;

template <auto out, class... Arguments>
struct Forms<out, at::Tensor& (*)(Arguments...)>
    : FormsOf<out, std::make_index_sequence<sizeof...(Arguments) - 1>, Arguments...> {};

// The overload of `name` that goes with the overload `out_overload` of its form with `out`, or nothing.
std::optional<std::string> overload_beside(const std::string& name, const std::string& out_overload);

}  // namespace detail

// `overload`: that of the form with `out`, e.g. "add.out", "pow.Tensor_Tensor_out".
template <auto out>
void register_forms(torch::Library& library, const std::string& overload)
{
    using Forms = detail::Forms<out>;
    library.impl(overload.c_str(), out);
    const auto point = overload.find('.');
    const std::string name = overload.substr(0, point), kind = overload.substr(point + 1);
    if (const auto functional = detail::overload_beside(name, kind))
        library.impl(functional->c_str(), &Forms::functional);
    if (const auto in_place = detail::overload_beside(name + "_", kind))
        library.impl(in_place->c_str(), &Forms::in_place);
}

}  // namespace torch_ocl
