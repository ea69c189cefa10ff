// How lines of a transform lie in memory: layout_t, lines_t of layout.cl.
#pragma once

#include <clprim/queue.hpp>

namespace clprim::detail {

// Line l begins at l / inner * outer + l % inner * line; its elements are `step` apart.
struct Layout {
    cl_ulong outer, line, step;
};

// `all`: elements of a transform that the lines are part of, or 0; `fine`: what its roots are split by.
struct Lines {
    Layout x, y;
    cl_uint lines, inner, all, fine = 0;
    cl_int inverse = 0;
};

}  // namespace clprim::detail
