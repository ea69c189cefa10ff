#include <kernels/pointwise/plan.hpp>

#include <algorithm>
#include <numeric>
#include <vector>

#include <clprim/copy.hpp>
#include <clprim/error_hook.hpp>

namespace clprim {

namespace {

void plan_loops(PointwiseCall& call)
{
    const Dims& shape = call.tensor[call.inputs]->shape;
    const int dims = static_cast<int>(shape.size());
    require<NotSupported>(dims <= 64, "tensors have at most 64 dimensions");
    std::int64_t strides[max_operands][64];
    int slots = 0;
    for (int k = 0; k < call.count; ++k)
        if (call.tensor[k]) {
            if (k > call.inputs)
                require(call.tensor[k]->shape == shape, "outputs of a pointwise kernel must have one shape, got ",
                        to_string(shape), " and ", to_string(call.tensor[k]->shape));
            broadcast_strides(*call.tensor[k], shape, "an input", {strides[slots++], 64});
        }
    Iteration& loops = call.loops;
    loops.operands = slots;
    for (int d = dims - 1; d >= 0; --d) {
        if (shape[d] == 1)
            continue;
        std::array<std::int64_t, max_operands> step;
        for (int s = 0; s < slots; ++s)
            step[s] = strides[s][d];
        loops.append(shape[d], {step.data(), static_cast<std::size_t>(slots)});
    }
    loops.sort(slots - 1);
    loops.collapse();
}

// Whether all that is dense along the fastest dimension lies there at multiples of four elements, as many.
bool in_quads(const PointwiseCall& call)
{
    const Iteration& loops = call.loops;
    const bool unit = call.variant == PointwiseVariant::linear || call.variant == PointwiseVariant::rows;
    if (!unit || loops.rank == 0 || loops.size[0] % 4 != 0)
        return false;
    for (int k = 0, slot = 0; k < call.count; ++k) {
        if (!call.tensor[k])
            continue;
        bool fits = !is_complex(call.dtype[k]);
        if (call.step[k] == Step::dense) {
            fits = fits && call.tensor[k]->buffer_offset() % 4 == 0;
            for (int d = 1; d < loops.rank; ++d)
                fits = fits && loops.stride[d][slot] % 4 == 0;
        }
        ++slot;
        if (!fits)
            return false;
    }
    return true;
}

// Chooses the variant of the kernel and how each operand moves along the fastest dimension.
void plan_variant(PointwiseCall& call, const Device& device)
{
    const Iteration& loops = call.loops;
    bool unit = true;      // every operand moves by 1 or 0 along the fastest dimension, outputs by 1
    bool dense = true;     // outputs do
    for (int k = 0, slot = 0; k < call.count; ++k) {
        if (!call.tensor[k]) {
            call.step[k] = Step::value;
            continue;
        }
        std::int64_t stride = loops.rank ? loops.stride[0][slot] : 0;
        ++slot;
        bool output = k >= call.inputs;
        call.step[k] = stride == 1 || (loops.rank == 0 && output) ? Step::dense
                       : stride == 0                              ? Step::still
                                                                  : Step::strided;
        unit = unit && (call.step[k] == Step::dense || (call.step[k] == Step::still && !output));
        dense = dense && (call.step[k] == Step::dense || !output);
    }
    constexpr std::int64_t shortest_row = 16;
    const bool gpu = device.kind == DeviceKind::gpu && !call.heavy;
    const bool rows = loops.rank > 0 && loops.size[0] >= shortest_row;
    call.variant = unit && loops.rank <= 1 ? PointwiseVariant::linear
                   : unit && rows          ? PointwiseVariant::rows
                   : gpu && dense && rows  ? PointwiseVariant::strided
                                           : PointwiseVariant::general;
    if (call.variant == PointwiseVariant::general)
        std::replace_if(call.step.begin(), call.step.begin() + call.count, [](Step s) { return s != Step::value; },
                        Step::strided);
    call.rank = call.variant == PointwiseVariant::linear  ? 0
                : call.variant == PointwiseVariant::rows  ? rank_bucket(loops.rank - 1)
                                                          : rank_bucket(loops.rank);
    constexpr std::int64_t limit = (std::int64_t{1} << 31) - 65536;   // room for the rounded-up global size
    call.wide = loops.reach() >= limit || loops.numel() >= limit;
    call.quads = gpu && in_quads(call);
    call.fours = gpu && !call.quads && call.variant != PointwiseVariant::general;
}

// The input's shape with size 1 where it stands still, and no memory: dense, its axes in the order of the output's.
Tensor in_order_of(const Tensor& input, const Tensor& output)
{
    Tensor dense;
    dense.dtype = input.dtype;
    dense.shape = input.shape;
    for (std::size_t d = 0; d < input.dim(); ++d)
        if (input.strides[d] == 0)
            dense.shape[d] = 1;
    std::vector<std::size_t> axes(input.dim());   // the fastest first
    std::iota(axes.rbegin(), axes.rend(), 0);
    const std::size_t missing = output.dim() - input.dim();
    std::ranges::stable_sort(axes, {}, [&](std::size_t d) { return output.strides[missing + d]; });
    dense.strides = Dims(input.dim(), 0);
    std::int64_t step = 1;
    for (const std::size_t d : axes) {
        dense.strides[d] = step;
        step *= dense.shape[d];
    }
    return dense;
}

}  // namespace

void plan(PointwiseCall& call, const Device& device)
{
    plan_loops(call);
    plan_variant(call, device);
}

DenseCopies::DenseCopies(Queue& queue, PointwiseCall& call)
{
    constexpr std::int64_t fewest = 8192;
    if (queue.device().kind == DeviceKind::gpu || call.variant != PointwiseVariant::general ||
        call.loops.numel() < fewest)
        return;
    PointwiseCall dense = call;
    dense.loops = {};
    copies_.reserve(static_cast<std::size_t>(call.inputs));   // pointers to them stay
    for (int k = 0, slot = 0; k < call.inputs; ++k) {
        if (!call.tensor[k])
            continue;
        if (const std::int64_t stride = call.loops.stride[0][slot++]; stride != 0 && stride != 1)
            dense.tensor[k] = &copies_.emplace_back(in_order_of(*call.tensor[k], *call.tensor[call.inputs]));
    }
    plan(dense, queue.device());
    if (dense.variant == PointwiseVariant::general)
        return;
    std::size_t next = 0;
    for (int k = 0; k < call.inputs; ++k) {
        if (dense.tensor[k] == call.tensor[k])
            continue;
        Tensor source = *call.tensor[k], &target = copies_[next++];
        source.shape = target.shape;
        try {
            const OwnErrors caught_here;
            target.memory = queue.context().empty({source.numel()}, source.dtype, queue).memory;
        } catch (const OutOfMemory&) {
            return;   // the call stays as it was
        }
        copy(queue, source, target);
    }
    call = dense;
}

}  // namespace clprim
