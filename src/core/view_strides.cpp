#include "core/view_strides.hpp"

namespace clprim::detail {

std::optional<Dims> view_strides(const Tensor& tensor, const Dims& shape)
{
    Dims strides = contiguous_strides(shape);
    if (tensor.numel() == 0)
        return strides;
    std::size_t to = shape.size();
    for (std::size_t from = tensor.dim(); from-- > 0;) {
        std::int64_t run = tensor.shape[from];            // elements of a run of axes that can be merged
        const std::int64_t step = tensor.strides[from];
        while (from > 0 && (tensor.shape[from - 1] == 1 || tensor.strides[from - 1] == step * run))
            run *= tensor.shape[--from];
        if (run == 1)
            continue;
        std::int64_t stride = step, left = run;
        for (; left > 1 || (to > 0 && shape[to - 1] == 1); stride *= shape[to]) {
            if (to == 0 || left % shape[to - 1])
                return std::nullopt;
            --to;
            strides[to] = stride;
            left /= shape[to];
        }
    }
    return strides;
}

}  // namespace clprim::detail
