#include <clprim/context.hpp>
#include <clprim/index.hpp>
#include <kernels/index/geometry.hpp>

namespace clprim {

namespace {

constexpr const char* reduce_names[] = {"assign", "sum", "product", "minimum", "maximum"};

std::string build_options(const Tensor& self, const Tensor& index, IndexReduce reduce, const Geometry& lines)
{
    return "-DT=" + std::string(name_of(self.dtype)) + " -DINDEX=" + std::string(name_of(index.dtype)) + " -DREDUCE_" +
           reduce_names[static_cast<int>(reduce)] + (is_complex(self.dtype) ? " -DCOMPLEX" : "") + lines.options();
}

// The lines of a tensor: all axes but the last.
Tensor lines_of(Tensor tensor)
{
    tensor.shape.resize(tensor.dim() - 1);
    tensor.strides.resize(tensor.strides.size() - 1);
    return tensor;
}

}  // namespace

void reduce_through(Queue& queue, const Tensor& self, const IndexedAxis& axis, const Tensor& source,
                    IndexReduce reduce)
{
    require(self.dtype == source.dtype, axis.name, ": dtypes ", name_of(self.dtype), " and ",
            name_of(source.dtype), " differ");
    require(self.shape == source.shape && self.shape == axis.index.shape, axis.name, ": shapes differ");
    if (source.numel() == 0)
        return;
    const Tensor& index = axis.index;
    const cl_long entries = source.shape.back();
    const Tensor self_lines = lines_of(self), source_lines = lines_of(source), index_lines = lines_of(index);
    const Geometry lines({&self_lines, &source_lines, &index_lines});
    Kernel& kernel = queue.context()
                         .program("kernels/index/accumulate.cl", build_options(self, index, reduce, lines))
                         .kernel("accumulate_lines");
    Launch launch(queue, kernel);
    launch.arg(self).arg(source).arg(index).arg(entries).arg(cl_long(source.strides.back()))
        .arg(cl_long(index.strides.back())).arg(cl_long(axis.size)).arg(cl_long(axis.stride))
        .arg(queue.error_buffer()).arg(Queue::error_code(axis.name));
    lines.set_argument(launch);
    launch.run(Range::linear(lines.numel(), 64));
    queue.expect_errors();
}

}  // namespace clprim
