#include <kernels/optim/multi_tensor.hpp>

#include <bit>

#include <clprim/context.hpp>

namespace clprim {

namespace {

constexpr std::size_t max_buffers = 16;
// A work-group and its elements, as in multi_tensor.cl.
struct Groups {
    std::size_t size;
    std::uint64_t elements;
};

Groups groups_of(const Device& device)
{
    return device.kind == DeviceKind::cpu ? Groups{16, 16 * 256} : Groups{64, 64 * 16};
}

std::uint64_t scalar_bits(double value, bool wide)
{
    return wide ? std::bit_cast<std::uint64_t>(value) : std::bit_cast<std::uint32_t>(static_cast<float>(value));
}

// Tensors of one launch while they are collected.
struct Batch {
    Groups per;
    std::vector<cl_mem> buffers = {};
    std::vector<std::uint64_t> first_groups = {}, entries = {};
    std::uint64_t groups = 0;

    // The word for an operand; adds its buffer. Returns false, and adds nothing, if there is no room.
    bool add(std::span<const Tensor* const> operands, std::uint64_t scalar)
    {
        std::vector<cl_mem> wanted = buffers;
        std::vector<std::uint64_t> words = {static_cast<std::uint64_t>(operands[0]->numel()), scalar};
        for (const Tensor* operand : operands) {
            const cl_mem buffer = operand->memory->buffer;
            std::size_t id = std::find(wanted.begin(), wanted.end(), buffer) - wanted.begin();
            if (id == wanted.size())
                wanted.push_back(buffer);
            words.push_back(std::uint64_t(id) << 56 | operand->buffer_offset());
        }
        if (wanted.size() > max_buffers)
            return false;
        buffers = std::move(wanted);
        entries.insert(entries.end(), words.begin(), words.end());
        first_groups.push_back(groups);
        groups += (words[0] + per.elements - 1) / per.elements;
        return true;
    }

    void launch(Queue& queue, Kernel& kernel, const std::function<void(Launch&)>& more)
    {
        if (groups == 0)
            return;
        std::vector<std::uint64_t> table = {first_groups.size()};
        table.insert(table.end(), first_groups.begin(), first_groups.end());
        table.insert(table.end(), entries.begin(), entries.end());
        const std::size_t bytes = table.size() * sizeof(table[0]);
        const Tensor words =
            queue.context().empty({static_cast<std::int64_t>(table.size())}, DataType::uint64, queue);
        queue.write(*words.memory, 0, table.data(), bytes);
        Launch launch(queue, kernel);
        launch.arg(words);
        for (std::size_t i = 0; i < max_buffers; ++i)
            launch.arg(BufferArgument{i < buffers.size() ? buffers[i] : nullptr});
        if (more)
            more(launch);
        launch.run(Range::groups(groups, per.size));
    }
};

}  // namespace

std::uint64_t multi_tensor_parts(const Device& device, const Tensor& tensor)
{
    const Groups per = groups_of(device);
    const std::uint64_t groups = (static_cast<std::uint64_t>(tensor.numel()) + per.elements - 1) / per.elements;
    return device.kind == DeviceKind::cpu ? groups * per.size : groups;
}

std::string multi_tensor_options(std::span<const TensorList* const> lists, std::string_view name, int steps,
                                 DataType steps_type)
{
    const TensorList& first = *lists[0];
    require(!first.empty() && is_floating_point(first[0].dtype), name, ": expected lists of floating-point tensors");
    for (std::size_t l = 0; l < lists.size(); ++l) {
        const TensorList& list = *lists[l];
        require(list.size() == first.size(), name, ": lists of ", first.size(), " and ", list.size(), " tensors");
        const bool is_steps = static_cast<int>(l) == steps;
        for (std::size_t t = 0; t < list.size(); ++t) {
            list[t].check(name, "a tensor of the lists");
            require(list[t].dtype == (is_steps ? steps_type : first[0].dtype), name, ": unexpected dtype ",
                    name_of(list[t].dtype));
            if (!(is_steps ? list[t].numel() == 1 : list[t].numel() == first[t].numel())) [[unlikely]]
                throw InvalidArgument(detail::concat(name, ": tensors of shapes ", to_string(first[t].shape), " and ",
                                                     to_string(list[t].shape)));
            require(is_steps || list[t].is_non_overlapping_and_dense(), name, ": tensors must be dense");
        }
    }
    return "-DT=" + std::string(name_of(first[0].dtype)) + " -DLISTS=" + std::to_string(lists.size()) +
           (first[0].dtype == DataType::float64 ? " -DWIDE" : "");
}

void launch_multi_tensor(Queue& queue, Kernel& kernel, std::span<const TensorList* const> lists,
                         std::span<const double> scalars, const std::function<void(Launch&)>& more)
{
    const bool wide = (*lists[0])[0].dtype == DataType::float64;
    const std::size_t count = lists[0]->size();
    require(scalars.size() <= 1 || scalars.size() == count, scalars.size(), " scalars for ", count, " tensors");
    const Groups per = groups_of(queue.device());
    Batch batch{per};
    std::vector<const Tensor*> operands(lists.size());
    for (std::size_t t = 0; t < count; ++t) {
        if ((*lists[0])[t].numel() == 0)
            continue;
        for (std::size_t l = 0; l < lists.size(); ++l)
            operands[l] = &(*lists[l])[t];
        const double scalar = scalars.empty() ? 0 : scalars[scalars.size() == 1 ? 0 : t];
        if (!batch.add(operands, scalar_bits(scalar, wide))) {
            batch.launch(queue, kernel, more);
            batch = Batch{per};
            batch.add(operands, scalar_bits(scalar, wide));
        }
    }
    batch.launch(queue, kernel, more);
}

}  // namespace clprim
