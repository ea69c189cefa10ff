// OnnxModel and Session.
#include <filesystem>

#include <pybind11/stl.h>

#include <clprim/interop.hpp>
#include <clprim/onnx.hpp>
#include <clprim/onnx_operator.hpp>

#include "bindings.hpp"

namespace clprim::python {

namespace {

std::filesystem::path path_of(const py::object& path)
{
    return py::module_::import("os").attr("fsdecode")(path).cast<std::string>();
}

// A path, the bytes of a file, or an onnx.ModelProto.
OnnxModel model_from(const py::object& source, const std::optional<std::string>& folder)
{
    if (py::isinstance<OnnxModel>(source))
        return source.cast<OnnxModel>();
    if (py::isinstance<py::str>(source) || py::hasattr(source, "__fspath__")) {
        const std::filesystem::path path = path_of(source);
        const Released released;
        return OnnxModel(path);
    }
    const py::object bytes = py::hasattr(source, "SerializeToString") ? source.attr("SerializeToString")() : source;
    if (!PyObject_CheckBuffer(bytes.ptr()))
        throw py::type_error("a model is a path, bytes, an onnx.ModelProto or a clprim.OnnxModel");
    const py::buffer_info buffer = py::reinterpret_borrow<py::buffer>(bytes).request();
    const std::span<const std::byte> data(static_cast<const std::byte*>(buffer.ptr),
                                          static_cast<std::size_t>(buffer.size * buffer.itemsize));
    const Released released;
    return OnnxModel::from_bytes(data, folder.value_or(""));
}

// One of the levels by its name, or whether there is to be any.
OptimizationLevel level_of(const py::object& optimize)
{
    if (py::isinstance<py::str>(optimize))
        return optimization_level_from_name(optimize.cast<std::string>());
    return py::bool_(optimize) ? OptimizationLevel::all : OptimizationLevel::none;
}

std::vector<std::string> names_of(const std::vector<ModelPort>& ports)
{
    std::vector<std::string> names;
    for (const ModelPort& port : ports)
        names.push_back(port.name);
    return names;
}

py::list texts_of(const std::vector<std::string>& names)
{
    py::list result;
    for (const std::string& name : names)
        result.append(text_of(name));
    return result;
}

py::tuple port_shape(const ModelPort& port)
{
    py::tuple shape(port.shape.size());
    for (std::size_t i = 0; i < port.shape.size(); ++i) {
        const auto* name = std::get_if<std::string>(&port.shape[i]);
        shape[i] = !name ? py::object(py::int_(std::get<std::int64_t>(port.shape[i])))
                 : name->empty() ? py::object(py::none()) : py::object(text_of(*name));
    }
    return shape;
}

// Any mapping from names, as a dictionary.
py::dict inputs_of(const py::object& inputs)
{
    const auto refuse = [](const std::string& got) {
        throw py::type_error("inputs must be a dictionary of arrays by name, got " + got);
    };
    if (!py::hasattr(inputs, "keys"))
        refuse(string_of(py::str(py::type::of(inputs).attr("__name__"))));
    py::dict result(inputs);
    for (const auto& [key, object] : result)
        if (!py::isinstance<py::str>(key))
            refuse("the name " + string_of(py::repr(key)));
    return result;
}

// A session with what each run asks about its ports.
struct BoundSession : Session {
    BoundSession(OnnxModel model, Context& context, const SessionOptions& options)
        : Session(std::move(model), context, options), output_names(names_of(outputs()))
    {
        for (const ModelPort& port : inputs())
            expected[port.name] = {port.type, port.is_tensor};
    }

