#include <clprim/pool.hpp>

#include <algorithm>
#include <limits>

#include <clprim/copy.hpp>

#include "kernels/team.hpp"
#include "kernels/pointwise/iteration.hpp"
#include "core/operands.hpp"

namespace clprim {
namespace {

// pool_t of window.cl
struct Geometry {
    cl_uint batch, channels;
    cl_int in[3], out[3], extent[3], stride[3], padding[3], padding_end[3], dilation[3];
    cl_int include_padding, divisor;
};

// As GPUs have it.
struct DividedGeometry {
    Geometry geometry;
    cl_uint magic[3][3], shift[3][3];   // by in, out and stride

    explicit DividedGeometry(const Geometry& g) : geometry(g)
    {
        const cl_int* numbers[] = {g.in, g.out, g.stride};
        for (int number = 0; number < 3; ++number)
            for (int axis = 0; axis < 3; ++axis) {
                const Divider divider(static_cast<std::uint32_t>(std::max(numbers[number][axis], 1)));
                magic[number][axis] = divider.magic;
                shift[number][axis] = divider.shift;
            }
    }
};

// One call: the tensors on both sides, what the kernel needs to know and how it is shared out.
struct Pool {
    Geometry geometry{};
    bool channels_last = false;
    DataType dtype;
    detail::Team team;
    bool cpu = false;
    const PoolWindow& window;

    static bool dilated(const PoolWindow& window) { return window.dilation != std::array<int, 3>{1, 1, 1}; }

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
            geometry.padding_end[i] =
                used && window.padding_end[axis] >= 0 ? window.padding_end[axis] : geometry.padding[i];
            geometry.dilation[i] = used && !window.adaptive ? window.dilation[axis] : 1;
            require(geometry.extent[i] > 0 && geometry.stride[i] > 0 && geometry.dilation[i] > 0,
                    "pool: kernel size, stride and dilation must be positive");
            require(geometry.padding[i] >= 0, "pool: padding must not be negative");
            // Windows start within the input or the padding before it; the last may reach over the end (ceil_mode).
            const std::int64_t begin =
                (std::int64_t(geometry.out[i]) - 1) * geometry.stride[i] - geometry.padding[i];
            require(window.adaptive || geometry.out[i] == 0 || begin < geometry.in[i] + geometry.padding_end[i],
                    "pool: ", geometry.out[i], " windows of stride ", geometry.stride[i], " and padding ",
                    geometry.padding[i], " begin beyond ", geometry.in[i], " elements; y ", to_string(narrow.shape),
                    " is too large for x ", to_string(wide.shape));
            require(!window.adaptive || geometry.in[i] > 0 || geometry.out[i] == 0, "pool: x ", to_string(wide.shape),
                    " has no elements to pool");
        }
        // Lanes are channels (channels_last) or neighbours along x (sliding windows); both kernels compute in float32.
        cpu = team.size == 1;
        const bool wide_enough = channels_last ? geometry.channels >= 4 : !window.adaptive && geometry.out[2] >= 8;
        if (!wide_enough || !is_floating_point(dtype) || dtype == DataType::float64)
            team.vec = 1;
    }

    // Whether 32 bits, of GPUs 31, count elements, and hold what windows that split the input evenly are computed from.
    bool near() const
    {
        const std::int64_t most = cpu ? std::numeric_limits<cl_uint>::max() : std::numeric_limits<cl_int>::max();
        std::int64_t wide = std::int64_t(geometry.batch) * geometry.channels, narrow = wide;
        bool fits = true;
        for (int axis = 0; axis < 3; ++axis) {
            const std::int64_t in = geometry.in[axis], out = geometry.out[axis];
            fits = fits && (in + 1) * (out + 1) <= most;
            wide *= in;
            narrow *= out;
        }
        return fits && wide <= most && narrow <= most;
    }

    // Whether a CPU's lanes run along planes, each a window of its own: they compute in float32.
    bool takes_whole_planes() const
    {
        const auto volume = [](const cl_int* size) { return std::int64_t(size[0]) * size[1] * size[2]; };
        return cpu && !channels_last && window.adaptive && volume(geometry.out) == 1 && volume(geometry.in) >= 32 &&
               is_floating_point(dtype) && dtype != DataType::float64;
    }

