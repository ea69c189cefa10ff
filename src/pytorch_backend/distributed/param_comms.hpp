// What profilers and execution traces keep of each collective: PyTorch's event "record_param_comms" with the group, the
// sizes and the dtype, under the names that its own backends give.
#pragma once

#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>

namespace torch_ocl::distributed {

struct CommsGroup {
    CommsGroup(std::string uid, std::string description, int rank, int size, const std::vector<std::uint64_t>& ranks);

    std::tuple<std::string, std::string> name;
    int rank, size;
    int first = 0, stride = 1;   // of its ranks among all; stride -1: not evenly spaced
};

struct Comms {
    const CommsGroup& group;
    const char* name;
    std::int64_t sequence;
    bool is_message;
    std::vector<at::Tensor> inputs, outputs;
};

const char* comms_name(c10d::OpType type);

// Calls body within the event.
template <class Body> auto with_comms_record(const Comms& comms, Body&& body)
{
    const auto elements = [](const std::vector<at::Tensor>& tensors) {
        std::int64_t sum = 0;
        for (const at::Tensor& tensor : tensors)
            sum += tensor.numel();
        return sum;
    };
    const auto& example = comms.inputs.empty() ? comms.outputs : comms.inputs;
    const auto sequence = std::make_tuple(comms.sequence, comms.is_message);
    const std::vector<std::int64_t> even;
    const std::string name = comms.name;
    RECORD_PARAM_COMMS_DATA(sequence, comms.group.name, comms.inputs, comms.outputs, comms.group.rank,
                            std::string(name), elements(comms.inputs), elements(comms.outputs),
                            example.empty() ? at::kByte : example[0].scalar_type(), even, even, comms.group.first,
                            comms.group.stride, comms.group.size);
    return body();
}

}  // namespace torch_ocl::distributed
