#include <clprim/optim.hpp>

#include <algorithm>
#include <cmath>

#include <clprim/context.hpp>
#include <kernels/optim/multi_tensor.hpp>
#include <core/operands.hpp>

namespace clprim {

namespace {

// The operators of foreach.cl and how many lists they take, `out` included.
constexpr struct {
    std::string_view name;
    std::size_t lists;
} operators[] = {
    {"sqrt", 2},           {"rsqrt", 2},          {"neg", 2},        {"abs", 2},        {"reciprocal", 2},
    {"exp", 2},            {"sign", 2},           {"zero", 2},       {"add_scalar", 2}, {"sub_scalar", 2},
    {"mul_scalar", 2},     {"div_scalar", 2},     {"pow_scalar", 2}, {"add_list", 3},   {"sub_list", 3},
    {"maximum_scalar", 2}, {"minimum_scalar", 2}, {"mul_list", 3},   {"div_list", 3},   {"maximum_list", 3},
    {"minimum_list", 3},   {"lerp", 3},           {"copy", 3},       {"addcmul", 4},    {"addcdiv", 4},
    {"lerp_list", 4},      {"mul_number", 3},
};

using Lists = std::vector<const TensorList*>;

// An optimiser's kernel: options common to all of steps.cl.
Kernel& step_kernel(Queue& queue, const char* name, std::string options, const StepOptions& common)
{
    options += std::string(" -DSTEP_") + name;
    if (common.maximize)
        options += " -DMAXIMIZE";
    if (common.grad_scale.defined())
        options += " -DGRAD_SCALE";
    if (common.found_inf.defined())
        options += " -DFOUND_INF";
    if (common.lr_tensor.defined())
        options += " -DLR_TENSOR";
    return queue.context().program("kernels/optim/steps.cl", options).kernel(name);
}

// Numbers go to kernels in the type that they compute in.
void set_reals(Launch& launch, bool wide, std::initializer_list<double> values)
{
    for (double value : values)
        if (wide)
            launch.arg(value);
        else
            launch.arg(static_cast<float>(value));
}

void set_common(Launch& launch, bool wide, const StepOptions& common)
{
    launch.arg(common.lr_tensor).arg(common.grad_scale).arg(common.found_inf);
    set_reals(launch, wide, {common.lr, common.weight_decay, common.eps});
}

bool is_wide(const TensorList& parameters) { return parameters[0].dtype == DataType::float64; }

}  // namespace

void foreach(Queue& queue, std::string_view name, std::span<const TensorList> lists, std::span<const double> scalars)
{
    const auto row = std::ranges::find(operators, name, [](const auto& op) { return op.name; });
    require(row != std::end(operators), "foreach: no operator is called ", name);
    require(lists.size() == row->lists, "foreach: ", name, " takes ", row->lists, " lists, got ", lists.size());
    if (lists[0].empty())
        return;
    Lists pointers;
    for (const TensorList& list : lists)
        pointers.push_back(&list);
    const int numbers = name == "mul_number" ? 2 : -1;   // the list of tensors of one element
    const std::string options =
        multi_tensor_options(pointers, name, numbers, lists[0][0].dtype) + " -DOP_" + std::string(name);
    launch_multi_tensor(queue, queue.context().program("kernels/optim/foreach.cl", options).kernel("foreach"), pointers,
                        scalars);
}

void adam_step(Queue& queue, const Adam& adam, const AdamLists& lists)
{
    if (lists.parameters.empty())
        return;
    Lists pointers = {&lists.parameters, &lists.gradients, &lists.averages, &lists.squares, &lists.steps};
    const bool amsgrad = !lists.max_squares.empty(), wide = is_wide(lists.parameters);
    if (amsgrad)
        pointers.push_back(&lists.max_squares);
    const std::string options = multi_tensor_options(pointers, "adam", 4) + (amsgrad ? " -DAMSGRAD" : "") +
                                (adam.decoupled ? " -DDECOUPLED" : "");
    launch_multi_tensor(queue, step_kernel(queue, "adam", options, adam.common), pointers, {}, [&](Launch& launch) {
        set_common(launch, wide, adam.common);
        set_reals(launch, wide, {adam.beta1, adam.beta2, 1 - adam.beta1, 1 - adam.beta2, std::log(adam.beta1),
                                 std::log(adam.beta2)});
    });
}

void sgd_step(Queue& queue, const Sgd& sgd, const TensorList& parameters, const TensorList& gradients,
              const TensorList& momenta)
{
    if (parameters.empty())
        return;
    Lists pointers = {&parameters, &gradients};
    const bool wide = is_wide(parameters);
    if (!momenta.empty())
        pointers.push_back(&momenta);
    const std::string options = multi_tensor_options(pointers, "sgd") + (momenta.empty() ? "" : " -DMOMENTUM") +
                                (sgd.nesterov ? " -DNESTEROV" : "") + (sgd.first_step ? " -DFIRST_STEP" : "");
    launch_multi_tensor(queue, step_kernel(queue, "sgd", options, sgd.common), pointers, {}, [&](Launch& launch) {
        set_common(launch, wide, sgd.common);
        set_reals(launch, wide, {sgd.momentum, sgd.dampening});
    });
}

void adagrad_step(Queue& queue, const Adagrad& adagrad, const AdagradLists& lists)
{
    if (lists.parameters.empty())
        return;
    const Lists pointers = {&lists.parameters, &lists.gradients, &lists.sums, &lists.steps};
    const bool wide = is_wide(lists.parameters);
    Kernel& kernel = step_kernel(queue, "adagrad", multi_tensor_options(pointers, "adagrad", 3), adagrad.common);
    launch_multi_tensor(queue, kernel, pointers, {}, [&](Launch& launch) {
        set_common(launch, wide, adagrad.common);
        set_reals(launch, wide, {adagrad.lr_decay});
    });
}

void unscale_and_check(Queue& queue, const TensorList& gradients, const Tensor& found_inf, const Tensor& inverse_scale)
{
    detail::check_operands("unscale_and_check", {{"found_inf", found_inf}, {"inverse_scale", inverse_scale}});
    if (gradients.empty())
        return;
    require(found_inf.dtype == DataType::float32 && inverse_scale.dtype == DataType::float32,
            "unscale_and_check: found_inf and inverse_scale are float32");
    const Lists pointers = {&gradients};
    Kernel& kernel = step_kernel(queue, "unscale", multi_tensor_options(pointers, "unscale_and_check"), {});
    launch_multi_tensor(queue, kernel, pointers, {},
                        [&](Launch& launch) { launch.arg(found_inf).arg(inverse_scale); });
}

void update_scale(Queue& queue, const ScaleUpdate& update, const Tensor& scale, const Tensor& tracker,
                  const Tensor& found_inf)
{
    detail::check_operands("update_scale", {{"scale", scale}, {"tracker", tracker}, {"found_inf", found_inf}});
    require(scale.dtype == DataType::float32 && tracker.dtype == DataType::int32 &&
                found_inf.dtype == DataType::float32,
            "update_scale: scale and found_inf are float32, the tracker is int32");
    queue.launch(queue.context().program("kernels/optim/update_scale.cl").kernel("update_scale"), Range::groups(1),
                 scale, tracker, found_inf, static_cast<float>(update.growth_factor),
                 static_cast<float>(update.backoff_factor), cl_int(update.growth_interval));
}

}  // namespace clprim
