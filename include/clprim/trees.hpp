// Ensembles of decision trees.
#pragma once

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

enum class TreeTest { less_equal, less, greater_equal, greater, equal, not_equal, member };
enum class TreeAggregate { average, sum, minimum, maximum };

// Trees as tables. A child is the index of a node, or -1 - i for leaf i; so is a root. A leaf votes for any number of
// targets. All tensors are contiguous, of int32 or of the type of x (float32 or float64).
struct TreeEnsemble {
    Tensor roots;                            // one child per tree
    Tensor features, tests, splits, yes, no; // per node; tests: TreeTest, + 16 if NaN goes to `yes`
    Tensor members;                          // values of sets, each ended by a NaN; a member test's split is where its
                                             // set begins
    Tensor votes;                            // leaf i casts votes votes[i] to votes[i + 1]
    Tensor targets, weights;                 // per vote
    TreeAggregate aggregate = TreeAggregate::sum;
    bool checked = false;                    // the caller knows that every entry leads to what is there
};

// scores[row, target] = the aggregate of the votes of the leaves that x[row, features] falls into, one per tree; 0
// where there are none. Features, children and targets that are not there throw IndexError at the next synchronisation;
// a cycle ends after as many steps as there are nodes. Contiguous x and scores of one type, tables as long as each
// other where they describe the same; throws InvalidArgument otherwise.
void tree_scores(Queue& queue, const TreeEnsemble& trees, const Tensor& x, const Tensor& scores);

}  // namespace clprim
CLPRIM_API_END
