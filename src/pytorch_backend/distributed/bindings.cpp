#include <distributed/bindings.hpp>

#include <pybind11/chrono.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>

#include <distributed/backend.hpp>
#include <distributed/threads.hpp>

namespace torch_ocl {
namespace {

namespace py = pybind11;
using distributed::Backend;

// Keeps a Python function; called and dropped under Python's lock from any thread.
distributed::EngineFactory engine_factory(py::function function)
{
    auto kept = std::shared_ptr<py::function>(new py::function(std::move(function)), [](py::function* object) {
        if (!Py_IsInitialized())
            return;   // leaked: the interpreter is gone
        const py::gil_scoped_acquire lock;
        delete object;
    });
    return [kept](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, distributed::Milliseconds timeout) {
        const py::gil_scoped_acquire lock;
        return (*kept)(store, rank, size, timeout).cast<c10::intrusive_ptr<c10d::Backend>>();
    };
}

// PyTorch hands tensors of this device to its backend (c10d's Ops.cpp), but not sparse ones.
std::tuple<std::vector<at::Tensor>, c10::intrusive_ptr<c10d::Work>>
allreduce_sparse(at::TensorList tensors, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                 const c10::intrusive_ptr<c10d::ReduceOp>& op, const std::optional<at::Tensor>& indices, bool async,
                 std::int64_t timeout)
{
    auto list = tensors.vec();
    c10d::AllreduceOptions options;
    options.reduceOp = *op;
    options.timeout = distributed::Milliseconds(timeout);
    options.asyncOp = async;
    options.sparseIndices = indices;
    auto work = group->getBackend(c10::DeviceType::PrivateUse1)->allreduce(list, options);
    return {std::move(list), std::move(work)};
}

TORCH_LIBRARY_IMPL(c10d, SparsePrivateUse1, m) { m.impl("allreduce_", allreduce_sparse); }

}  // namespace

void bind_distributed(py::module_& m)
{
    // Called once, when torch.distributed has registered the types that these derive from.
    m.def("bind_process_group", [m]() mutable {
        py::class_<Backend, c10d::Backend, c10::intrusive_ptr<Backend>>(m, "ProcessGroupOCCL")
            .def(py::init([](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                             distributed::Milliseconds timeout, py::function engine,
                             std::vector<std::uint64_t> ranks) {
                return c10::make_intrusive<Backend>(distributed::Engine::Group{rank, size, store},
                                                    engine_factory(std::move(engine)), timeout, std::move(ranks));
            }),
                 py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"), py::arg("engine"),
                 py::arg("ranks") = std::vector<std::uint64_t>{})
            // PyTorch asks this of backends that split: ranks outside a new group have nothing to do.
            .def("perform_nocolor_split", [](Backend&, const py::object&) {});
        // A thread that lets go of a Python object while the interpreter ends takes the process with it. Callbacks run
        // one after another, so several may be left.
        const auto wait = [] { distributed::wait_for_background_tasks(std::chrono::seconds(5)); };
        py::module_::import("atexit").attr("register")(
            py::cpp_function(wait, py::call_guard<py::gil_scoped_release>()));
    });
}

}  // namespace torch_ocl
