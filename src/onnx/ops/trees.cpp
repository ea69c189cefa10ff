// TreeEnsemble, TreeEnsembleClassifier, TreeEnsembleRegressor.
#include <clprim/trees.hpp>

#include <algorithm>
#include <set>

#include "onnx/ops/classifier.hpp"
#include "onnx/ops/families.hpp"

namespace clprim::onnx {

namespace {

using Ints = std::vector<std::int64_t>;

// The tables of TreeEnsemble on the host.
struct Tables {
    Ints roots, features, tests, yes, no, votes{0}, targets;
    std::vector<double> splits, members{0.0}, weights;
};

TreeEnsemble uploaded(const Call& call, const Tables& tables, DataType type)
{
    return {
        index_table(call, tables.roots),          index_table(call, tables.features), index_table(call, tables.tests),
        number_table(call, tables.splits, type),  index_table(call, tables.yes),      index_table(call, tables.no),
        number_table(call, tables.members, type), index_table(call, tables.votes),    index_table(call, tables.targets),
        number_table(call, tables.weights, type)};
}

void check_tables(const Call& call, const Tables& tables, std::int64_t targets)
{
    call.check(targets > 0 && targets <= (1 << 24), "there are ", targets, " targets");
    const auto nodes = static_cast<std::int64_t>(tables.features.size()),
               leaves = static_cast<std::int64_t>(tables.votes.size()) - 1;
    const auto check_children = [&](const Ints& children) {
        call.check(&children == &tables.roots || children.size() == tables.features.size(),
                   "attributes of nodes have different lengths");
        for (const std::int64_t child : children)
            call.check(child < nodes && child >= -leaves, "a branch leads out of the tree");
    };
    check_children(tables.roots);
    check_children(tables.yes);
    check_children(tables.no);
    call.check(tables.tests.size() == tables.features.size() && tables.splits.size() == tables.features.size() &&
                   tables.targets.size() == tables.weights.size(),
               "attributes of nodes or leaves have different lengths");
    for (const std::int64_t feature : tables.features)
        call.check(feature >= 0, "a node tests feature ", feature);
    for (const std::int64_t target : tables.targets)
        call.check(target >= 0 && target < targets, "a leaf votes for target ", target, " of ", targets);
}

std::int64_t nan_bit(const Ints& tracks, std::size_t i) { return i < tracks.size() && tracks[i] ? 16 : 0; }

// Operator set 5: nodes and leaves in tables of their own.
Tables read_ensemble(const Call& call)
{
    Tables tables;
    tables.features = call.attribute<Ints>("nodes_featureids");
    tables.splits = call.attribute<Value>("nodes_splits").to_doubles(call.queue());
    tables.tests = call.attribute<Value>("nodes_modes").to_ints(call.queue());
    tables.weights = call.attribute<Value>("leaf_weights").to_doubles(call.queue());
    tables.targets = call.attribute<Ints>("leaf_targetids");
    const Ints tracks = call.ints_attribute("nodes_missing_value_tracks_true");
    const auto children = [&](const char* ids, const char* leafs) {
        Ints result = call.attribute<Ints>(ids);
        const Ints leaf = call.attribute<Ints>(leafs);
        call.check(leaf.size() == result.size(), leafs, " and ", ids, " have different lengths");
        for (std::size_t i = 0; i < result.size(); ++i) {
            call.check(result[i] >= 0, ids, " holds ", result[i]);
            result[i] = leaf[i] ? -1 - result[i] : result[i];
        }
        return result;
    };
    tables.yes = children("nodes_truenodeids", "nodes_trueleafs");
    tables.no = children("nodes_falsenodeids", "nodes_falseleafs");
    call.check(tables.tests.size() == tables.splits.size(), "nodes_modes and nodes_splits have different lengths");
    if (call.has_attribute("membership_values")) {
        tables.members = call.attribute<Value>("membership_values").to_doubles(call.queue());
        tables.members.push_back(std::numeric_limits<double>::quiet_NaN());
    }
    std::size_t member = 0;
    for (std::size_t i = 0; i < tables.tests.size(); ++i) {
        call.check(tables.tests[i] >= 0 && tables.tests[i] <= 6, "nodes_modes holds ", tables.tests[i]);
        if (tables.tests[i] == static_cast<std::int64_t>(TreeTest::member)) {
            call.check(call.has_attribute("membership_values") && member + 1 < tables.members.size(),
                       "there are fewer sets in membership_values than nodes that test for them");
            tables.splits[i] = static_cast<double>(member);
            while (tables.members[member] == tables.members[member])
                ++member;
            ++member;
        }
        tables.tests[i] |= nan_bit(tracks, i);
    }
    for (std::size_t leaf = 0; leaf < tables.targets.size(); ++leaf)
        tables.votes.push_back(static_cast<std::int64_t>(leaf) + 1);
    for (const std::int64_t root : call.attribute<Ints>("tree_roots")) {
        const auto at = static_cast<std::size_t>(root);
        call.check(root >= 0 && at < tables.yes.size(), "tree_roots holds ", root);
        // A tree that is a leaf: both branches lead to it.
        tables.roots.push_back(tables.yes[at] < 0 && tables.yes[at] == tables.no[at] ? tables.yes[at] : root);
    }
    return tables;
}

// Before: nodes by (tree, node), leaves among them; votes in lists that begin with `votes` ("class" or "target").
Tables read_nodes(const Call& call, const std::string& votes)
{
    static const std::map<std::string_view, TreeTest> names{
        {"BRANCH_LEQ", TreeTest::less_equal}, {"BRANCH_LT", TreeTest::less}, {"BRANCH_GTE", TreeTest::greater_equal},
        {"BRANCH_GT", TreeTest::greater}, {"BRANCH_EQ", TreeTest::equal}, {"BRANCH_NEQ", TreeTest::not_equal}};
    using Place = std::pair<std::int64_t, std::int64_t>;
    const Ints trees = call.attribute<Ints>("nodes_treeids"), ids = call.attribute<Ints>("nodes_nodeids");
    const Ints yes = call.attribute<Ints>("nodes_truenodeids"), no = call.attribute<Ints>("nodes_falsenodeids");
    const Ints features = call.attribute<Ints>("nodes_featureids"),
               tracks = call.ints_attribute("nodes_missing_value_tracks_true");
    const auto modes = call.attribute<std::vector<std::string>>("nodes_modes");
    const std::vector<double> splits = numbers_attribute(call, "nodes_values");
    for (const std::size_t length : {ids.size(), yes.size(), no.size(), features.size(), modes.size(), splits.size()})
        call.check(length == trees.size(), "attributes of nodes have different lengths");

    std::map<Place, std::vector<std::size_t>> votes_of;
    const Ints vote_trees = call.attribute<Ints>(votes + "_treeids"),
               vote_nodes = call.attribute<Ints>(votes + "_nodeids");
    const Ints vote_targets = call.attribute<Ints>(votes + "_ids");
    const std::vector<double> weights = numbers_attribute(call, votes + "_weights");
    call.check(vote_trees.size() == weights.size() && vote_nodes.size() == weights.size() &&
                   vote_targets.size() == weights.size(),
               "attributes of votes have different lengths");
    for (std::size_t v = 0; v < weights.size(); ++v)
        votes_of[{vote_trees[v], vote_nodes[v]}].push_back(v);

    Tables tables;
    std::map<Place, std::int64_t> child;             // by (tree, node): its index as a child
    std::int64_t nodes = 0;
    for (std::size_t i = 0; i < trees.size(); ++i) {
        const Place place{trees[i], ids[i]};
        if (modes[i] != "LEAF") {
            call.check(child.emplace(place, nodes++).second, "node ", ids[i], " of tree ", trees[i], " comes twice");
            continue;
        }
        call.check(child.emplace(place, -static_cast<std::int64_t>(tables.votes.size())).second, "node ", ids[i],
                   " of tree ", trees[i], " comes twice");
        for (const std::size_t v : votes_of[place]) {
            tables.targets.push_back(vote_targets[v]);
            tables.weights.push_back(weights[v]);
        }
        tables.votes.push_back(static_cast<std::int64_t>(tables.targets.size()));
    }
    std::set<std::int64_t> seen;
    for (std::size_t i = 0; i < trees.size(); ++i) {
        if (seen.insert(trees[i]).second)            // a tree begins with its root
            tables.roots.push_back(child[{trees[i], ids[i]}]);
        if (modes[i] == "LEAF")
            continue;
        const auto test = names.find(modes[i]);
        call.check(test != names.end(), "nodes_modes holds ", modes[i]);
        const auto yes_child = child.find({trees[i], yes[i]}), no_child = child.find({trees[i], no[i]});
        call.check(yes_child != child.end() && no_child != child.end(), "node ", ids[i], " of tree ", trees[i],
                   " branches to nodes that are not there");
        tables.features.push_back(features[i]);
        tables.tests.push_back(static_cast<std::int64_t>(test->second) | nan_bit(tracks, i));
        tables.splits.push_back(splits[i]);
        tables.yes.push_back(yes_child->second);
        tables.no.push_back(no_child->second);
    }
    return tables;
}

// An ensemble on the device, as a session keeps it.
struct Forest {
    TreeEnsemble trees;
    std::int64_t features = 0;                       // as many as the nodes test
    std::set<std::int64_t> voted;                    // targets of all votes
};

template <class Read>
std::shared_ptr<const Forest> forest_of(const Call& call, DataType type, std::int64_t targets, Read&& read)
{
    return call.derived(std::string(name_of(type)), [&] {
        const Tables tables = read();
        check_tables(call, tables, targets);
        const auto last = std::ranges::max_element(tables.features);
        return Forest{uploaded(call, tables, type), last == tables.features.end() ? 0 : *last + 1,
                      {tables.targets.begin(), tables.targets.end()}};
    });
}

Tensor scores_of(const Call& call, const Tensor& x, const Forest& forest, std::int64_t targets, TreeAggregate aggregate)
{
    call.check(forest.features <= x.size(1), "a node tests feature ", forest.features - 1, " of ", x.size(1));
    const Tensor scores = call.allocate({x.size(0), targets}, x.dtype);
    TreeEnsemble trees = forest.trees;
    trees.aggregate = aggregate;
    trees.checked = true;
    tree_scores(call.queue(), trees, x, scores);
    return scores;
}

// base_values of one element or one per target, added to the scores.
void add_base_values(const Call& call, const Tensor& scores)
{
    const std::vector<double> base = numbers_attribute(call, "base_values");
    if (base.empty())
        return;
    call.check(base.size() == 1 || static_cast<std::int64_t>(base.size()) == scores.size(1), "there are ", base.size(),
               " base_values for ", scores.size(1), " targets");
    const Tensor inputs[] = {scores, number_table(call, base, scores.dtype)};
    pointwise(call.queue(), inputs, {&scores, 1}, {}, "y0 = x0 + x1;");
}

void emit(Call& call, std::size_t i, const Tensor& scores, ElementType type)
{
    const Tensor y = call.output_tensor(i, scores.shape, type);
    pointwise(call.queue(), {&scores, 1}, {&y, 1}, {}, "y0 = x0;");
}

const char* const transforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};

void tree_ensemble(Call& call)
{
    check_type(call, 0, floating);
    const std::int64_t aggregate = call.integer_attribute("aggregate_function", 1),
                       transform = call.integer_attribute("post_transform", 0);
    call.check(aggregate >= 0 && aggregate <= 3, "aggregate_function is ", aggregate, ", expected 0 to 3");
    call.check(transform >= 0 && transform <= 4, "post_transform is ", transform, ", expected 0 to 4");
    const std::int64_t targets = call.attribute<std::int64_t>("n_targets");
    const Tensor x = feature_rows(call, true);
    const auto forest = forest_of(call, x.dtype, targets, [&] { return read_ensemble(call); });
    const Tensor scores = scores_of(call, x, *forest, targets, static_cast<TreeAggregate>(aggregate));
    emit(call, 0, post_transform(call, scores, transforms[transform]), call.type(0));
}

void tree_regressor(Call& call)
{
    const std::string aggregate = call.string_attribute("aggregate_function", "SUM");
    const std::map<std::string_view, TreeAggregate> names{{"AVERAGE", TreeAggregate::average},
                                                          {"SUM", TreeAggregate::sum},
                                                          {"MIN", TreeAggregate::minimum},
                                                          {"MAX", TreeAggregate::maximum}};
    call.check(names.contains(aggregate), "aggregate_function is ", aggregate, ", expected AVERAGE, SUM, MIN or MAX");
    const std::int64_t targets = call.attribute<std::int64_t>("n_targets");
    const Tensor x = feature_rows(call, true);
    const auto forest = forest_of(call, x.dtype, targets, [&] { return read_nodes(call, "target"); });
    const Tensor scores = scores_of(call, x, *forest, targets, names.at(aggregate));
    add_base_values(call, scores);
    emit(call, 0, post_transform(call, scores, call.string_attribute("post_transform", "NONE")), ElementType::float32);
}

void tree_classifier(Call& call)
{
    const ClassLabels labels = class_labels(call, "classlabels_int64s");
    const std::string transform = call.string_attribute("post_transform", "NONE");
    const auto classes = static_cast<std::int64_t>(labels.size());
    const Tensor x = feature_rows(call, true);
    const auto forest = forest_of(call, x.dtype, classes, [&] { return read_nodes(call, "class"); });
    Tensor scores = scores_of(call, x, *forest, classes, TreeAggregate::sum);
    add_base_values(call, scores);
    // All votes for one class of two: the other one's score follows.
    if (forest->voted.size() == 1 && classes == 2) {
        const std::int64_t target = *forest->voted.begin();
        const Tensor both = call.allocate(scores.shape, scores.dtype), only = scores.slice(1, target, target + 1);
        const Tensor first = both.slice(1, 0, 1), second = both.slice(1, 1, 2);
        pointwise(call.queue(), {&only, 1}, {&second, 1}, {}, "y0 = x0;");
        pointwise(call.queue(), {&only, 1}, {&first, 1}, {},
                  transform == "NONE" || transform == "PROBIT" ? "y0 = 1 - x0;" : "y0 = -x0;");
        scores = both;
    }
    const Tensor transformed = post_transform(call, scores, transform);
    emit_labels(call, transformed, labels);
    emit(call, 1, transformed, ElementType::float32);
}

const OperatorRow tree_rows[] = {
    {"TreeEnsemble", 5, tree_ensemble, nullptr, ml},
    {"TreeEnsembleRegressor", 1, tree_regressor, nullptr, ml},
    {"TreeEnsembleClassifier", 1, tree_classifier, nullptr, ml},
};

}  // namespace

std::span<const OperatorRow> tree_operators() { return tree_rows; }

}  // namespace clprim::onnx