    // Whether gradients may grow in memory: a CPU's caches hold them, and their dtype rounds no coarser than sums.
    bool sums_in_place() const { return cpu && size_of(dtype) >= 4; }

    // Whether cpu_average_columns.cl takes averages: rows that fit its arrays, planes for all cores.
    static constexpr int most_columns = 1024;
    bool takes_columns(Queue& queue) const
    {
        const std::int64_t planes = std::int64_t(geometry.batch) * geometry.channels;
        return cpu && !channels_last && is_floating_point(dtype) && !dilated(window) &&
               std::max(geometry.in[2], geometry.out[2]) <= most_columns &&
               planes >= 2 * std::int64_t(queue.device().compute_units);
    }

    // Outputs of a row that cpu_max_columns.cl finds at once, 0 where it does not take maxima: its array holds their
    // columns and what the last sixteen read beyond.
    static constexpr int most_maximum_columns = 2048;
    int columns_of_maxima() const
    {
        const std::int64_t span = (std::int64_t(geometry.extent[2]) - 1) * geometry.dilation[2] + 1,
                           room = (most_maximum_columns - 16 - span) / geometry.stride[2] - 16;
        if (!cpu || channels_last || window.adaptive || geometry.out[2] < 8 || room < 16)
            return 0;
        const std::int64_t tiles = detail::divide_up(std::int64_t{geometry.out[2]}, room),
                           vectors = detail::divide_up(std::int64_t{geometry.out[2]}, 16 * tiles);
        return static_cast<int>(std::min<std::int64_t>(16 * vectors, geometry.out[2]));
    }

    void run_maximum_columns(Queue& queue, const Tensor& x, const Tensor& y) const
    {
        const std::int64_t rows = y.numel() / geometry.out[2],
                           share = detail::divide_up(rows, 16 * std::int64_t(queue.device().compute_units));
        const std::string options = detail::concat(
            detail::define("X", dtype), detail::define_team({16, 1}, detail::accumulate_type(dtype)), " -DMOST=",
            most_maximum_columns, is_floating_point(dtype) ? "" : " -DINTEGERS", dilated(window) ? "" : " -DUNDILATED");
        queue.launch(queue.context().program("kernels/pool/cpu_max_columns.cl", options).kernel("max_pool_columns"),
                     Range::groups(detail::divide_up(rows, share)), x, y, geometry, cl_ulong(rows), cl_ulong(share),
                     columns_of_maxima());
    }

    template <class... Arguments>
    void run_columns(Queue& queue, const std::string& name, const Arguments&... tensors) const
    {
        const std::string options = detail::concat(detail::define("X", dtype),
                                                   detail::define_team({16, 1}, detail::accumulate_type(dtype)),
                                                   " -DUNDILATED -DMOST=", most_columns,
                                                   window.adaptive ? " -DADAPTIVE" : "", near() ? " -DNEAR" : "");
        const std::int64_t planes = std::int64_t(geometry.batch) * geometry.channels,
                           share = detail::divide_up(planes, 16 * std::int64_t(queue.device().compute_units));
        queue.launch(queue.context().program("kernels/pool/cpu_average_columns.cl", options).kernel(name),
                     Range::groups(detail::divide_up(planes, share)), tensors..., geometry, cl_ulong(planes),
                     cl_ulong(share));
    }

    Kernel& kernel(Queue& queue, const std::string& name, unsigned vec) const
    {
        const DataType acc = detail::accumulate_type(dtype);
        std::string options = detail::define("X", dtype) + detail::define_team({vec, 1}, acc);
        if (channels_last)
            options += " -DCHANNELS_LAST";
        if (window.adaptive)
            options += " -DADAPTIVE";
        if (std::ranges::all_of(geometry.dilation, [](cl_int step) { return step == 1; }))
            options += " -DUNDILATED";
        if (near() && !name.ends_with("_planes"))   // whose windows are the same for all lanes of a CPU
            options += " -DNEAR";
        if (!is_floating_point(dtype))
            options += " -DINTEGERS";
        const bool maximum = name.starts_with("max");
        return queue.context()
            .program(maximum ? "kernels/pool/max_pool.cl" : "kernels/pool/average_pool.cl", options)
            .kernel(name);
    }

