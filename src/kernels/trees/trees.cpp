#include <clprim/trees.hpp>

#include <clprim/context.hpp>
#include <core/operands.hpp>

namespace clprim {

void tree_scores(Queue& queue, const TreeEnsemble& trees, const Tensor& x, const Tensor& scores)
{
    detail::check_operands("tree_scores", {{"x", x}, {"scores", scores}, {"roots", trees.roots},
                                           {"features", trees.features}, {"tests", trees.tests},
                                           {"splits", trees.splits}, {"yes", trees.yes}, {"no", trees.no},
                                           {"members", trees.members}, {"votes", trees.votes},
                                           {"targets", trees.targets}, {"weights", trees.weights}});
    require(x.dim() == 2 && scores.dim() == 2 && x.size(0) == scores.size(0) && x.is_contiguous() &&
                scores.is_contiguous(),
            "tree_scores: x [rows, features] and scores [rows, targets] are contiguous, got ", to_string(x.shape),
            " and ", to_string(scores.shape));
    require(x.dtype == DataType::float32 || x.dtype == DataType::float64,
            "tree_scores: expected float32 or float64, got ", name_of(x.dtype));
    require(scores.dtype == x.dtype && trees.splits.dtype == x.dtype && trees.members.dtype == x.dtype &&
                trees.weights.dtype == x.dtype,
            "tree_scores: tables of numbers have the type of x, ", name_of(x.dtype));
    require<NotSupported>(x.dtype == DataType::float32 || queue.device().fp64,
                          "tree_scores: the device has no float64");
    if (scores.numel() == 0)
        return;
    const std::string options = std::string(x.dtype == DataType::float64 ? "-DT=double" : "-DT=float") +
                                " -DAGGREGATE=" + std::to_string(static_cast<int>(trees.aggregate));
    queue.launch(queue.context().program("kernels/trees/trees.cl", options).kernel("tree_scores"),
                 Range::linear(static_cast<std::size_t>(x.size(0)), 16), x, scores, trees.roots, trees.features,
                 trees.tests, trees.splits, trees.yes, trees.no, trees.members, trees.votes, trees.targets,
                 trees.weights, cl_ulong(x.size(0)), cl_int(x.size(1)), cl_int(scores.size(1)),
                 cl_int(trees.roots.numel()), cl_int(trees.features.numel()));
}

}  // namespace clprim
