// Collectives in which every rank sends to every other something else.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include <distributed/backend.hpp>
#include <distributed/tensors.hpp>

namespace torch_ocl::distributed {
namespace {

using Tensors = std::vector<at::Tensor>;

std::vector<std::int64_t> bytes_of(const Tensors& tensors)
{
    std::vector<std::int64_t> bytes;
    for (const at::Tensor& tensor : tensors)
        bytes.push_back(static_cast<std::int64_t>(tensor.nbytes()));
    return bytes;
}

}  // namespace

// `even`: every rank sends as much to every other, if the others say so too.
Backend::Pending Backend::exchange(const Call& call, Tensors outputs, Tensors inputs, bool even, Tensors results)
{
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    Moves moves;
    for (at::Tensor& output : outputs)
        output = flat_target(output, moves);
    for (at::Tensor& input : inputs)
        input = flat_source(input);
    const auto to_bytes = bytes_of(outputs), from_bytes = bytes_of(inputs);
    Collective what;
    what.intent.loose = c10::str("all_to_all of ", name_of(inputs[0].scalar_type()));
    what.intent.exact = even ? c10::str(what.intent.loose, ", ", inputs[0].numel(), " elements to each rank")
                             : c10::str(what.intent.loose, " on rank ", rank_);
    what.direct = even;
    auto with_splits = std::make_shared<bool>(!even);
    what.check_counts = [=, size = size_](c10d::Backend& inner, Milliseconds timeout) {
        *with_splits = true;   // another rank's are not even
        at::Tensor mine = at::empty({size}, at::dtype(at::kLong)), theirs = at::empty({size}, at::dtype(at::kLong));
        std::copy(from_bytes.begin(), from_bytes.end(), mine.mutable_data_ptr<std::int64_t>());
        c10d::AllToAllOptions options;
        options.timeout = timeout;
        std::vector<std::int64_t> split;
        inner.alltoall_base(theirs, mine, split, split, options)->wait();
        for (int rank = 0; rank < size; ++rank)
            if (theirs.const_data_ptr<std::int64_t>()[rank] != to_bytes[rank])
                return c10::str("rank ", rank, " sends ", theirs.const_data_ptr<std::int64_t>()[rank],
                                " bytes, but there is room for ", to_bytes[rank], " of it");
        return std::string();
    };
    what.chunks.push_back({inputs, outputs});
    what.post = [=](c10d::Backend& inner, at::Tensor& in, at::Tensor& out, Milliseconds timeout) {
        c10d::AllToAllOptions options;
        options.timeout = timeout;
        at::Tensor from = in.view(at::kByte), to = out.view(at::kByte);
        std::vector<std::int64_t> to_splits, from_splits;
        if (*with_splits)
            to_splits = to_bytes, from_splits = from_bytes;
        return inner.alltoall_base(to, from, to_splits, from_splits, options);
    };
    what.finish_on_device = finish(std::move(moves));
    Tensors used = inputs;
    used.insert(used.end(), outputs.begin(), outputs.end());
    return run(call, std::move(what), std::move(results), used);
}

Backend::Pending Backend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options)
{
    const Call call{c10d::OpType::ALLTOALL, "all_to_all", options.timeout, inputs, waits(options)};
    check(call, "output_tensor_list", outputs);
    check(call, "input_tensor_list", inputs);
    common_dtype(call, all_of(outputs, inputs[0]));
    common_dtype(call, inputs);
    require(call, static_cast<int>(outputs.size()) == size_ && static_cast<int>(inputs.size()) == size_,
            c10::str("there are ", inputs.size(), " inputs and ", outputs.size(), " outputs, expected one for each of ",
                     size_, " ranks"));
    const bool even = of_one_size(inputs) && of_one_size(outputs) && inputs[0].numel() == outputs[0].numel();
    return exchange(call, outputs, inputs, even, outputs);
}

Backend::Pending Backend::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                                        std::vector<std::int64_t>& input_splits, const c10d::AllToAllOptions& options)
{
    const Call call{c10d::OpType::ALLTOALL_BASE, "all_to_all_single", options.timeout, input, waits(options)};
    check(call, "output", {output});
    check(call, "input", {input});
    common_dtype(call, {output, input});
    require(call, output.is_contiguous(), "output is not contiguous");
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    const auto cut_up = [&](const at::Tensor& tensor, std::vector<std::int64_t> splits, const char* name) {
        const std::int64_t rows = tensor.dim() == 0 ? tensor.numel() : tensor.size(0);
        if (splits.empty()) {
            require(call, rows % size_ == 0, c10::str(name, " has ", rows, " rows, which ", size_,
                                                      " ranks cannot share evenly"));
            splits.assign(size_, rows / size_);
        }
        std::int64_t total = 0;
        for (const std::int64_t split : splits)
            total += split;
        require(call, static_cast<int>(splits.size()) == size_ && total == rows,
                c10::str(name, "_split_sizes ", c10::IntArrayRef(splits), " do not add up to the ", rows, " rows of ",
                         name));
        const at::Tensor flat = tensor.detach().contiguous().view({-1});
        const std::int64_t width = rows == 0 ? 0 : flat.numel() / rows;
        Tensors parts;
        std::int64_t at = 0;
        for (const std::int64_t split : splits) {
            parts.push_back(flat.narrow(0, at * width, split * width));
            at += split;
        }
        return parts;
    };
    Tensors outputs = cut_up(output, output_splits, "output"), inputs = cut_up(input, input_splits, "input");
    const bool even = of_one_size(inputs) && of_one_size(outputs) && inputs[0].numel() == outputs[0].numel();
    return exchange(call, std::move(outputs), std::move(inputs), even, {output});
}

}  // namespace torch_ocl::distributed
