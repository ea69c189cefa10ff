// Gelu as exporters write it becomes one node, which products and convolutions take in:
//
//   x (1 + erf(x / sqrt(2))) / 2
//   x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2          its approximation
//
// with the factors in any order.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "onnx/call.hpp"
#include "onnx/patterns.hpp"

namespace clprim::onnx {

namespace {

class GeluFusion {
public:
    explicit GeluFusion(Rewriter& rewriter) : rewriter_(rewriter) {}

    void run()
    {
        for (std::size_t i = 0; i < rewriter_.size(); ++i) {
            if (rewriter_.dead(i))
                continue;
            members_ = {i};
            lends_axis_ = false;
            const Node& root = rewriter_.node(i);
            if (is_plain(root, "Erf"))
                fuse(root, argument_of_erf(root), "none");
            else if (is_plain(root, "Tanh"))
                fuse(root, argument_of_tanh(root), "tanh");
        }
        rewriter_.finish();
    }

private:
    // One number; `lends_axis_` says whether some had an axis, which x without axes would get.
    bool is_number(int slot, double wanted)
    {
        const Value* value = rewriter_.constant(slot);
        const float* number = value && value->dim() <= 1 ? float_data(value, 1) : nullptr;
        if (!number || std::abs(*number - wanted) > 1e-6 * wanted)
            return false;
        lends_axis_ |= value->dim() == 1;
        return true;
    }

    bool surely_has_axes(int slot) const
    {
        const Node* writer = rewriter_.writer(slot);
        if (!writer)
            return false;
        if (is_plain(*writer, "Add", 2))
            return std::ranges::any_of(writer->inputs, [&](int input) {
                const Value* value = rewriter_.constant(input);
                return value && value->is_tensor() && value->dim() > 0;
            });
        return is_plain(*writer, "Conv") || is_plain(*writer, "Gemm") || is_plain(*writer, "BatchNormalization");
    }

    // The other operand of a product with this number, or of a sum; absent if the node is not that.
    int beside_number(const Node& node, std::string_view op_type, double wanted)
    {
        if (!is_plain(node, op_type, 2) || node.opset < 7)
            return absent;
        for (const std::size_t i : {0u, 1u})
            if (is_number(node.inputs[i], wanted))
                return node.inputs[1 - i];
        return absent;
    }

    int beside(const Node& node, std::string_view op_type, int slot) const
    {
        if (!is_plain(node, op_type, 2) || node.opset < 7)
            return absent;
        return node.inputs[0] == slot ? node.inputs[1] : node.inputs[1] == slot ? node.inputs[0] : absent;
    }

    // The node that writes what only one node reads: a member, if the others fit.
    const Node* inner(int slot)
    {
        const Node* writer = slot != absent && rewriter_.only_reader(slot) ? rewriter_.writer(slot) : nullptr;
        if (writer)
            members_.push_back(rewriter_.position(*writer));
        return writer;
    }

    int argument_of_erf(const Node& root)
    {
        const Node* scaled = inner(root.inputs[0]);
        if (!scaled)
            return absent;
        if (is_plain(*scaled, "Div", 2) && scaled->opset >= 7 && is_number(scaled->inputs[1], std::numbers::sqrt2))
            return scaled->inputs[0];
        return beside_number(*scaled, "Mul", 1 / std::numbers::sqrt2);
    }

    int argument_of_tanh(const Node& root)
    {
        const Node* scaled = inner(root.inputs[0]);
        const int sum = scaled ? beside_number(*scaled, "Mul", std::sqrt(2 / std::numbers::pi)) : absent;
        const Node* added = inner(sum);
        if (!added || !is_plain(*added, "Add", 2) || added->opset < 7)
            return absent;
        for (const std::size_t i : {0u, 1u}) {
            const int x = added->inputs[i];
            const auto so_far = members_;
            const Node* term = inner(added->inputs[1 - i]);
            if (const int cube = term ? beside_number(*term, "Mul", 0.044715) : absent;
                cube != absent && is_cube_of(cube, x))
                return x;
            members_ = so_far;
        }
        return absent;
    }

    bool is_cube_of(int slot, int x)
    {
        const Node* cube = inner(slot);
        if (!cube)
            return false;
        if (is_plain(*cube, "Pow", 2))
            return cube->inputs[0] == x && is_number(cube->inputs[1], 3);
        const Node* square = inner(beside(*cube, "Mul", x));
        return square && is_plain(*square, "Mul", 2) && square->opset >= 7 && square->inputs[0] == x &&
               square->inputs[1] == x;
    }

    const Node* outer(const Node& node)
    {
        const Node* next = rewriter_.only_reader(node.outputs[0]);
        if (next)
            members_.push_back(rewriter_.position(*next));
        return next;
    }

    // Whether what follows the root is (1 + root) x / 2.
    bool ends(const Node& root, int x)
    {
        const Node* sum = outer(root);
        if (!sum || beside_number(*sum, "Add", 1) != root.outputs[0])
            return false;
        const int summed = sum->outputs[0];
        const Node* product = outer(*sum);
        const int other = product ? beside(*product, "Mul", summed) : absent;
        if (other == absent)
            return false;
        if (other == x) {
            const Node* half = outer(*product);
            return half && beside_number(*half, "Mul", 0.5) == product->outputs[0];
        }
        if (is_number(other, 0.5)) {
            const Node* last = outer(*product);
            return last && beside(*last, "Mul", product->outputs[0]) == x;
        }
        const Node* half = inner(other);
        return half && beside_number(*half, "Mul", 0.5) == x;
    }

    void fuse(const Node& root, int x, std::string approximate)
    {
        if (x == absent || !ends(root, x) || (lends_axis_ && !surely_has_axes(x)))
            return;
        std::ranges::sort(members_);
        Node fused = rewriter_.own_node_for("Gelu", members_, {x});
        fused.attributes["approximate"] = std::move(approximate);
        rewriter_.replace(members_, std::move(fused));
    }

    Rewriter& rewriter_;
    std::vector<std::size_t> members_;
    bool lends_axis_ = false;
};

}  // namespace

void fuse_gelu(Rewriter& rewriter) { GeluFusion(rewriter).run(); }

}  // namespace clprim::onnx
