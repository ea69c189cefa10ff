// Net and solvers.
#include <pybind11/stl.h>

#include <clprim/onnx.hpp>
#include <clprim/solver.hpp>

#include "bindings.hpp"

namespace clprim::python {

namespace {

using Names = std::vector<std::string>;
using Unlocked = py::call_guard<Released>;

NetMode mode_of(const std::string& name)
{
    require(name == "train" || name == "predict", "a net's mode is \"train\" or \"predict\", not \"", name, "\"");
    return name == "train" ? NetMode::train : NetMode::predict;
}

Options options_of(const py::dict& options)
{
    return Options(py::module_::import("json").attr("dumps")(options).cast<std::string>());
}

std::unique_ptr<Operator> operator_from(const std::string& type, const std::string& name, const py::dict& options)
{
    try {
        return make_operator(type, options_of(options));
    } catch (const InvalidArgument& error) {
        throw InvalidArgument("operator \"" + name + "\" (" + type + "): " + error.what());
    }
}

std::map<std::string, Dims> shapes_of(const py::dict& shapes)
{
    std::map<std::string, Dims> result;
    for (const auto& [name, shape] : shapes)
        result[name.cast<std::string>()] = dims_of(shape);
    return result;
}

void load_parameters(Net& net, const py::object& source, bool allow_missing)
{
    if (py::isinstance<py::dict>(source))
        net.load_parameters(weights_of(source.cast<py::dict>()), allow_missing);
    else
        net.load_parameters(py::module_::import("os").attr("fspath")(source).cast<std::string>(), allow_missing);
}

std::string representation(const Net& net)
{
    return "<clprim.Net of " + std::to_string(net.operator_names().size()) + " operators on " +
           net.queue().device().id + ">";
}

void bind_net(py::module_& m)
{
    py::class_<OperatorTime>(m, "OperatorTime")
        .def_readonly("name", &OperatorTime::name)
        .def_readonly("type", &OperatorTime::type)
        .def_readonly("forward_ms", &OperatorTime::forward_ms)
        .def_readonly("backward_ms", &OperatorTime::backward_ms);

    py::class_<Net>(m, "Net", "Operators connected by named tensors, run forward and backward on a device.")
        .def(py::init([](const py::object& device) { return std::make_unique<Net>(context_of(device)); }),
             py::arg("device") = py::none())
        .def(
            "add_input",
            [](Net& net, const std::string& name, const py::object& shape, const py::object& dtype,
               bool requires_gradient) {
                net.add_input(name, {dims_of(shape), data_type_of(dtype)}, requires_gradient);
            },
            py::arg("name"), py::arg("shape"), py::arg("dtype") = "float32", py::arg("requires_gradient") = false)
        .def(
            "add",
            [](Net& net, const std::string& type, const std::string& name, const Names& inputs, const Names& outputs,
               const py::dict& options, const Names& parameters, bool frozen) {
                net.add_operator(operator_from(type, name, options), name, inputs, outputs, parameters, frozen);
            },
            py::arg("type"), py::arg("name"), py::arg("inputs"), py::arg("outputs"), py::arg("options") = py::dict(),
            py::arg("parameters") = Names(), py::arg("frozen") = false,
            "Adds an operator by its name in JSON nets, with its JSON options as a dictionary.")
        .def("mark_output", &Net::mark_output, py::arg("name"))
        .def("set_loss_weight", &Net::set_loss_weight, py::arg("name"), py::arg("weight") = 1.0)
        .def("use_output_gradient", &Net::use_output_gradient, py::arg("name"))
        .def(
            "load_json", [](Net& net, const py::object& text) { net.load_json(string_of(text)); }, py::arg("text"))
        .def(
            "load_json_file",
            [](Net& net, const py::object& path) {
                net.load_json_file(py::module_::import("os").attr("fspath")(path).cast<std::string>());
            },
            py::arg("path"))
        .def("to_json", [](const Net& net) { return text_of(net.to_json()); })
        .def(
            "to_onnx", [](const Net& net) { return py::bytes(convert_to_onnx(net)); },
            "The bytes of an ONNX file (operator set 20) that computes what the net does in predict mode.")
        .def_property(
            "mode", [](const Net& net) { return net.mode() == NetMode::train ? "train" : "predict"; },
            [](Net& net, const std::string& mode) { net.mode(mode_of(mode)); })
        .def_property(
            "keep_intermediate_tensors", [](const Net& net) { return net.keep_intermediate_tensors(); },
            [](Net& net, bool keep) { net.keep_intermediate_tensors(keep); })
        .def("fusion", &Net::fusion, py::arg("enabled"))
        .def("queue_count", &Net::queue_count, py::arg("count"))
        .def("setup", &Net::setup, Unlocked())
        .def(
            "reshape", [](Net& net, const py::dict& shapes) { net.reshape(shapes_of(shapes)); }, py::arg("shapes"))
        .def("initialize_parameters", &Net::initialize_parameters, py::arg("seed") = 0, Unlocked())
        .def("forward", &Net::forward, Unlocked())
        .def("backward", &Net::backward, Unlocked())
        .def("zero_grad", &Net::zero_grad, Unlocked())
        .def_property_readonly("input_names", &Net::input_names)
        .def_property_readonly("output_names", &Net::output_names)
        .def_property_readonly("operator_names", &Net::operator_names)
        .def_property_readonly("parameter_names", &Net::parameter_names)
        .def("tensor", &Net::tensor, py::arg("name"), "The tensor of that name; write inputs through Tensor.write.")
        .def("gradient", &Net::gradient, py::arg("name"))
        .def(
            "parameter", [](const Net& net, const std::string& name) { return Tensor(net.parameter(name)); },
            py::arg("name"))
        .def(
            "parameter_gradient",
            [](const Net& net, const std::string& name) {
                const Tensor gradient = net.parameter_gradient(name);
                return gradient.defined() ? py::cast(gradient) : py::object(py::none());
            },
            py::arg("name"), "None for what is not trained or has no gradient yet.")
        .def("parameters_changed", &Net::parameters_changed, "To be called after writing to a parameter's tensor.")
        .def(
            "parameters", [](const Net& net) { return weights_to_python(net.parameters_to_host()); },
            "All parameters as arrays by name.")
        .def("load_parameters", &load_parameters, py::arg("source"), py::arg("allow_missing") = false,
             "From a file (.safetensors, .npz, .dlp) or a dictionary of arrays.")
        .def(
            "save_parameters",
            [](const Net& net, const py::object& path) {
                net.save_parameters(py::module_::import("os").attr("fspath")(path).cast<std::string>());
            },
            py::arg("path"))
        .def("profile", &Net::profile, Unlocked(), "Runs once, operator by operator, and times each.")
        .def("__repr__", &representation);
    m.def("operator_types", &operator_types, "Names of the operators that nets may have.");
}

void bind_solvers(py::module_& m)
{
    py::class_<Solver>(m, "Solver", "Moves the parameters of one net by their gradients.")
        .def("apply", &Solver::apply, py::arg("net"), Unlocked())
        .def("step", &Solver::step, py::arg("net"), Unlocked(), "zero_grad, forward, backward, apply.")
        .def_readwrite("max_gradient_norm", &Solver::max_gradient_norm,
                       "Gradients are scaled down where their norm over all parameters exceeds it; 0: never.")
        .def_readwrite("gradient_scale", &Solver::gradient_scale,
                       "What the loss was multiplied by: gradients are divided by it first.")
        .def("save_checkpoint", &Solver::save_checkpoint, py::arg("net"), py::arg("path"), Unlocked(),
             "Parameters and the solver's state, in one .safetensors file.")
        .def("load_checkpoint", &Solver::load_checkpoint, py::arg("net"), py::arg("path"), Unlocked())
        .def("state", [](const Solver& solver) { return weights_to_python(solver.state_to_host()); })
        .def("load_state",
            [](Solver& solver, Net& net, const py::dict& state) { solver.load_state(net, weights_of(state)); },
            py::arg("net"), py::arg("state"));

    py::class_<SGD, Solver>(m, "SGD", "torch.optim.SGD.")
        .def(py::init([](double lr, double momentum, double dampening, double weight_decay, bool nesterov) {
                 SGDConfig config;
                 config.lr = lr, config.momentum = momentum, config.dampening = dampening;
                 config.weight_decay = weight_decay, config.nesterov = nesterov;
                 return std::make_unique<SGD>(config);
             }),
             py::arg("lr") = 1e-3, py::arg("momentum") = 0.0, py::arg("dampening") = 0.0, py::arg("weight_decay") = 0.0,
             py::arg("nesterov") = false)
        .def_property("lr", [](const SGD& s) { return s.config.lr; }, [](SGD& s, double lr) { s.config.lr = lr; });

    // Adam and AdamW differ in the decay and its default only.
    py::class_<AdamSolver, Solver> adam(m, "Adam",
                                        "torch.optim.Adam; AdamW(...) makes one with decoupled weight decay.");
    const auto make = [](bool decoupled) {
        return [decoupled](double lr, std::pair<double, double> betas, double eps, double weight_decay, bool amsgrad) {
            AdamConfig config;
            config.lr = lr, config.beta1 = betas.first, config.beta2 = betas.second, config.eps = eps;
            config.weight_decay = weight_decay, config.decoupled = decoupled, config.amsgrad = amsgrad;
            return std::make_unique<AdamSolver>(config);
        };
    };
    adam.def(py::init(make(false)), py::arg("lr") = 1e-3, py::arg("betas") = std::pair(0.9, 0.999),
             py::arg("eps") = 1e-8, py::arg("weight_decay") = 0.0, py::arg("amsgrad") = false)
        .def_property(
            "lr", [](const AdamSolver& s) { return s.config.lr; }, [](AdamSolver& s, double lr) { s.config.lr = lr; });
    m.def("AdamW", make(true), py::arg("lr") = 1e-3, py::arg("betas") = std::pair(0.9, 0.999), py::arg("eps") = 1e-8,
          py::arg("weight_decay") = 1e-2, py::arg("amsgrad") = false, "torch.optim.AdamW.");
}

}  // namespace

void bind_nets(py::module_& m)
{
    bind_net(m);
    bind_solvers(m);
}

}  // namespace clprim::python
