// Collectives as chunks that follow each other through three stages at once: device to host, network, host to device.
#pragma once

#include <condition_variable>
#include <map>

#include <distributed/engine.hpp>
#include <distributed/staging.hpp>
#include <distributed/threads.hpp>
#include <distributed/work.hpp>

namespace torch_ocl::distributed {

// Flat device tensors of one dtype: what the engine reads and what it fills.
struct Chunk {
    std::vector<at::Tensor> reads, writes;
    bool in_place = false;   // it fills what it reads
};

using Posted = c10::intrusive_ptr<c10d::Work>;

struct Collective {
    Intent intent;
    std::vector<Chunk> chunks;
    // Hands one chunk to the engine: what was read and what is to be filled, each flat in host memory; the same tensor
    // where the operation is in place. Null where this rank has nothing to do.
    std::function<Posted(c10d::Backend& inner, at::Tensor& in, at::Tensor& out, Milliseconds timeout)> post;
    // After that, on the host: what is left to compute of `in` and what was received.
    std::function<void(at::Tensor& in, at::Tensor& out)> finish_on_host;
    std::function<void()> finish_on_device;    // once, on the stream that wrote the results
    bool at_once = false;                      // the caller waits for it
    bool direct = false;                       // ranks may agree with the bytes themselves, where these are few
    bool scratch = false;                      // the engine overwrites what it reads
    // Where ranks agreed loosely only: what is wrong with the counts that others sent, or nothing.
    std::function<std::string(c10d::Backend& inner, Milliseconds timeout)> check_counts;
};

class Runner {
public:
    explicit Runner(std::shared_ptr<Engine> engine);

    // Streams of a device, with everything enqueued on the caller's current stream before them.
    struct Start {
        std::shared_ptr<Lanes> lanes;
        clprim::Event ready;
    };
    Start start(c10::Device device);

    void collective(c10::intrusive_ptr<Work> work, Collective collective, std::optional<Start> start);

    struct Message {
        at::Tensor data;                       // flat; device tensor
        at::Tensor target;                     // where it is to be copied in the end, if elsewhere
        int peer;                              // -1: any
        int tag;
    };
    void send(c10::intrusive_ptr<Work> work, Message message, Start start);
    void receive(c10::intrusive_ptr<Work> work, Message message, Start start);

    void abort(const std::string& reason, bool quietly);
    Engine& engine() { return *engine_; }

private:
    struct State;
    std::shared_ptr<Engine> engine_;
    std::shared_ptr<State> state_;
};

// How many elements of that size a chunk has, where it holds `pieces` of them side by side: the same on every rank.
std::int64_t chunk_elements(std::int64_t element_size, std::int64_t pieces);

}  // namespace torch_ocl::distributed
