// Tensors of a model file as host values.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include <clprim/value.hpp>

#include "onnx/model_files.hpp"
#include "onnx_proto.pb.h"

namespace clprim::onnx {

namespace pb = ::onnx;

// Where the bytes of external tensors are looked for; without a path they are refused.
struct ModelFolder {
    std::optional<std::filesystem::path> path;
    std::vector<ModelFile>* files;     // those that were read, each once: looked at first, and added to
};

// Throws InvalidArgument naming the tensor: unknown type, negative sizes, data that do not fill the shape, external
// data that are missing, too short or outside of the folder.
Value read_tensor(const pb::TensorProto& tensor, const ModelFolder& folder);
// The same, without a second copy of large elements; of the message its name remains.
Value take_tensor(pb::TensorProto& tensor, const ModelFolder& folder);
Value read_sparse_tensor(const pb::SparseTensorProto& tensor, const ModelFolder& folder);

// Elements that a shape holds; throws for a negative or absurd one.
std::int64_t checked_numel(const Dims& shape, std::string_view name);

}  // namespace clprim::onnx
