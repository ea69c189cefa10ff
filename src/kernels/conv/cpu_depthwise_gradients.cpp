// Host side of cpu_depthwise_pairs.cl and cpu_depthwise_field_weight.cl: gradients of planar layouts with the taps'
// sums or two residues' results in registers.
#include <algorithm>

#include <kernels/conv/cpu_depthwise.hpp>

namespace clprim::conv {

namespace {

// Whether cpu_depthwise_pairs.cl takes a data gradient; one launch then stands for those of four residues.
struct PairsField {
    static constexpr cl_long together = 4;   // ROWS there: pairs of rows
    cl_long rows, pitch;

    PairsField(const Problem& q, DataType dtype)
    {
        const cl_long vector = depthwise_vector(dtype), half = (q.kernel[1] + 1) / 2;
        rows = ceil_div(q.in[1], 2 * together) * together + half - 1;
        pitch = ceil_div(ceil_div(q.in[2], 2 * vector) * vector + half - 1, vector) * vector;
    }
    std::size_t bytes(std::size_t real_size) const { return static_cast<std::size_t>(rows * pitch) * real_size; }
};

bool fits_pairs(const Call& call, const Device& device, const PairsField& field)
{
    const Problem& q = call.problem;
    const cl_long taps = q.kernel[1];
    const bool fits = call.pass == ConvPass::backward_data && !has_channels_last(call) && q.out_channels == 1 &&
                      q.stride[0] == 1 && taps == q.kernel[2] && (taps == 3 || taps == 5 || taps == 7) &&
                      q.stride[1] == 2 && q.stride[2] == 2 && q.dilation[1] == 1 && q.dilation[2] == 1 &&
                      q.pad[1] % 2 == q.pad[2] % 2 && q.x_strides[4] == 1 && q.y_strides[4] == 1 &&
                      q.batch * q.in[1] * q.in[2] > 0;
    return fits && field.bytes(size_of(real_type(call.dtype))) <=
                       std::min<std::size_t>(device.local_memory, 128 * 1024);
}

void launch_pairs(Queue& queue, const Call& call, const PairsField& field)
{
    const Problem& q = call.problem;
    DepthwiseProblem p = depthwise_from_implicit(common_problem(call), q);
    const cl_long odd = q.pad[1] % 2;
    for (int i = 0; i < 2; ++i) {
        p.out[i] = q.in[1 + i];
        p.shift[i] = q.pad[1 + i] / 2 + odd - (q.kernel[1] - 1) / 2;
    }
    const cl_long items = 16 * static_cast<cl_long>(queue.device().compute_units);
    const cl_long each = std::clamp<cl_long>(p.groups * p.batch / items, 1, depthwise_planes);
    const std::string options = dtype_options(call) + " -DTAPS=" + std::to_string(q.kernel[1]) +
                                " -DODD=" + std::to_string(odd);
    const Program& program = queue.context().program("kernels/conv/cpu_depthwise_pairs.cl", options);
    queue.launch(program.kernel("conv_depthwise_pairs"),
                 Range::groups(static_cast<std::size_t>(ceil_div(p.groups, each) * p.batch)), call.y, call.w, call.bias,
                 call.x, LocalMemory{field.bytes(size_of(real_type(call.dtype)))}, cl_int(field.rows),
                 cl_int(field.pitch), cl_int(each), p);
}

// The field of cpu_depthwise_field_weight.cl.
struct WeightField {
    cl_long rows, pitch, parts;

    WeightField(const DepthwiseProblem& p, DataType dtype)
    {
        const cl_long vector = depthwise_vector(dtype);
        parts = p.scale[1];
        rows = (p.out[0] - 1) * p.scale[0] + p.taps[0];
        pitch = ceil_div(ceil_div(p.out[1], vector) * vector + (p.taps[1] - 1) / parts, vector) * vector;
    }
    std::size_t bytes(std::size_t real_size) const
    {
        return static_cast<std::size_t>(rows * parts * pitch) * real_size;
    }
};

// Short rows that cpu_depthwise_same.cl takes as one long row fill its vectors.
bool fits_weight_field(const DepthwiseProblem& p, const Call& call, const Device& device, const WeightField& field)
{
    const cl_long taps = p.taps[0];
    bool fits = p.rows == 1 && p.depth == 1 && taps == p.taps[1] && (taps == 3 || taps == 5 || taps == 7) &&
                p.source_strides[3] == 1 && p.result_strides[3] == 1 && (p.out[1] >= 9 || !has_same_positions(p));
    for (int i = 0; i < 2; ++i)
        fits &= p.scale[i] == p.scale[0] && p.scale[i] <= 2 && p.step[i] == 1;
    return fits && p.out[0] * p.out[1] > 0 && field.bytes(size_of(real_type(call.dtype))) <=
                                                  std::min<std::size_t>(device.local_memory, 128 * 1024);
}

void launch_weight_field(Queue& queue, const Call& call, const DepthwiseProblem& p, const WeightField& field)
{
    const cl_long items = 16 * static_cast<cl_long>(queue.device().compute_units);
    const cl_long each = std::clamp<cl_long>(p.groups / items, 1, depthwise_planes);
    const std::string options = dtype_options(call) + " -DTAPS=" + std::to_string(p.taps[0]) +
                                " -DSTRIDE=" + std::to_string(p.scale[0]);
    const Program& program = queue.context().program("kernels/conv/cpu_depthwise_field_weight.cl", options);
    queue.launch(program.kernel("conv_depthwise_field_weight"),
                 Range::groups(static_cast<std::size_t>(ceil_div(p.groups, each))), call.x, call.y, call.w,
                 LocalMemory{field.bytes(size_of(real_type(call.dtype)))}, cl_int(field.rows), cl_int(field.pitch),
                 cl_int(each), p);
}

}  // namespace

bool run_depthwise_pairs(Queue& queue, const Call& call)
{
    const PairsField field(call.problem, call.dtype);
    const bool fits = fits_pairs(call, queue.device(), field);
    if (fits)
        launch_pairs(queue, call, field);
    return fits;
}

bool run_depthwise_weight_field(Queue& queue, const Call& call, const DepthwiseProblem& p)
{
    const WeightField field(p, call.dtype);
    const bool fits = fits_weight_field(p, call, queue.device(), field);
    if (fits)
        launch_weight_field(queue, call, p, field);
    return fits;
}

}  // namespace clprim::conv
