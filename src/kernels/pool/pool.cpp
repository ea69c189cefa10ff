#include <clprim/pool.hpp>

#include "kernels/team.hpp"

namespace clprim {
namespace {

// pool_t of pool.cl
struct Geometry {
    cl_uint batch, channels;
    cl_int in[3], out[3], extent[3], stride[3], padding[3], dilation[3];
    cl_int include_padding, divisor;
};

// One call: the tensors on both sides, what the kernel needs to know and how it is shared out.
struct Pool {
    Geometry geometry{};
    bool channels_last = false;
    DataType dtype;
    detail::Team team;
    const PoolWindow& window;

    Pool(Queue& queue, const Tensor& wide, const Tensor& narrow, const PoolWindow& window_)   // input side, output side
        : dtype(wide.dtype), team(detail::team_for(queue.device(), 64)), window(window_)
    {
        require(wide.dim() >= 3 && wide.dim() <= 5, "pool: expected [N, C, 1 to 3 spatial axes], got ",
                to_string(wide.shape));
        require(narrow.dim() == wide.dim() && narrow.size(0) == wide.size(0) && narrow.size(1) == wide.size(1),
                "pool: shapes do not fit: ", to_string(wide.shape), " and ", to_string(narrow.shape));
        require(narrow.dtype == wide.dtype, "pool: dtypes differ: ", name_of(wide.dtype), " and ",
                name_of(narrow.dtype));
        channels_last = !(wide.is_contiguous() && narrow.is_contiguous());
        require(!channels_last || (wide.is_channels_last() && narrow.is_channels_last()),
                "pool: both sides must be contiguous or both channels_last");
        require(wide.numel() / std::max<std::int64_t>(1, wide.size(0) * wide.size(1)) < (std::int64_t(1) << 31),
                "pool: planes of 2^31 elements or more are not supported");
        geometry.batch = wide.size(0);
        geometry.channels = wide.size(1);
        geometry.include_padding = window.count_include_pad;
        geometry.divisor = window.divisor_override;
        const std::size_t rank = wide.dim() - 2;
        for (std::size_t i = 0; i < 3; ++i) {
            const bool used = i + rank >= 3;
            const std::size_t axis = used ? i + rank - 3 : 0;   // among the spatial ones
            geometry.in[i] = used ? wide.size(axis + 2) : 1;
            geometry.out[i] = used ? narrow.size(axis + 2) : 1;
            geometry.extent[i] = used ? window.kernel[axis] : 1;
            geometry.stride[i] = used ? window.stride[axis] : 1;
            geometry.padding[i] = used ? window.padding[axis] : 0;
            geometry.dilation[i] = used && !window.adaptive ? window.dilation[axis] : 1;
            require(geometry.extent[i] > 0 && geometry.stride[i] > 0 && geometry.dilation[i] > 0,
                    "pool: kernel size, stride and dilation must be positive");
        }
        // Lanes hold channels; only floats compare and add in vectors as the kernels need it.
        if (!channels_last || !is_floating_point(dtype) || dtype == DataType::float64 || geometry.channels < 4)
            team.vec = 1;
    }

    Kernel& kernel(Queue& queue, const char* name) const
    {
        const DataType acc = detail::accumulate_type(dtype);
        std::string options = detail::define("X", dtype) + detail::define_team({team.vec, 1}, acc);
        if (channels_last)
            options += " -DCHANNELS_LAST";
        if (window.adaptive)
            options += " -DADAPTIVE";
        return queue.context().program("kernels/pool/pool.cl", options).kernel(name);
    }

    // One work-item per VEC channels of an element of `owner`.
    template <class... Arguments>
    void run(Queue& queue, const char* name, const Tensor& owner, const Arguments&... tensors) const
    {
        const std::int64_t pixels = owner.numel() / geometry.channels;
        const std::int64_t items = pixels * detail::divide_up(geometry.channels, team.vec);
        std::int64_t share = 1;
        Range range = Range::linear(items, 64);
        if (team.vec > 1) {
            share = std::max<std::int64_t>(16, detail::divide_up(items, queue.device().compute_units * 16));
            range = Range::groups(detail::divide_up(items, share));
        }
        queue.launch(kernel(queue, name), range, tensors..., geometry, cl_ulong(items), cl_ulong(share));
    }
};

void require_indices(const Tensor& indices, const Tensor& like)
{
    require(indices.dtype == DataType::int64 && indices.shape == like.shape && indices.strides == like.strides,
            "max_pool: indices must be int64 with the output's shape and strides");
}

}  // namespace

void max_pool(Queue& queue, const Tensor& x, const Tensor& y, const Tensor& indices, const PoolWindow& window)
{
    if (y.numel() == 0)
        return;
    if (indices.defined())
        require_indices(indices, y);
    Pool(queue, x, y, window).run(queue, "max_pool", y, x, y, indices);
}

void max_pool_backward(Queue& queue, const Tensor& grad_output, const Tensor& indices, const Tensor& grad_input,
                       const PoolWindow& window)
{
    if (grad_input.numel() == 0)
        return;
    require_indices(indices, grad_output);
    const Pool pool(queue, grad_input, grad_output, window);
    const std::int64_t planes = grad_input.size(0) * grad_input.size(1);
    const bool exact = size_of(grad_input.dtype) >= 4;   // scattering adds in the dtype of the gradient
    if (queue.device().kind == DeviceKind::cpu && !pool.channels_last && exact &&
        planes >= 2 * queue.device().compute_units) {
        queue.launch(pool.kernel(queue, "max_pool_backward_planes"), Range::groups(planes), grad_output, indices,
                     grad_input, pool.geometry);
        return;
    }
    pool.run(queue, "max_pool_backward", grad_input, grad_output, indices, grad_input);
}

void average_pool(Queue& queue, const Tensor& x, const Tensor& y, const PoolWindow& window)
{
    if (y.numel() != 0)
        Pool(queue, x, y, window).run(queue, "average_pool", y, x, y);
}

void average_pool_backward(Queue& queue, const Tensor& grad_output, const Tensor& grad_input, const PoolWindow& window)
{
    if (grad_input.numel() != 0)
        Pool(queue, grad_input, grad_output, window)
            .run(queue, "average_pool_backward", grad_input, grad_output, grad_input);
}

}  // namespace clprim
