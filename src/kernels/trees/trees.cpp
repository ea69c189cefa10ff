#include <clprim/trees.hpp>

#include <clprim/context.hpp>
#include <core/operands.hpp>

namespace clprim {
namespace {

void check_tables(const TreeEnsemble& trees)
{
    const auto table = [](const char* name, const Tensor& t, DataType type, std::int64_t count) {
        require(t.dim() == 1 && t.is_contiguous() && t.dtype == type && t.numel() <= INT32_MAX &&
                    (count < 0 || t.numel() == count),
                "tree_scores: ", name, " are a contiguous vector of ", name_of(type),
                count < 0 ? std::string() : ", as long as features or votes ask: " + std::to_string(count), ", got ",
                name_of(t.dtype), " ", to_string(t.shape));
    };
    const DataType number = trees.splits.dtype;
    const std::int64_t nodes = trees.features.numel(), votes = trees.targets.numel();
    table("roots", trees.roots, DataType::int32, -1);
    table("features", trees.features, DataType::int32, nodes);
    table("tests", trees.tests, DataType::int32, nodes);
    table("splits", trees.splits, number, nodes);
    table("yes", trees.yes, DataType::int32, nodes);
    table("no", trees.no, DataType::int32, nodes);
    table("members", trees.members, number, -1);
    table("votes", trees.votes, DataType::int32, -1);
    table("targets", trees.targets, DataType::int32, votes);
    table("weights", trees.weights, number, votes);
    require(trees.votes.numel() > 0, "tree_scores: votes begin and end for each leaf, so that there is at least one");
}

}  // namespace

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
    check_tables(trees);
    require(x.size(1) <= INT32_MAX && scores.size(1) <= INT32_MAX, "tree_scores: rows of ", x.size(1), " and ",
            scores.size(1), " numbers are too long");
    require<NotSupported>(x.dtype == DataType::float32 || queue.device().fp64,
                          "tree_scores: the device has no float64");
    if (scores.numel() == 0)
        return;
    const std::string options = std::string(x.dtype == DataType::float64 ? "-DT=double" : "-DT=float") +
                                " -DAGGREGATE=" + std::to_string(static_cast<int>(trees.aggregate)) +
                                (trees.checked ? "" : " -DCHECK");
    Launch launch(queue, queue.context().program("kernels/trees/trees.cl", options).kernel("tree_scores"));
    for (const Tensor* tensor : {&x, &scores, &trees.roots, &trees.features, &trees.tests, &trees.splits, &trees.yes,
                                 &trees.no, &trees.members, &trees.votes, &trees.targets, &trees.weights})
        launch.arg(*tensor);
    const auto length = [](const Tensor& t) { return static_cast<cl_int>(t.numel()); };
    launch.arg(cl_ulong(x.size(0))).arg(cl_int(x.size(1))).arg(cl_int(scores.size(1)));
    launch.arg(length(trees.roots)).arg(length(trees.features));
    if (!trees.checked) {
        launch.arg(length(trees.votes) - 1).arg(length(trees.targets)).arg(length(trees.members));
        launch.arg(queue.error_buffer()).arg(Queue::error_code("tree_scores"));
        queue.expect_errors();
    }
    launch.run(Range::linear(static_cast<std::size_t>(x.size(0)), 16));
}

}  // namespace clprim
