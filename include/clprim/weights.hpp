// Named tensors in host memory, and the files that hold them: safetensors, NumPy's .npy and .npz, and DLPW (.dlp).
//
// Readers trust nothing: sizes, offsets and counts are checked against the file before anything is allocated, and a
// truncated, corrupt or hostile file throws one InvalidArgument that names the file and what is wrong. Tensors share
// the file's bytes; a file is read once.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <clprim/context.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// A contiguous tensor in host memory, little-endian. `owner` keeps the bytes alive.
struct HostTensor {
    DataType dtype = DataType::float32;
    Dims shape;
    std::span<const std::byte> data;
    std::shared_ptr<const void> owner;
};

HostTensor host_tensor(DataType dtype, const Dims& shape, std::vector<std::byte> data);   // checks the size
HostTensor host_tensor(const Dims& shape, std::span<const float> values);                 // a copy of the values

// Between host and device; the copy to the host waits, the other does not. A target of another dtype is converted to.
Tensor to_device(Queue& queue, const HostTensor& source);
void to_device(Queue& queue, const HostTensor& source,
               const Tensor& target);   // throws InvalidArgument unless shapes agree
HostTensor to_host(Queue& queue, const Tensor& source);

using WeightMap = std::map<std::string, HostTensor>;

// By content: the format is recognised from the first bytes. A single .npy array is named "data".
WeightMap load_weights(const std::string& path);
// By the extension: .safetensors, .npz, .npy (one tensor), .dlp. Written beside the target, then renamed over it.
void save_weights(const std::string& path, const WeightMap& weights);

// The same from and to memory. `name` is for messages.
using Bytes = std::shared_ptr<const std::vector<std::byte>>;
WeightMap parse_weights(const Bytes& bytes, const std::string& name);
WeightMap parse_safetensors(const Bytes& bytes, const std::string& name);   // F64 F32 F16 BF16 I8..I64 U8..U64 BOOL
WeightMap parse_dlpw(const Bytes& bytes, const std::string& name);
WeightMap parse_npz(const Bytes& bytes, const std::string& name);           // stored or deflated; C or Fortran order
HostTensor parse_npy(const Bytes& bytes, const std::string& name);
std::vector<std::byte> safetensors_bytes(const WeightMap& weights);
std::vector<std::byte> dlpw_bytes(const WeightMap& weights);
std::vector<std::byte> npz_bytes(const WeightMap& weights);
std::vector<std::byte> npy_bytes(const HostTensor& tensor);

}  // namespace clprim
CLPRIM_API_END
