// Graphs: a stream's work recorded once and replayed (clprim/recording.hpp), for torch.accelerator.Graph and
// torch.ocl.OCLGraph.
#include <fstream>
#include <map>
#include <mutex>

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>

#include <clprim/memory_history.hpp>
#include <clprim/recording.hpp>

#include <memory_binding.hpp>
#include <runtime/errors.hpp>
#include <runtime/graph.hpp>
#include <runtime/stream.hpp>

#if __has_include(<ATen/core/GraphImplInterface.h>)
#include <ATen/core/GraphImplInterface.h>
#define TORCH_OCL_ACCELERATOR_GRAPH 1
#endif

namespace torch_ocl {
namespace {

// Who uses a pool: graphs that share it, and torch.ocl.MemPool.
std::mutex pool_mutex;
std::map<std::uint64_t, int>& pool_users()
{
    static auto* users = new std::map<std::uint64_t, int>;
    return *users;
}

}  // namespace

void retain_pool(std::uint64_t pool)
{
    const std::lock_guard lock(pool_mutex);
    ++pool_users()[pool];
}

void release_pool(std::uint64_t pool) noexcept
{
    const std::lock_guard lock(pool_mutex);
    const auto found = pool_users().find(pool);
    if (found == pool_users().end() || --found->second > 0)
        return;
    pool_users().erase(found);
    clprim::release_memory_pool(pool);
}

Graph::~Graph() { reset(); }

void Graph::capture_begin(std::uint64_t pool)
{
    TORCH_CHECK(!recording_, "this graph holds a capture; reset() it before another");
    clprim::Queue& queue = current_queue(current_device());
    TORCH_CHECK(queue.id() != 0, "a graph cannot be captured on the default stream: make another one current "
                "(torch.ocl.graph does)");
    pool_ = pool != 0 ? pool : clprim::new_memory_pool();
    retain_pool(pool_);
    try {
        translate_errors([&] { recording_ = std::make_unique<clprim::Recording>(queue); });
    } catch (...) {
        reset();
        throw;
    }
    clprim::bind_memory_pool(queue, pool_);
    queue_ = &queue;
    device_ = static_cast<c10::DeviceIndex>(queue.device().index);
}

void Graph::capture_end()
{
    TORCH_CHECK(queue_ != nullptr, "capture_end without capture_begin");
    recording_->end();
    clprim::bind_memory_pool(*queue_, 0);
    queue_ = nullptr;
}

void Graph::replay()
{
    TORCH_CHECK(recording_ != nullptr && queue_ == nullptr, "the graph has no finished capture to replay");
    translate_errors([&] { recording_->replay(current_queue(device_)); });
}

void Graph::reset() noexcept
{
    if (queue_ != nullptr) {
        recording_->end();
        clprim::bind_memory_pool(*queue_, 0);
        queue_ = nullptr;
    }
    recording_.reset();
    if (pool_ != 0)
        release_pool(pool_);
    pool_ = 0;
}

std::vector<clprim::RecordedCommand> Graph::commands() const
{
    TORCH_CHECK(recording_ != nullptr, "the graph holds no capture");
    return recording_->commands();
}

void Graph::dump(const std::string& path) const
{
    std::ofstream file(path);
    file << "digraph capture {\n";
    int i = 0;
    for (const clprim::RecordedCommand& command : commands()) {
        file << "  n" << i << " [label=\"" << command.name;
        if (command.bytes != 0)
            file << "\\n" << command.bytes << " bytes";
        else
            file << "\\n" << command.global[0] << "x" << command.global[1] << "x" << command.global[2] << " / "
                 << command.local[0] << "x" << command.local[1] << "x" << command.local[2];
        file << "\"];\n";
        if (i > 0)
            file << "  n" << i - 1 << " -> n" << i << ";\n";
        ++i;
    }
    file << "}\n";
    file.close();
    TORCH_CHECK(file.good(), "could not write ", path);
}

namespace {

#ifdef TORCH_OCL_ACCELERATOR_GRAPH
struct AcceleratorGraph final : at::GraphImplInterface {
    explicit AcceleratorGraph(at::GraphImplArgs) {}

    void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode) override { graph.capture_begin(pool.second); }
    void capture_end() override { graph.capture_end(); }
    void instantiate() override {}   // a recording is ready when it ends
    void replay() override { graph.replay(); }
    void reset() override { graph.reset(); }
    c10::MempoolId_t pool() const override { return {0, graph.pool()}; }
    void enable_debug_mode() override {}   // the commands are always there to be dumped
    void debug_dump(const std::string& path) override { graph.dump(path); }

    Graph graph;
};

std::unique_ptr<at::GraphImplInterface> make_graph(at::GraphImplArgs args)
{
    return std::make_unique<AcceleratorGraph>(args);
}
#endif

}  // namespace

void bind_graph(pybind11::module_& m)
{
    namespace py = pybind11;
    py::class_<Graph>(m, "Graph")
        .def(py::init<>())
        .def("capture_begin", &Graph::capture_begin)
        .def("capture_end", &Graph::capture_end)
        .def("replay", &Graph::replay, py::call_guard<py::gil_scoped_release>())
        .def("reset", &Graph::reset)
        .def("pool", &Graph::pool)
        .def("dump", &Graph::dump)
        .def("commands", [](const Graph& graph) {
            py::list result;
            for (const clprim::RecordedCommand& command : graph.commands())
                result.append(py::make_tuple(command.name, command.global, command.local, command.bytes));
            return result;
        });
    m.def("is_capturing", [] { return is_initialized() && clprim::is_recording(current_queue(current_device())); });
    m.def("retain_pool", &retain_pool);
    m.def("release_pool", &release_pool);
#ifdef TORCH_OCL_ACCELERATOR_GRAPH
    const std::string key = c10::DeviceTypeName(device_type, false);
    if (!at::GraphImplRegistry()->Has(key))
        at::GraphImplRegistry()->Register(key, &make_graph);
#endif
}

}  // namespace torch_ocl