    std::map<std::string, Expected> expected;
    std::vector<std::string> output_names;
};

// NumPy's, for which a run waits, or Values that stay on the device.
enum class Results { arrays, values };

// Outputs by name; `outputs` are the names of those that are wanted, None for all.
py::dict run(BoundSession& session, const py::object& given, const py::object& outputs, const py::object& bound,
             Results kind)
{
    const py::dict inputs = inputs_of(given);
    Session::Values values;
    for (const auto& [key, object] : inputs) {
        const std::string name = string_of(key);
        const auto port = session.expected.find(name);
        try {
            const Expected wanted = port == session.expected.end() ? Expected{} : port->second;
            values[name] = kind == Results::arrays ? borrowed_value(object, session.context(), wanted)
                                                   : value_from(object, session.context(), wanted);
        } catch (const InvalidArgument& error) {
            throw InvalidArgument("input '" + name + "': " + error.what());
        }
    }
    std::vector<std::string> wanted;
    if (outputs.is_none())
        wanted = session.output_names;
    else if (py::isinstance<py::str>(outputs))
        wanted.push_back(string_of(outputs));
    else
        for (const py::handle name : outputs)
            wanted.push_back(string_of(name));
    RunOptions options;
    options.outputs = wanted;
    if (!bound.is_none())
        for (const auto& [key, object] : py::dict(bound)) {
            if (!py::isinstance<Tensor>(object))
                throw py::type_error("bound must be a dictionary of clprim.Tensor by output");
            options.bound.emplace(string_of(key), object.cast<Tensor>());
        }
    std::map<std::string, std::pair<py::array, ElementType>> arrays;
    if (kind == Results::arrays) {
        options.in_place_from = std::size_t{128} << 10;   // those below are copied as fast
        options.to_host = [&](const std::string& name, ElementType type, const Dims& shape) {
            const py::gil_scoped_acquire held;
            py::array array = empty_array(shape, storage_type(type));
            void* const memory = array.mutable_data();
            arrays.insert_or_assign(name, std::pair(std::move(array), type));
            return memory;
        };
    }
    Session::Values results;
    {
        const Released released;
        results = session.run(values, options);
    }
    py::dict answer;
    for (const std::string& name : wanted)
        if (answer.contains(text_of(name)))
            continue;
        else if (const auto array = arrays.find(name); array != arrays.end())
            answer[text_of(name)] = typed_array(std::move(array->second.first), array->second.second);
        else if (const Value& value = results.at(name); kind == Results::values)
            answer[text_of(name)] = py::cast(value);
        else
            answer[text_of(name)] = value.is_tensor() && value.on_device() ? array_in_place(value)
                                                                           : value_to_python(value);
    return answer;
}

py::object attribute_object(const OnnxAttribute& attribute)
{
    return std::visit(
        []<class T>(const T& value) -> py::object {
            if constexpr (std::is_same_v<T, std::string>)
                return text_of(value);
            else if constexpr (std::is_same_v<T, std::vector<std::string>>)
                return texts_of(value);
            else
                return py::cast(value);
        },
        attribute);
}

// A function of Python's as an operator's. It stays for good, as operators do.
std::vector<Value> call_python(const py::object& function, const OnnxCall& call)
{
    const py::gil_scoped_acquire held;
    py::list inputs;
    for (const Value& value : call.inputs)
        inputs.append(value.is_none() ? py::object(py::none()) : py::cast(value));
    py::dict attributes;
    for (const auto& [name, attribute] : call.attributes)
        attributes[text_of(name)] = attribute_object(attribute);
    const py::object result = function(inputs, attributes);
    const auto value_of = [&](const py::handle& object) {
        return value_from(object, call.queue.context(), {ElementType::undefined, true});
    };
    std::vector<Value> outputs;
    if (py::isinstance<py::list>(result) || py::isinstance<py::tuple>(result))
        for (const py::handle object : result)
            outputs.push_back(value_of(object));
    else
        outputs.push_back(value_of(result));
    return outputs;
}

void register_operator(const std::string& name, const py::object& run, const std::string& domain, int since,
                       const std::map<std::string, double>& numbers, bool pure)
{
    OnnxOperator definition{.domain = domain, .name = name, .since = since, .code = {}, .numbers = {}, .type = {},
                            .run = {}, .pure = pure};
    if (py::isinstance<py::str>(run)) {
        definition.code = string_of(run);
        definition.numbers.assign(numbers.begin(), numbers.end());
    } else {
        if (!PyCallable_Check(run.ptr()))
            throw py::type_error("an operator is an expression (str) or a function");
        definition.run = [function = new py::object(run)](const OnnxCall& call) {
            return call_python(*function, call);
        };
    }
    register_onnx_operator(std::move(definition));
}

}  // namespace

void bind_onnx(py::module_& m)
{
    py::class_<ModelPort>(m, "Port", "An input or output as a model declares it.")
        .def_property_readonly("name", [](const ModelPort& port) { return text_of(port.name); })
        .def_property_readonly("type", [](const ModelPort& port) { return name_of(port.type); })
        .def_readonly("is_tensor", &ModelPort::is_tensor, "False for sequences and optionals of `type`.")
        .def_property_readonly(
            "shape",
            [](const ModelPort& port) {
                return port.has_shape ? py::object(port_shape(port)) : py::object(py::none());
            },
            "Sizes, names of dynamic sizes, None for unnamed ones; None if the model does not say.")
        .def("__repr__", [](const ModelPort& port) {
            std::string text = "<clprim.Port '" + port.name + "' " + std::string(name_of(port.type));
            if (port.has_shape)
                text += " " + string_of(py::str(port_shape(port)));
            return text_of(text + ">");
        });

    py::class_<OnnxModel>(m, "OnnxModel", "An ONNX model: a path, bytes or an onnx.ModelProto.")
        .def(py::init(&model_from), py::arg("model"), py::arg("folder") = py::none(),
             "folder: where external data of a model from memory lie.")
        .def_property_readonly("inputs", &OnnxModel::inputs)
        .def_property_readonly("outputs", &OnnxModel::outputs)
        .def_property_readonly(
            "opsets", [](const OnnxModel& m) { return dict_of(m.opsets()); }, "Versions of operator sets by domain.")
        .def_property_readonly("metadata", [](const OnnxModel& m) { return dict_of(m.metadata()); })
        .def_property_readonly("producer", [](const OnnxModel& m) { return text_of(m.producer()); })
        .def_property_readonly(
            "unsupported", [](const OnnxModel& m) { return dict_of(m.unsupported()); },
            "Operators that clprim lacks, with their number of nodes.");

    py::class_<NodeTime>(m, "NodeTime", "What one node of a model took.")
        .def_property_readonly("name", [](const NodeTime& t) { return text_of(t.name); })
        .def_readonly("op_type", &NodeTime::op_type)
        .def_readonly("milliseconds", &NodeTime::milliseconds)
        .def_readonly("host_milliseconds", &NodeTime::host_milliseconds)
        .def_readonly("calls", &NodeTime::calls)
        .def("__repr__", [](const NodeTime& t) {
            return text_of("<clprim.NodeTime " + t.op_type + " '" + t.name + "' " + std::to_string(t.milliseconds) +
                           " ms in " + std::to_string(t.calls) + " calls>");
        });

    py::class_<BoundSession>(m, "Session", "A model made ready for a device; run may be called from several threads.")
        .def(py::init([](const py::object& source, const py::object& device, const py::object& optimize,
                         bool profile, const std::map<std::string, std::int64_t>& sizes, bool record,
                         bool high_priority, const py::object& programs, unsigned threads,
                         std::uintptr_t cl_queue) {
                 OnnxModel model = model_from(source, std::nullopt);
                 Context& context = context_of(device);
                 SessionOptions options{.optimization = level_of(optimize), .profile = profile, .sizes = sizes,
                                        .record = record, .high_priority = high_priority, .threads = threads,
                                        .programs = {}};
                 if (cl_queue)
                     options.queue = &adopt(context, reinterpret_cast<cl_command_queue>(cl_queue));
                 if (!programs.is_none())
                     options.programs = path_of(programs);
                 const Released released;
                 return std::make_unique<BoundSession>(std::move(model), context, options);
             }),
             py::arg("model"), py::arg("device") = py::none(), py::kw_only(), py::arg("optimize") = true,
             py::arg("profile") = false, py::arg("sizes") = std::map<std::string, std::int64_t>(),
             py::arg("record") = true, py::arg("high_priority") = false, py::arg("programs") = py::none(),
             py::arg("threads") = 0, py::arg("cl_queue") = 0,
             "optimize: True or \"all\", \"basic\" (constants folded, but ONNX's own operators), False or\n\"none\". "
             "threads: kernels run on at most so many compute units (0: all). cl_queue: an in-order cl_command_queue "
             "of\nthe device's cl_context (its handle as a number) that the session enqueues to.\n"
             "programs: a folder that Session.prepare wrote. high_priority: before other sessions, where the driver "
             "knows of it. "
             "sizes: numbers for dynamic sizes that the model names. record: runs that are alike are recorded and "
             "replayed.")
        .def(
            "run",
            [](BoundSession& session, const py::object& inputs, const py::object& outputs) {
                return run(session, inputs, outputs, py::none(), Results::arrays);
            },
            py::arg("inputs"), py::arg("outputs") = py::none(),
            "Runs the model on a dictionary of arrays; returns one with the outputs asked for (default: all).")
        .def(
            "run_values",
            [](BoundSession& session, const py::object& inputs, const py::object& outputs, const py::object& bound) {
                return run(session, inputs, outputs, bound, Results::values);
            },
            py::arg("inputs"), py::arg("outputs") = py::none(), py::kw_only(), py::arg("bound") = py::none(),
            "The same with Values that stay on the device, for another run; does not wait. bound: a dictionary of\n"
            "tensors by output that these are written to.")
        .def(
            "save",
            [](const BoundSession& session, const py::object& path) {
                const std::filesystem::path file = path_of(path);
                const Released released;
                session.save(file);
            },
            py::arg("path"),
            "Writes the model as the session has it: constants folded, batch norms within convolutions.")
        .def_static(
            "prepare",
            [](const py::args& arguments, const py::kwargs& options) {
                return py::module_::import("clprim._prepare").attr("prepare")(*arguments, **options);
            },
            "prepare(model, folder=None, *, shapes={}, batch=None, device=None, processes=None,\n"
            "        optimize=True)\n\n"
            "Compiles what the model needs in several processes and writes it to a folder (default: MODEL.programs)\n"
            "that can be shipped with the model and is only read: Session(model, programs=folder). Returns the folder.")
        .def("cancel", &Session::cancel,
             "Ends the runs under way in other threads before their next node; they raise clprim.Cancelled.")
        .def_property_readonly("inputs", &Session::inputs)
        .def_property_readonly("outputs", &Session::outputs)
        .def_property_readonly("input_names", [](const BoundSession& s) { return texts_of(names_of(s.inputs())); })
        .def_property_readonly("output_names", [](const BoundSession& s) { return texts_of(names_of(s.outputs())); })
        .def_property_readonly("device", [](const BoundSession& s) { return s.context().device(); })
        .def_property_readonly("metadata", [](const BoundSession& s) { return dict_of(s.metadata()); })
        .def(
            "profile",
            [](const BoundSession& s) {
                const Released released;
                return s.profile();
            },
            "Time of every node since the session began, on the device and on the host; needs profile=True.")
        .def(
            "trace",
            [](const BoundSession& s) {
                const Released released;
                return s.trace();
            },
            "The same as JSON for chrome://tracing and Perfetto: every node, kernel and copy.")
        .def("__repr__", [](const BoundSession& s) {
            return "<clprim.Session on " + s.context().device().id + " '" + s.context().device().name + "', " +
                   std::to_string(s.inputs().size()) + " inputs, " + std::to_string(s.outputs().size()) + " outputs>";
        });
    m.def(
        "register_operator", &register_operator, py::arg("name"), py::arg("run"), py::kw_only(), py::arg("domain") = "",
        py::arg("since") = 1, py::arg("numbers") = std::map<std::string, double>(), py::arg("pure") = false,
        "Makes an ONNX operator: `run` is an expression over x0.. that assigns y0.. (see pointwise_kernel), with w0..\n"
        "the attributes that `numbers` names with their defaults, in the order of the names; or a function of a list\n"
        "of Values and a dictionary of attributes that returns an array, a Tensor, a Value or a list of these.\n"
        "pure: the function may be called ahead with constants, and its kernels replayed without it.");
}

}  // namespace clprim::python
