// Sampling at given points, and rearrangements of pictures: grids, blocks to columns and back, crops.
#include <algorithm>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/grid_sample.hpp>
#include <clprim/unfold.hpp>

#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"
#include "onnx/ops/windows.hpp"

namespace clprim::onnx {

namespace {

Tensor contiguous_as(const Call& call, std::size_t i, DataType type)
{
    const Tensor t = call.contiguous(i);
    if (t.dtype == type)
        return t;
    const Tensor result = call.allocate(t.shape, type);
    copy(call.queue(), t, result);
    return result;
}

// Points and elements may have dtypes of their own; both are computed with in floating point.
void grid_sample_operator(Call& call)
{
    const std::string mode = call.string_attribute("mode", call.opset() < 20 ? "bilinear" : "linear");
    const std::string padding = call.string_attribute("padding_mode", "zeros");
    GridSampling how;
    if (mode == "nearest")
        how.mode = SampleMode::nearest;
    else if (mode == "bicubic" || mode == "cubic")
        how.mode = SampleMode::bicubic;
    else
        call.check(mode == "bilinear" || mode == "linear", "mode is '", mode, "', expected linear, nearest or cubic");
    if (padding == "border")
        how.padding = SamplePadding::border;
    else if (padding == "reflection")
        how.padding = SamplePadding::reflection;
    else
        call.check(padding == "zeros", "padding_mode is '", padding, "', expected zeros, border or reflection");
    how.align_corners = call.integer_attribute("align_corners", 0) != 0;
    const Dims &x = call.shape(0), &grid = call.shape(1);
    call.check((x.size() == 4 || x.size() == 5) && grid.size() == x.size() && grid[0] == x[0] &&
                   grid.back() == static_cast<std::int64_t>(x.size()) - 2,
               "input ", to_string(x), " and grid ", to_string(grid), " do not fit");
    Dims shape{x[0], x[1]};
    for (std::size_t i = 1; i + 1 < grid.size(); ++i)
        shape.push_back(grid[i]);
    const DataType type = storage_type(call.type(0)), points = storage_type(call.type(1));
    call.check(is_floating_point(points), "the grid is ", name_of(call.type(1)), ", expected floating point");
    const DataType common = type == points && is_floating_point(type)                      ? type
                            : type == DataType::float64 || points == DataType::float64 ? DataType::float64
                                                                                       : DataType::float32;
    Tensor y = call.allocate(shape, common);
    grid_sample(call.queue(), contiguous_as(call, 0, common), contiguous_as(call, 1, common), y, how);
    if (type != common) {
        const Tensor narrow = call.allocate(shape, type);
        copy(call.queue(), y, narrow);
        y = narrow;
    }
    call.output(0, Value(y, call.type(0)));
}

// Centres of `count` cells that split [-1, 1], or of points with the first at -1 and the last at 1.
Tensor grid_axis(const Call& call, std::int64_t count, bool align_corners, DataType type)
{
    Value points = Value::zeros(ElementType::float64, {count});
    const auto values = points.mutable_host<double>();
    for (std::int64_t i = 0; i < count; ++i)
        values[static_cast<std::size_t>(i)] =
            align_corners ? (count > 1 ? -1 + 2.0 * static_cast<double>(i) / static_cast<double>(count - 1) : -1)
                          : (2 * static_cast<double>(i) + 1) / static_cast<double>(count) - 1;
    Value result = Value::zeros(ElementType::float32, {count});
    if (type == DataType::float64)
        return points.device(call.queue());
    std::ranges::copy(values, result.mutable_host<float>().begin());
    return result.device(call.queue());
}

// grid[n, (d,) h, w, i] = theta[n, i] . (x, y(, z), 1)
void affine_grid(Call& call)
{
    const Dims size(call.ints(1));
    const Tensor theta = call.tensor(0);
    const std::size_t axes = size.size() - 2;
    call.check((size.size() == 4 || size.size() == 5) &&
                   theta.shape == Dims{size[0], static_cast<std::int64_t>(axes), static_cast<std::int64_t>(axes) + 1},
               "theta ", to_string(theta.shape), " and size ", to_string(size), " do not fit");
    Dims shape{size[0]};
    for (std::size_t i = 0; i < axes; ++i) {
        call.check(size[i + 2] > 0, "size ", to_string(size), " must be positive");
        shape.push_back(size[i + 2]);
    }
    shape.push_back(static_cast<std::int64_t>(axes));
    std::vector<Tensor> inputs;
    for (std::size_t k = 0; k <= axes; ++k) {                 // column k of theta: [N, 1..., axes]
        Tensor column = theta.slice(2, static_cast<std::int64_t>(k), static_cast<std::int64_t>(k) + 1);
        Dims where(axes + 2, 1), strides(axes + 2, 0);
        where[0] = size[0];
        where[axes + 1] = static_cast<std::int64_t>(axes);
        strides[0] = theta.stride(0);
        strides[axes + 1] = theta.stride(1);
        column.shape = where;
        column.strides = strides;
        inputs.push_back(column);
    }
    const bool align_corners = call.integer_attribute("align_corners", 0) != 0;
    for (std::size_t k = 0; k < axes; ++k) {                  // x is the last axis
        Dims where(axes + 2, 1);
        where[axes - k] = size[axes + 1 - k];
        inputs.push_back(grid_axis(call, size[axes + 1 - k], align_corners, theta.dtype).reshape(where));
    }
    const Tensor y = call.allocate(shape, theta.dtype);
    call.output(0, Value(y));
    pointwise(call.queue(), inputs, std::span(&y, 1), {},
              axes == 2 ? "y0 = x0 * x3 + x1 * x4 + x2;" : "y0 = x0 * x4 + x1 * x5 + x2 * x6 + x3;");
}

// Adds each tap's column to every position it stands for: any number of axes. The padded picture is returned as a view.
Tensor sum_columns(const Call& call, const Tensor& columns, const Dims& image, const Windows& w, const Dims& blocks)
{
    const std::size_t axes = image.size();
    const std::int64_t batch = columns.size(0), taps = w.kernel.product(), channels = columns.size(1) / taps;
    Dims padded{batch, channels}, split{batch, channels, taps};
    for (std::size_t i = 0; i < axes; ++i) {
        padded.push_back(image[i] + w.pad_begin[i] + w.pad_end[i]);
        split.push_back(blocks[i]);
    }
    const Tensor sum = call.allocate(padded, columns.dtype), source = columns.reshape(split);
    fill(call.queue(), sum, 0);
    for (std::int64_t tap = 0; tap < taps; ++tap) {
        Tensor target = sum;
        Tensor from = source.slice(2, tap, tap + 1);
        std::int64_t rest = tap;
        target.shape = from.shape = Dims{batch, channels};
        from.strides = {source.stride(0), source.stride(1)};
        target.strides = {sum.stride(0), sum.stride(1)};
        Dims position(axes, 0);
        for (std::size_t i = axes; i-- > 0; rest /= w.kernel[i])
            position[i] = rest % w.kernel[i];
        for (std::size_t i = 0; i < axes; ++i) {
            target.offset += position[i] * w.dilation[i] * sum.stride(i + 2);
            target.shape.push_back(blocks[i]);
            target.strides.push_back(sum.stride(i + 2) * w.stride[i]);
            from.shape.push_back(blocks[i]);
            from.strides.push_back(source.stride(i + 3));
        }
        const Tensor inputs[] = {target, from};
        pointwise(call.queue(), inputs, std::span(&target, 1), {}, "y0 = x0 + x1;");
    }
    Tensor result = sum;
    for (std::size_t i = 0; i < axes; ++i)
        result = result.slice(i + 2, w.pad_begin[i], w.pad_begin[i] + image[i]);
    return result;
}

void col2im_operator(Call& call)
{
    const Dims image(call.ints(1)), kernel(call.ints(2));
    const Dims& columns = call.shape(0);
    call.check(columns.size() == 3, "input 0 has shape ", to_string(columns), ", expected N, C times taps, blocks");
    call.check(!image.empty() && image.size() == kernel.size(), "image_shape ", to_string(image), " and block_shape ",
               to_string(kernel), " do not fit");
    Dims shape{columns[0], 0};
    for (const std::int64_t size : image)
        shape.push_back(size);
    const Windows w = windows(call, shape, kernel);
    call.check(columns[1] % kernel.product() == 0, columns[1], " rows cannot be split into blocks of ",
               to_string(kernel));
    Dims blocks;
    for (std::size_t i = 0; i < image.size(); ++i)
        blocks.push_back(w.count(i, image[i]));
    call.check(blocks.product() == columns[2], "there are ", columns[2], " columns, expected ", blocks.product());
    shape[1] = columns[1] / kernel.product();
    const Tensor source = call.contiguous(0);
    if (image.size() != 2 || !w.symmetric() || !is_floating_point(source.dtype))
        return call.output(0, Value(sum_columns(call, source, image, w, blocks), call.type(0)));
    Blocks how;
    for (std::size_t i = 0; i < 2; ++i) {
        how.kernel[i] = static_cast<int>(w.kernel[i]);
        how.dilation[i] = static_cast<int>(w.dilation[i]);
        how.padding[i] = static_cast<int>(w.pad_begin[i]);
        how.stride[i] = static_cast<int>(w.stride[i]);
    }
    const Tensor y = call.allocate(shape, source.dtype);
    call.output(0, Value(y));
    col2im(call.queue(), source, y, how);
}

std::int64_t block_size(const Call& call)
{
    const auto size = call.attribute<std::int64_t>("blocksize");
    call.check(call.shape(0).size() == 4, "input 0 has shape ", to_string(call.shape(0)), ", expected N, C, H, W");
    // Its square is divided by.
    call.check(size > 0 && size <= (1 << 20), "blocksize is ", size, ", expected a positive number of at most 2^20");
    return size;
}

// DCR: blocks are outside of the channels; CRD: inside.
bool blocks_inside(const Call& call)
{
    const std::string mode = call.string_attribute("mode", "DCR");
    call.check(mode == "DCR" || mode == "CRD", "mode is '", mode, "', expected DCR or CRD");
    return mode == "CRD";
}

// Sizes and axes of the fine picture, split: N, C, H, b, W, b; and of the coarse one in that order of axes.
void move_blocks(Call& call, bool to_depth)
{
    const std::int64_t b = block_size(call);
    const bool inside = blocks_inside(call);
    const Tensor x = call.contiguous(0);
    const std::int64_t n = x.size(0), channels = to_depth ? x.size(1) : x.size(1) / (b * b);
    const std::int64_t h = to_depth ? x.size(2) / b : x.size(2), w = to_depth ? x.size(3) / b : x.size(3);
    call.check(to_depth ? x.size(2) % b == 0 && x.size(3) % b == 0 : x.size(1) % (b * b) == 0, "shape ",
               to_string(x.shape), " cannot be split into blocks of ", b);
    const Dims deep_shape{n, channels * b * b, h, w}, wide_shape{n, channels, h * b, w * b};
    const Tensor y = call.allocate(to_depth ? deep_shape : wide_shape, x.dtype);
    const Tensor wide = (to_depth ? x : y).reshape({n, channels, h, b, w, b});
    const Tensor deep = inside ? (to_depth ? y : x).reshape({n, channels, b, b, h, w}).permute({0, 1, 4, 2, 5, 3})
                               : (to_depth ? y : x).reshape({n, b, b, channels, h, w}).permute({0, 3, 4, 1, 5, 2});
    call.output(0, Value(y, call.type(0)));
    if (y.numel())
        copy(call.queue(), to_depth ? wide : deep, to_depth ? deep : wide);
}

void depth_to_space(Call& call) { move_blocks(call, false); }
void space_to_depth(Call& call) { move_blocks(call, true); }

// Cuts or fills with zeros, as evenly as possible at both ends; what is odd falls to the end.
void center_crop_pad(Call& call)
{
    const std::vector<std::int64_t> wanted = call.ints(1);
    Tensor x = call.tensor(0);
    std::vector<std::int64_t> axes = call.ints_attribute("axes");
    if (axes.empty())
        for (std::size_t i = 0; i < x.dim(); ++i)
            axes.push_back(static_cast<std::int64_t>(i));
    call.check(axes.size() == wanted.size(), "there are ", wanted.size(), " sizes for ", axes.size(), " axes");
    Dims shape = x.shape;
    for (std::size_t i = 0; i < axes.size(); ++i) {
        call.check(wanted[i] >= 0, "a size is ", wanted[i]);
        const std::size_t axis = call.axis(axes[i], x.dim());
        shape[axis] = wanted[i];
        const std::int64_t surplus = x.size(axis) - wanted[i];
        if (surplus > 0)
            x = x.slice(axis, surplus / 2, surplus / 2 + wanted[i]);
    }
    if (x.shape == shape)
        return call.output(0, Value(x, call.type(0)));
    const Tensor y = call.allocate(shape, x.dtype);
    fill(call.queue(), y, 0);
    Tensor inner = y;
    for (std::size_t i = 0; i < x.dim(); ++i)
        inner = inner.slice(i, (shape[i] - x.size(i)) / 2, (shape[i] - x.size(i)) / 2 + x.size(i));
    copy(call.queue(), x, inner);
    call.output(0, Value(y, call.type(0)));
}

const OperatorRow sampling_rows[] = {
    {"GridSample", 16, grid_sample_operator},
    {"AffineGrid", 20, affine_grid},
    {"Col2Im", 18, col2im_operator},
    {"DepthToSpace", 1, depth_to_space},
    {"SpaceToDepth", 1, space_to_depth},
    {"CenterCropPad", 18, center_crop_pad},
};

}  // namespace

std::span<const OperatorRow> sampling_operators() { return sampling_rows; }

}  // namespace clprim::onnx
