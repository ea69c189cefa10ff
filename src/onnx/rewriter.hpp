// Who writes and who reads each value of a graph, while passes replace nodes.
#pragma once

#include <optional>

#include "onnx/graph.hpp"

namespace clprim::onnx {

// A node of an operator of the library's own, of version 1.
Node own_node(std::string op_type, std::string name, std::vector<int> inputs = {}, std::vector<int> outputs = {});

class Rewriter {
public:
    explicit Rewriter(Graph& graph) : graph_(graph), dead_(graph.nodes.size()) { index(); }

    Graph& graph() { return graph_; }
    std::size_t size() const { return graph_.nodes.size(); }
    Node& node(std::size_t i) { return graph_.nodes[i]; }
    bool dead(std::size_t i) const { return dead_[i]; }

    // Nodes that read a slot, each once. Outputs of the graph and values that subgraphs capture are `exposed`.
    const std::vector<std::size_t>& readers(int slot) const { return readers_[static_cast<std::size_t>(slot)]; }
    bool exposed(int slot) const { return exposed_[static_cast<std::size_t>(slot)]; }
    // The one node that reads a value that nobody else sees, or null.
    Node* only_reader(int slot);
    // The node that writes a slot, or null.
    const Node* writer(int slot) const;
    std::size_t position(const Node& node) const { return static_cast<std::size_t>(&node - graph_.nodes.data()); }

    // The value of a slot that never changes, or null; absent slots have none.
    const Value* constant(int slot) const;
    int add_constant(Value value);

    // The nodes `members`, in this order and with one output each, as a graph of those inputs: what a node that stands
    // for them is made of, for files and for operands that it does not take. The last one's output is the graph's.
    GraphRef body_of(const std::vector<std::size_t>& members, const std::vector<int>& inputs) const;
    GraphRef body_of(std::vector<Node> members, const std::vector<int>& inputs) const;

    // An own_node that stands for `members`, which are in order: named after the first and the last, whose outputs it
    // has, with the attribute "operators" (body_of).
    Node own_node_for(std::string op_type, const std::vector<std::size_t>& members, std::vector<int> inputs) const;

    // `replacement` takes the place of the last of `old`, the others disappear.
    void replace(const std::vector<std::size_t>& old, Node replacement);
    void finish();                       // drops dead nodes

private:
    void index();

    Graph& graph_;
    std::vector<bool> dead_, exposed_;
    std::vector<std::vector<std::size_t>> readers_;
    std::vector<std::optional<std::size_t>> writers_;
    std::map<int, std::size_t> constants_;
};

// The passes. Each leaves the graph computing the same up to rounding.
void fuse_quantised(Graph& graph); // operators between DequantizeLinear and QuantizeLinear; to be called first
void release_carried(Graph& graph);           // what loops hand on unchanged is captured
void hoist_invariants(Graph& graph);          // what iterations compute alike, and products of sequences' elements,
                                              // goes ahead of the loop; once its body is folded
void skip_copies(Graph& graph);               // readers of an Identity, or what amounts to one, read what it copies;
                                              // before there is a Rewriter
void merge_equal(Graph& graph);               // nodes that compute the same of the same; as above
void simplify(Rewriter& rewriter);            // squares written as powers, MatMulFpQ4
void fuse_norms(Rewriter& rewriter);          // norms of rows written as means, squares and roots
void fuse_gelu(Rewriter& rewriter);           // gelu written as products and erf or tanh
void fuse_rotary(Rewriter& rewriter);         // rotary embeddings written as products and sums
void fuse_moves(Rewriter& rewriter);          // rolled images cut into windows
void fuse_attention(Rewriter& rewriter);      // products around a softmax
// Weights of DynamicQuantizeLSTM that never change.
void dequantize_recurrences(Rewriter& rewriter, const Device& device);
void fuse_convolutions(Rewriter& rewriter);   // bias, batch norm, residual, activation into the convolution before
void fuse_batch_norms(Rewriter& rewriter);    // those that are left become factors and shifts of channels
void fuse_products(Rewriter& rewriter);       // a constant bias and an activation into the product before them
void fuse_integer_products(Rewriter& rewriter);    // scale and bias into the product of integers before them
void fuse_elementwise(Rewriter& rewriter);    // chains of elementwise operators into one generated kernel

// Says where the parts of concatenated channels are to be written, so that nothing is copied. To be called last.
void place_concatenations(Graph& graph);

}  // namespace clprim::onnx
