#include <kernels/conv/gpu_matrix_blocks.hpp>

#include <algorithm>

#include <clprim/copy.hpp>
#include <kernels/gemm/gpu_matrix.hpp>

namespace clprim::conv {

using detail::round_up;

namespace {

// Rows and columns exchanged.
void turn(ImplicitProblem& p)
{
    for (cl_long* axes : {p.taps, p.in, p.out, p.kernel, p.tap_first, p.tap_period, p.scale, p.shift, p.step,
                          p.source_strides + 2, p.result_strides + 2})
        std::swap(axes[1], axes[2]);
}

}  // namespace

bool blocks_fit(const ImplicitProblem& p, cl_long offset)
{
    constexpr cl_long longest = 1 << 22, shortest = 32;   // elements of a row
    const cl_long* s = p.source_strides;
    const cl_long aligned = offset | (p.batch > 1 ? s[0] : 0) | (p.scale[1] > 1 ? s[3] : 0);
    return s[1] == 1 && aligned % 32 == 0 && s[3] % 8 == 0 && s[4] % 2 == 0 && p.in[2] * s[4] <= s[3] &&
           s[4] >= p.groups * p.depth && p.in[2] * s[4] >= shortest && p.scale[1] * s[3] < longest && p.in[1] < longest;
}

void BlockPlan::tell(ImplicitProblem& p) const
{
    p.depth = channels;
    std::copy_n(strides, 5, p.source_strides);
    if (turned)
        turn(p);
    if (image_rows) {
        p.in[1] = p.batch * image_rows;
        p.batch = 1;
    }
}

void lay_out_copy(const ImplicitProblem& p, BlockPlan& plan)
{
    const int outer = plan.turned ? 2 : 1, inner = plan.turned ? 1 : 2;
    const cl_long channels = p.groups * plan.channels;
    plan.copied = true;
    plan.strides[0] = (plan.image_rows ? plan.image_rows : p.in[outer]) * round_up(p.in[inner] * channels, block_k);
    plan.strides[1] = 1;
    plan.strides[2] = 0;
    plan.strides[2 + inner] = channels;
    plan.strides[2 + outer] = round_up(p.in[inner] * channels, block_k);
}

Tensor copied(Queue& queue, const Tensor& t, const ImplicitProblem& p, const BlockPlan& plan)
{
    const cl_long *s = p.source_strides, *d = plan.strides;
    const int outer = plan.turned ? 2 : 1, inner = plan.turned ? 1 : 2;
    const Tensor from(t.memory, t.offset, t.dtype, {p.batch, p.in[outer], p.in[inner], p.groups, p.depth},
                      {s[0], s[2 + outer], s[2 + inner], p.depth * s[1], s[1]});
    const Tensor to = queue.context().empty({p.batch * d[0]}, t.dtype, queue);
    if (plan.channels != p.depth || plan.image_rows)
        fill_zero(queue, to);
    copy(queue, from, Tensor(to.memory, to.offset, to.dtype, from.shape,
                             {d[0], d[2 + outer], d[2 + inner], plan.channels, 1}));
    return to;
}

bool reads_blocks(const Device& device)
{
    const auto engine = detail::matrix_engine(device);
    return engine.engine == detail::MatrixEngine::dpas16 &&
           (engine.emulated || device.has_extension("cl_intel_subgroup_2d_block_io"));
}

}  // namespace clprim::conv