    // The forward kernel: work-items own elements or rows of `y`.
    template <class... Arguments>
    void forward(Queue& queue, std::string name, const Tensor& y, const Arguments&... tensors) const
    {
        if (team.vec > 1 && !channels_last)
            name += "_lanes";
        run(queue, kernel(queue, name, team.vec), y, geometry.out, team.vec, tensors...);
    }

    // The backward kernels: work-items own planes, bands of lines, elements or rows of grad_input.
    template <class... Arguments>
    void backward(Queue& queue, const std::string& name, const Tensor& grad_input, const Arguments&... tensors) const
    {
        const bool maximum = name.starts_with("max");
        const std::int64_t units = queue.device().compute_units,
                           planes = std::int64_t(geometry.batch) * geometry.channels;
        if (sums_in_place() && channels_last && maximum) {
            const cl_uint bands = detail::divide_up(units * 4, geometry.batch);
            queue.launch(kernel(queue, name + "_bands", 1), Range::groups(geometry.batch * bands), tensors...,
                         grad_input, geometry, bands);
        } else if (sums_in_place() && !maximum && takes_columns(queue)) {
            run_columns(queue, name + "_columns", tensors..., grad_input);
        } else if (sums_in_place() && !channels_last && planes >= 2 * units) {
            queue.launch(kernel(queue, name + "_planes", 1), Range::groups(planes), tensors..., grad_input, geometry);
        } else {
            const unsigned vec = channels_last ? team.vec : 1;
            const bool pixels = vec > 1 && sums_in_place();   // of averages: maxima have gone to bands
            run(queue, kernel(queue, pixels ? name + "_pixels" : name, vec), grad_input, geometry.in, vec, tensors...,
                grad_input);
        }
    }

private:
    template <class... Arguments>
    void run(Queue& queue, Kernel& kernel, const Tensor& owner, const cl_int* sizes, unsigned vec,
             const Arguments&... tensors) const
    {
        std::int64_t items = owner.numel(), share = 1;
        if (!cpu) {
            const std::size_t rows = std::size_t(sizes[0]) * std::size_t(sizes[1]), columns(sizes[2]);
            const Range range = channels_last
                ? detail::plane_range(queue.device(), geometry.channels, columns, geometry.batch * rows)
                : detail::plane_range(queue.device(), columns, rows, std::size_t(geometry.batch) * geometry.channels);
            return queue.launch(kernel, range, tensors..., DividedGeometry(geometry), cl_ulong(items), cl_ulong(share));
        }
        Range range = Range::linear(items, 64);
        if (vec > 1) {   // items are rows
            items /= owner.shape.back() * (channels_last ? std::int64_t(geometry.channels) : 1);
            share = detail::divide_up(items, std::int64_t(queue.device().compute_units) * 16);
            range = Range::groups(detail::divide_up(items, share));
        }
        queue.launch(kernel, range, tensors..., geometry, cl_ulong(items), cl_ulong(share));
    }
};

void require_indices(const Tensor& indices, const Tensor& like)
{
    require(indices.dtype == DataType::int64 && indices.shape == like.shape &&
                indices.is_contiguous() == like.is_contiguous() &&
                indices.is_channels_last() == like.is_channels_last(),
            "max_pool: indices must be int64 with the output's shape and layout");
}

