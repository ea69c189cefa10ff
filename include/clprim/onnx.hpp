// Running ONNX models.
//
//     clprim::OnnxModel model("resnet50.onnx");
//     clprim::Session session(model);
//     auto outputs = session.run({{"x", tensor}});
//
// Operator sets 7 to the current one, with the semantics of the version that the model asks for. Everything runs on the
// device but what a device cannot hold (strings) and the arithmetic of shapes, which stays on the host.
#pragma once

#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <clprim/context.hpp>
#include <clprim/value.hpp>
#include <clprim/weights.hpp>

CLPRIM_API_BEGIN
namespace clprim {

class Net;

namespace onnx {
struct Model;
}

// An input or output as the model declares it.
struct ModelPort {
    std::string name;
    bool is_tensor = true;                           // else a sequence or optional of `type`
    ElementType type = ElementType::undefined;
    bool has_shape = false;
    std::vector<std::variant<std::int64_t, std::string>> shape;   // a size, or the name of a dynamic one ("" unnamed)
};

// A model as read from a file. Cheap to copy. Reading checks the structure: a truncated, corrupt, cyclic or oversized
// file, a node that reads what nobody writes, external data outside of the model's folder: each throws InvalidArgument
// with the node's or tensor's name.
class OnnxModel {
public:
    explicit OnnxModel(const std::filesystem::path& file);
    // From memory; external data are looked for in `folder`.
    static OnnxModel from_bytes(std::span<const std::byte> bytes, const std::filesystem::path& folder = {});

    std::vector<ModelPort> inputs() const;           // without those that have an initializer
    std::vector<ModelPort> outputs() const;
    const std::map<std::string, std::int64_t>& opsets() const;     // by domain; "" is ai.onnx
    const std::map<std::string, std::string>& metadata() const;
    const std::string& producer() const;
    // Operators that clprim lacks, "domain.Name" with the number of nodes. A session of such a model does not start.
    std::map<std::string, int> unsupported() const;
    // Why one of them is none: the first operator set with it, or that there is none.
    std::string unsupported_reason(const std::string& name) const;
    // All operators with the number of their nodes, those of subgraphs and functions too; bytes of all constants.
    std::map<std::string, int> operators() const;
    std::size_t constant_bytes() const;

