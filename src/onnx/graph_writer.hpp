// An ONNX graph while it is written: names that are used once, constants, nodes.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <clprim/operator.hpp>

#include "onnx_proto.pb.h"

namespace clprim::onnx {

using Names = std::vector<std::string>;
using Ints = std::vector<std::int64_t>;

struct WrittenAttribute {
    const char* name;
    std::variant<std::int64_t, float, std::string, Ints> value;
};
using WrittenAttributes = std::vector<WrittenAttribute>;

class GraphWriter {
public:
    // What the nodes that follow are named after, and the values that they make up.
    void name_nodes_after(const std::string& name) { subject_ = name; }

    // Takes a name if it is free, else one that begins like it.
    std::string take_name(const std::string& name);
    // A name of its own that begins like `base`.
    std::string fresh(const std::string& base);
    // Names that nothing of the writer's own is called.
    void reserve(const std::string& name) { reserved_.insert(name); }

    void input(const std::string& name, const TensorSpec& spec);
    void output(const std::string& name, const TensorSpec& spec);

    void initializer(const std::string& name, DataType dtype, const Dims& shape, std::span<const std::byte> data);
    std::string ints(const Ints& values);                                             // a constant list
    std::string number(double value, DataType dtype, const Dims& shape = {});         // one number everywhere
    std::string cast(const std::string& x, DataType dtype, const std::string& output = {});

    // Adds a node and returns the name of its only output, which is made up if none is given.
    std::string node(const char* type, const Names& inputs, const WrittenAttributes& attributes = {},
                     const std::string& output = {});

    // The file of a model of this graph alone. Throws NotSupported beyond 2 GiB, protobuf's limit.
    std::string model(int opset, int ir_version);

private:
    ::onnx::GraphProto graph_;
    std::set<std::string> taken_, reserved_;
    std::map<std::string, int> nodes_of_;
    std::string subject_;
    int counter_ = 0;
};

}  // namespace clprim::onnx