// Calls `backward` with both sides, on CPUs with copies in float32 of shorter floats: their kernels add up in memory.
template <class Backward>
void in_float32(Queue& queue, const Tensor& grad_output, const Tensor& grad_input, const Backward& backward)
{
    const auto dense = [](const Tensor& t) { return t.is_contiguous() || t.is_channels_last(); };
    if (queue.device().kind != DeviceKind::cpu || !is_floating_point(grad_input.dtype) ||
        size_of(grad_input.dtype) != 2 || grad_output.dtype != grad_input.dtype || !dense(grad_output) ||
        !dense(grad_input))
        return backward(grad_output, grad_input);
    const auto wide = [&](const Tensor& like) {
        const Tensor memory = queue.context().empty({like.numel()}, DataType::float32, queue);
        return Tensor(memory.memory, memory.offset, DataType::float32, like.shape, like.strides);
    };
    const Tensor dy = wide(grad_output), dx = wide(grad_input);
    if (dy.numel() != 0)
        copy(queue, grad_output, dy);
    backward(dy, dx);
    copy(queue, dx, grad_input);
}

}  // namespace

void max_pool(Queue& queue, const Tensor& x, const Tensor& y, const Tensor& indices, const PoolWindow& window)
{
    detail::check_operands("max_pool", {{"x", x}, {"y", y}, {"indices", indices, detail::optional}});
    if (y.numel() == 0)
        return;
    if (indices.defined())
        require_indices(indices, y);
    const Pool pool(queue, x, y, window);
    const bool bytes = x.dtype == DataType::int8 || x.dtype == DataType::uint8;
    if ((bytes || pool.team.vec == 16) && pool.cpu && pool.channels_last && pool.geometry.channels >= 16 &&
        !indices.defined()) {
        const std::int64_t rows = y.numel() / (std::int64_t(pool.geometry.channels) * pool.geometry.out[2]);
        Kernel& kernel = pool.kernel(queue, "max_pool_rows", bytes ? 1 : 16);
        queue.launch(kernel, Range::groups(rows), x, y, pool.geometry);
        return;
    }
    if (pool.takes_whole_planes()) {
        const std::int64_t planes = y.numel(), share = detail::divide_up(planes, 16 * queue.device().compute_units);
        queue.launch(pool.kernel(queue, "max_pool_planes", 16), Range::groups(detail::divide_up(planes, share)), x, y,
                     indices, pool.geometry, cl_ulong(planes), cl_ulong(share));
        return;
    }
    if (!indices.defined() && pool.columns_of_maxima() > 0)
        return pool.run_maximum_columns(queue, x, y);
    pool.forward(queue, "max_pool", y, x, y, indices);
}

void max_pool_backward(Queue& queue, const Tensor& grad_output, const Tensor& indices, const Tensor& grad_input,
                       const PoolWindow& window)
{
    detail::check_operands("max_pool_backward", {{"grad_output", grad_output}, {"indices", indices},
                                                 {"grad_input", grad_input}});
    if (grad_input.numel() == 0)
        return;
    require_indices(indices, grad_output);
    in_float32(queue, grad_output, grad_input, [&](const Tensor& dy, const Tensor& dx) {
        Pool(queue, dx, dy, window).backward(queue, "max_pool_backward", dx, dy, indices);
    });
}

void average_pool(Queue& queue, const Tensor& x, const Tensor& y, const PoolWindow& window)
{
    detail::check_operands("average_pool", {{"x", x}, {"y", y}});
    if (y.numel() == 0)
        return;
    Pool pool(queue, x, y, window);
    if (pool.dilated(window) && !pool.channels_last)
        pool.team.vec = 1;   // the lanes along x walk neighbours
    if (pool.team.vec == 1 && pool.takes_columns(queue))
        return pool.run_columns(queue, "average_pool_columns", x, y);
    pool.forward(queue, "average_pool", y, x, y);
}

void average_pool_backward(Queue& queue, const Tensor& grad_output, const Tensor& grad_input, const PoolWindow& window)
{
    detail::check_operands("average_pool_backward", {{"grad_output", grad_output}, {"grad_input", grad_input}});
    if (grad_input.numel() == 0)
        return;
    require(!Pool::dilated(window), "average_pool_backward: dilation is not supported");
    in_float32(queue, grad_output, grad_input, [&](const Tensor& dy, const Tensor& dx) {
        Pool(queue, dx, dy, window).backward(queue, "average_pool_backward", dx, dy);
    });
}

}  // namespace clprim
