// From onnx.proto's messages to graphs whose names are resolved.
#include <algorithm>
#include <set>
#include <unordered_map>

#include <clprim/error.hpp>
#include <clprim/onnx.hpp>

#include "onnx/gradient.hpp"
#include "onnx/nchwc.hpp"
#include "onnx/graph.hpp"
#include "onnx/old_forms.hpp"
#include "onnx/proto_types.hpp"
#include "onnx/reader.hpp"

namespace clprim::onnx {

namespace {

// Function calls are expanded where they stand; a small file could ask for an exponential number of nodes.
constexpr std::size_t most_nodes = 2'000'000;

using FunctionKey = std::pair<std::string, std::string>;

std::string domain_of(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

bool is_gradient(const std::string& domain, const std::string& op_type)
{
    return domain == "ai.onnx.preview.training" && op_type == "Gradient";
}

std::map<std::string, std::int64_t> read_opsets(const auto& imports)
{
    std::map<std::string, std::int64_t> result;
    for (const auto& entry : imports)
        result[domain_of(entry.domain())] = entry.version();
    return result;
}

// What names mean at some place of the model.
struct Scope {
    Graph& graph;
    std::unordered_map<std::string, int> names;
    Scope* outer = nullptr;
    const std::map<std::string, std::int64_t>* opsets = nullptr;
    const Attributes* bound = nullptr;               // inside a function: the attributes of the call
    int depth = 0;

    int define(const std::string& name)
    {
        if (name.empty())
            return absent;
        const int slot = graph.add_slot(name);
        require(names.emplace(name, slot).second, "value '", name, "' is written twice in graph '", graph.name, "'");
        return slot;
    }

    // Names of outer graphs become captures. absent if nobody writes the name.
    int resolve(const std::string& name)
    {
        if (const auto found = names.find(name); found != names.end())
            return found->second;
        const int there = outer ? outer->resolve(name) : absent;
        if (there == absent)
            return absent;
        const int slot = graph.add_slot(name);
        graph.captures.emplace_back(there, slot);
        names.emplace(name, slot);
        return slot;
    }
};

class Reader {
public:
    // Takes the model apart while it reads: large tensors are not held twice.
    Reader(pb::ModelProto& model, ModelFolder folder) : model_(model), folder_(std::move(folder))
    {
        for (const auto& function : model.functions())
            functions_[{domain_of(function.domain()), function.name()}] = &function;
    }

    Model read()
    {
        Model result;
        result.opsets = read_opsets(model_.opset_import());
        if (result.opsets.empty())
            result.opsets[""] = 1;
        result.producer = model_.producer_name();
        result.ir_version = model_.ir_version();
        for (const auto& entry : model_.metadata_props())
            result.metadata[entry.key()] = entry.value();
        require(model_.has_graph(), "the model has no graph");
        result.graph = std::make_shared<Graph>();
        Scope scope{*result.graph, {}, nullptr, &result.opsets, nullptr, 0};
        for (auto& tensor : *model_.mutable_graph()->mutable_initializer()) {
            Value value = take_tensor(tensor, folder_);
            initializers_.emplace_back(tensor.name(), std::move(value));
        }
        read_graph(model_.graph(), scope);
        lower_nchwc(*result.graph);
        plan(*result.graph);
        return result;
    }

private:
    void read_graph(const pb::GraphProto& proto, Scope& scope)
    {
        require(scope.depth < deepest, "graphs are nested more than ", deepest, " deep");
        Graph& graph = scope.graph;
        graph.name = proto.name();
        // Before IR version 4 initializers were listed among the inputs, but were constants all the same.
        std::set<std::string> constants;
        for (const auto& tensor : proto.initializer())
            constants.insert(tensor.name());
        for (const auto& port : proto.input()) {
            if (model_.ir_version() < 4 && constants.contains(port.name()))
                continue;
            graph.inputs.push_back(scope.define(port.name()));
            graph.input_ports.push_back(read_port(port));
        }
        const auto constant = [&](const std::string& name, Value value) {
            const auto known = scope.names.find(name);
            graph.constants.emplace_back(known == scope.names.end() ? scope.define(name) : known->second,
                                         std::move(value));
        };
        if (&proto == &model_.graph()) {
            for (auto& [name, value] : initializers_)
                constant(name, std::move(value));
        } else {
            for (const auto& tensor : proto.initializer())
                constant(tensor.name(), read_tensor(tensor, folder_));
        }
        for (const auto& tensor : proto.sparse_initializer())
            constant(tensor.values().name(), read_sparse_tensor(tensor, folder_));
        read_nodes(proto.node(), scope);
        for (const auto& port : proto.output()) {
            const int slot = scope.resolve(port.name());
            require(slot != absent, "output '", port.name(), "' of graph '", proto.name(), "' is written by no node");
            graph.outputs.push_back(slot);
            graph.output_ports.push_back(read_port(port));
        }
    }

    void read_nodes(const auto& nodes, Scope& scope)
    {
        for (const pb::NodeProto* node : in_order(nodes, scope)) {
            require(++node_count_ <= most_nodes, "the model has more than ", most_nodes, " nodes");
            Node read = read_node(*node, scope);
            if (std::ranges::any_of(read.outputs, [](int slot) { return slot != absent; }))
                scope.graph.nodes.push_back(std::move(read));   // one without outputs has no effect
        }
    }

    // Names that a node reads, those of its subgraphs included.
    void names_read(const pb::NodeProto& node, std::set<std::string>& names, int depth) const
    {
        require(depth < deepest, "graphs are nested more than ", deepest, " deep");
        names.insert(node.input().begin(), node.input().end());
        for (const auto& attribute : node.attribute()) {
            if (is_gradient(node.domain(), node.op_type())) {   // its target must be complete before it
                names.insert(attribute.strings().begin(), attribute.strings().end());
                names.insert(attribute.s());
            }
            if (!attribute.has_g())
                continue;
            // What the subgraph defines itself hides a name of the outside.
            std::set<std::string> inside;
            for (const auto& inner : attribute.g().node())
                names_read(inner, inside, depth + 1);
            for (const auto& port : attribute.g().output())
                inside.insert(port.name());
            for (const auto& inner : attribute.g().node())
                for (const auto& name : inner.output())
                    inside.erase(name);
            for (const auto& port : attribute.g().input())
                inside.erase(port.name());
            for (const auto& tensor : attribute.g().initializer())
                inside.erase(tensor.name());
            names.merge(inside);
        }
    }

    // Files list nodes so that each follows those it reads from; where one does not, they are sorted.
    std::vector<const pb::NodeProto*> in_order(const auto& nodes, Scope& scope) const
    {
        std::unordered_map<std::string, int> writers;
        for (int i = 0; i < nodes.size(); ++i)
            for (const auto& name : nodes.Get(i).output())
                if (!name.empty())
                    writers.emplace(name, i);
        std::vector<std::vector<int>> readers(static_cast<std::size_t>(nodes.size()));
        std::vector<int> waiting(static_cast<std::size_t>(nodes.size()));
        for (int i = 0; i < nodes.size(); ++i) {
            std::set<std::string> names;
            names_read(nodes.Get(i), names, scope.depth);
            for (const auto& name : names)
                if (const auto writer = writers.find(name); writer != writers.end() && !scope.names.contains(name)) {
                    readers[static_cast<std::size_t>(writer->second)].push_back(i);
                    ++waiting[static_cast<std::size_t>(i)];
                }
        }
        std::set<int> ready;                          // the earliest first, so a sorted file keeps its order
        for (int i = 0; i < nodes.size(); ++i)
            if (!waiting[static_cast<std::size_t>(i)])
                ready.insert(i);
        std::vector<const pb::NodeProto*> order;
        while (!ready.empty()) {
            const int next = ready.extract(ready.begin()).value();
            order.push_back(&nodes.Get(next));
            for (const int reader : readers[static_cast<std::size_t>(next)])
                if (!--waiting[static_cast<std::size_t>(reader)])
                    ready.insert(reader);
        }
        for (int i = 0; i < nodes.size(); ++i)
            require(!waiting[static_cast<std::size_t>(i)], nodes.Get(i).op_type(), " '", nodes.Get(i).name(),
                    "': the graph has a cycle through this node");
        return order;
    }

    Node read_node(const pb::NodeProto& proto, Scope& scope)
    {
        Node node;
        node.name = proto.name();
        node.op_type = proto.op_type();
        node.domain = domain_of(proto.domain());
        // Their attributes are trusted: some hold code.
        require<NotSupported>(node.domain != "clprim", node.op_type, " '", node.name,
                              "': operators of domain clprim are made by sessions and not read from files");
        const auto version = scope.opsets->find(node.domain);
        node.opset = version == scope.opsets->end() ? 1 : static_cast<int>(version->second);
        for (const auto& name : proto.input()) {
            const int slot = name.empty() ? absent : scope.resolve(name);
            require(name.empty() || slot != absent, node.op_type, " '", node.name, "': input '", name,
                    "' is written by no node");
            node.inputs.push_back(slot);
        }
        for (const auto& attribute : proto.attribute())
            read_attribute(attribute, scope, node.attributes);
        renew_attributes(node);
        for (const auto& name : proto.output())
            node.outputs.push_back(scope.define(name));
        if (const auto function = functions_.find({node.domain, node.op_type}); function != functions_.end())
            node.body = instantiate(*function->second, node, scope.depth);
        else if (is_gradient(node.domain, node.op_type))
            node.body = gradient_body(node, scope);
        return node;
    }

    GraphRef gradient_body(const Node& node, Scope& scope)
    {
        try {
            // Each gradient looks through the whole graph, which counts as work, too.
            node_count_ += scope.graph.nodes.size();
            require(node_count_ <= most_nodes, "the model has more than ", most_nodes, " nodes");
            const auto slot_of = [&](const std::string& name) { return scope.resolve(name); };
            GraphRef body = differentiate(scope.graph, node, slot_of, most_nodes - node_count_);
            node_count_ += body->nodes.size();
            return body;
        } catch (const InvalidArgument& error) {
            throw InvalidArgument("Gradient '" + node.name + "': " + error.what());
        }
    }

    // The body of a function for one call of it.
    GraphRef instantiate(const pb::FunctionProto& function, const Node& node, int depth)
    {
        require(depth < deepest, "function ", function.name(), " is called more than ", deepest, " deep");
        auto body = std::make_shared<Graph>();
        body->name = function.name();
        const auto opsets = read_opsets(function.opset_import());
        Attributes bound = node.attributes;
        Scope scope{*body, {}, nullptr, &opsets, &bound, depth + 1};
#ifdef CLPRIM_ONNX_FUNCTION_DEFAULTS
        Attributes defaults;
        for (const auto& attribute : function.attribute_proto())
            read_attribute(attribute, scope, defaults);
        bound.merge(defaults);
#endif
        for (const auto& name : function.input())
            body->inputs.push_back(scope.define(name));
        read_nodes(function.node(), scope);
        for (const auto& name : function.output()) {
            body->outputs.push_back(scope.resolve(name));
            require(body->outputs.back() != absent, "function ", function.name(), ": output '", name,
                    "' is written by no node");
        }
        return body;
    }

    GraphRef read_subgraph(const pb::GraphProto& proto, Scope& outer)
    {
        auto graph = std::make_shared<Graph>();
        Scope scope{*graph, {}, &outer, outer.opsets, outer.bound, outer.depth + 1};
        read_graph(proto, scope);
        return graph;
    }

    void read_attribute(const pb::AttributeProto& proto, Scope& scope, Attributes& target)
    {
        if (!proto.ref_attr_name().empty()) {
            require(scope.bound != nullptr, "attribute ", proto.name(),
                    " refers to a function's attribute outside of one");
            if (const auto found = scope.bound->find(proto.ref_attr_name()); found != scope.bound->end())
                target[proto.name()] = found->second;
            return;
        }
        switch (kind_of(proto)) {
        case pb::AttributeProto::INT: target[proto.name()] = std::int64_t{proto.i()}; break;
        case pb::AttributeProto::FLOAT: target[proto.name()] = proto.f(); break;
        case pb::AttributeProto::STRING: target[proto.name()] = proto.s(); break;
        case pb::AttributeProto::INTS:
            target[proto.name()] = std::vector<std::int64_t>(proto.ints().begin(), proto.ints().end());
            break;
        case pb::AttributeProto::FLOATS:
            target[proto.name()] = std::vector<float>(proto.floats().begin(), proto.floats().end());
            break;
        case pb::AttributeProto::STRINGS:
            target[proto.name()] = std::vector<std::string>(proto.strings().begin(), proto.strings().end());
            break;
        case pb::AttributeProto::TENSOR: target[proto.name()] = read_tensor(proto.t(), folder_); break;
        case pb::AttributeProto::SPARSE_TENSOR:
            target[proto.name()] = read_sparse_tensor(proto.sparse_tensor(), folder_);
            break;
        case pb::AttributeProto::GRAPH: target[proto.name()] = read_subgraph(proto.g(), scope); break;
        case pb::AttributeProto::TYPE_PROTO:
            // Only the element type matters: of an empty optional or sequence.
            target[proto.name()] = static_cast<std::int64_t>(read_type(proto.tp()).type);
            break;
        default:
            throw NotSupported("attribute " + proto.name() + " is of a kind that no known operator has");
        }
    }

    pb::ModelProto& model_;
    ModelFolder folder_;
    std::vector<std::pair<std::string, Value>> initializers_;   // of the model's own graph
    std::map<FunctionKey, const pb::FunctionProto*> functions_;
    std::size_t node_count_ = 0;
};

}  // namespace

std::shared_ptr<Model> read_model(pb::ModelProto& proto, const ModelFolder& folder)
{
    return std::make_shared<Model>(Reader(proto, folder).read());
}

}  // namespace clprim::onnx