    const std::shared_ptr<const onnx::Model>& model() const { return model_; }

private:
    explicit OnnxModel(std::shared_ptr<const onnx::Model> model) : model_(std::move(model)) {}
    std::shared_ptr<const onnx::Model> model_;
};

// A model as a JSON net (net.hpp) and its parameters: convolutional networks and what else nets have operators for. A
// dynamic first size becomes 1. Throws NotSupported naming all other operators, or the node whose options nets lack.
struct ConvertedNet {
    std::string json;
    WeightMap weights;
};
ConvertedNet convert_to_net(const OnnxModel& model);

// The way back: a net that was set up, with its parameters, as the bytes of an ONNX file (operator set 20) that
// computes what the net does in predict mode, with the net's shapes and the names of its inputs and outputs. Losses are
// outputs like others. Waits for the parameters. Throws NotSupported naming an operator that ONNX lacks
// (DeformPSROIPooling, operators of a program's own, some functions of Pointwise).
std::string convert_to_onnx(const Net& net);

// What a session does to a model's nodes before it runs them.
enum class OptimizationLevel {
    none,     // nothing: they run as the file has them
    basic,    // constants folded, copies skipped, equal nodes merged, unread ones dropped: ONNX's own operators stay
    all       // and several are fused into one
};
std::string_view name_of(OptimizationLevel level) noexcept;                   // "none", "basic", "all"
OptimizationLevel optimization_level_from_name(std::string_view name);        // throws InvalidArgument naming the three

struct SessionOptions {
    OptimizationLevel optimization = OptimizationLevel::all;
    bool profile = false;    // keep the times of nodes (Session::profile, trace); runs do not wait for them
    // Of the dynamic sizes that the model names: inputs must have them, and what follows from them is computed once.
    std::map<std::string, std::int64_t> sizes;
    // From the third run with inputs of the same types and shapes on, a recording of the run's kernels is replayed.
    // Runs that wait for the device, draw random numbers, are profiled or need more than 64 MiB are never recorded, nor
    // on CPU devices those of few nodes with large inputs and outputs, which would be copied.
    bool record = true;
    // Where the device's driver knows of it, what the session enqueues goes before what sessions of normal priority do.
    // Sessions of one priority share a queue.
    bool high_priority = false;
    // Kernels run on at most so many compute units of a device that the driver divides, threads of a CPU: the session
    // then has a context of its own (Session::context), whose memory bound outputs must be. 0: all.
    unsigned threads = 0;
    // What the session enqueues goes here in place of the context's usual queue: one of the context, such as a
    // program's own (adopt, clprim/interop.hpp). Not together with high_priority or threads.
    Queue* queue = nullptr;
    // A folder of `clprim prepare`, as use_programs takes it (clprim/runtime.hpp); empty: none.
    std::filesystem::path programs;
};

struct NodeTime {
    std::string name, op_type;
    double milliseconds = 0;         // of its kernels and copies on the device
    double host_milliseconds = 0;    // of enqueueing it, or of computing it on the host
    int calls = 0;
};

// What a run may be told beside its inputs.
struct RunOptions {
    std::vector<std::string> outputs;        // those that are wanted, by name; empty: all
    // Memory of the caller's that outputs are written to, any strides; what the run returns for them refers to it.
    std::map<std::string, Tensor> bound;
    // Where it is set, the run waits for the outputs that are wanted and not bound, and reads those that are tensors of
    // numbers into the memory that this gives for them: contiguous, elements as storage_type(type) lies. The run
    // returns no value for these; null leaves one on the device, to be returned as ever. It must not call the session.
    std::function<void*(const std::string& name, ElementType type, const Dims& shape)> to_host;
    // A result of so many bytes or more which the run alone holds is returned where it lies instead of read, after the
    // wait, if kernels work in this process's memory (host_address, clprim/interop.hpp). Asks for to_host.
    std::size_t in_place_from = std::numeric_limits<std::size_t>::max();
};

// A run that Session::cancel ended.
class Cancelled : public Error {
public:
    using Error::Error;
};

// A model made ready for a device. Constants are uploaded and folded here; of a model that was moved in and of which
// there is no copy, the host's memory is given back on the way. run may be called from several threads.
//
// A model from a file whose inputs have sizes that are all known but for the first, the batch, holds its weights once:
// those that kernels keep in a layout of their own go during the first run. What needs them after all (save, a
// recording of the program's own around a run, a run of another batch) reads the file again, which stays open
// meanwhile, and throws InvalidArgument where somebody wrote to it.
class Session {
public:
    // Throws NotSupported naming all unsupported operators with their counts, InvalidArgument for sizes that the model
    // has no name for.
    explicit Session(OnnxModel model, Context& context = Context::get(0), const SessionOptions& options = {});
    ~Session();
    Session(Session&&) noexcept;

    using Values = std::map<std::string, Value>;
    // Enqueues the model; only data-dependent shapes and control flow wait. Inputs are device tensors or host values.
    // Throws InvalidArgument for missing, unknown or misfit inputs, for outputs that there are not and bound ones that
    // do not fit, errors of a node with its operator and name, and Cancelled.
    Values run(const Values& inputs, const RunOptions& options = {});
    // Ends the runs that are under way in other threads, each before its next node. Later ones are not concerned.
    void cancel() noexcept;

    std::vector<ModelPort> inputs() const;
    std::vector<ModelPort> outputs() const;
    Context& context() const;
    Queue& queue() const;
    const std::map<std::string, std::string>& metadata() const;
    // With SessionOptions::profile, for all runs so far: what each node took, in the order of the graph, those inside
    // of control flow apart. Waits for what is enqueued.
    std::vector<NodeTime> profile() const;
    // Writes the model as the session has it: constants folded, batch norms within convolutions, nothing that no output
    // needs. Operators that the session has as one are written as ONNX's own, to be fused again when it is read.
    // Throws NotSupported for models of 2 GiB and more. Waits for the constants.
    void save(const std::filesystem::path& file) const;
    // The same as a trace of all nodes and their commands, in the JSON that chrome://tracing and Perfetto read.
    std::string trace() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace clprim
CLPRIM_API_END
