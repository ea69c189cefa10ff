// Tensors in host memory, and files by their formats.
#include "net/weights/bytes.hpp"

#include <filesystem>
#include <fstream>

#include <clprim/copy.hpp>

namespace clprim {

std::size_t checked_bytes(const Dims& shape, DataType dtype, const std::string& what)
{
    require(is_data_type(dtype), what, ": ", static_cast<int>(dtype), " is no dtype");
    std::int64_t bytes = static_cast<std::int64_t>(size_of(dtype));
    bool empty = false;
    for (const std::int64_t size : shape) {
        require(size >= 0, what, ": negative size in shape ", to_string(shape));
        empty = empty || size == 0;
        require(!__builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes) &&
                    bytes < (std::int64_t(1) << 62),
                what, ": shape ", to_string(shape), " is too large");
    }
    return empty ? 0 : static_cast<std::size_t>(bytes);
}

void check_bytes(const HostTensor& tensor, const std::string& what)
{
    require(tensor.data.size() == checked_bytes(tensor.shape, tensor.dtype, what), what, ": shape ",
            to_string(tensor.shape), " (", name_of(tensor.dtype), ") and ", tensor.data.size(), " bytes do not fit");
}

HostTensor host_tensor(DataType dtype, const Dims& shape, std::vector<std::byte> data)
{
    const std::size_t needed = checked_bytes(shape, dtype, "host_tensor");
    require(data.size() == needed, "host_tensor: shape ", to_string(shape), " (", name_of(dtype), ") needs ", needed,
            " bytes, got ", data.size());
    auto owner = std::make_shared<const std::vector<std::byte>>(std::move(data));
    return {dtype, shape, *owner, owner};
}

HostTensor host_tensor(const Dims& shape, std::span<const float> values)
{
    const auto bytes = std::as_bytes(values);
    return host_tensor(DataType::float32, shape, {bytes.begin(), bytes.end()});
}

Tensor to_device(Queue& queue, const HostTensor& source)
{
    const Tensor target = queue.context().empty(source.shape, source.dtype, queue);
    to_device(queue, source, target);
    return target;
}

void to_device(Queue& queue, const HostTensor& source, const Tensor& target)
{
    target.check("to_device", "target");
    require(source.shape == target.shape, "to_device: a tensor of shape ", to_string(source.shape),
            " does not fit one of shape ", to_string(target.shape));
    check_bytes(source, "to_device");
    if (source.data.empty())
        return;
    const bool direct = target.dtype == source.dtype && target.is_contiguous();
    const Tensor staged = direct ? target : queue.context().empty(source.shape, source.dtype, queue);
    queue.write(*staged.memory, static_cast<std::size_t>(staged.offset) * size_of(staged.dtype), source.data.data(),
                source.data.size());
    if (!direct)
        copy(queue, staged, target);
}

HostTensor to_host(Queue& queue, const Tensor& source)
{
    source.check("to_host", "source");
    Tensor dense = source;
    if (!source.is_contiguous()) {
        dense = queue.context().empty(source.shape, source.dtype, queue);
        copy(queue, source, dense);
    }
    std::vector<std::byte> data(source.nbytes());
    queue.read(*dense.memory, static_cast<std::size_t>(dense.offset) * size_of(dense.dtype), data.data(), data.size());
    return host_tensor(source.dtype, source.shape, std::move(data));
}

namespace {

bool begins(const std::vector<std::byte>& bytes, std::string_view magic)
{
    return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

Bytes read_file(const std::string& path)
{
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    require(!error, path, ": ", error.message());
    auto bytes = std::make_shared<std::vector<std::byte>>(size);
    std::ifstream file(path, std::ios::binary);
    require(size == 0 || file.read(reinterpret_cast<char*>(bytes->data()), static_cast<std::streamsize>(size)).good(),
            path, ": cannot be read");
    return bytes;
}

}  // namespace

WeightMap parse_weights(const Bytes& bytes, const std::string& name)
{
    require(bytes != nullptr, name, ": there are no bytes");
    if (begins(*bytes, "DLPW"))
        return parse_dlpw(bytes, name);
    if (begins(*bytes, "\x93NUMPY"))
        return {{"data", parse_npy(bytes, name)}};
    if (begins(*bytes, "PK"))
        return parse_npz(bytes, name);
    require<NotSupported>(!begins(*bytes, "\x89HDF"), name, ": HDF5 files are not read; convert it to safetensors");
    require(bytes->size() > 8 && (*bytes)[8] == std::byte{'{'}, name,
            ": neither a safetensors, NumPy nor DLPW file");
    return parse_safetensors(bytes, name);
}

WeightMap load_weights(const std::string& path) { return parse_weights(read_file(path), path); }

void save_weights(const std::string& path, const WeightMap& weights)
{
    const std::string extension = std::filesystem::path(path).extension().string();
    std::vector<std::byte> bytes;
    if (extension == ".safetensors") {
        bytes = safetensors_bytes(weights);
    } else if (extension == ".npz") {
        bytes = npz_bytes(weights);
    } else if (extension == ".dlp") {
        bytes = dlpw_bytes(weights);
    } else {
        require(extension == ".npy", path, ": the extension must be .safetensors, .npz, .npy or .dlp");
        require(weights.size() == 1, path, ": a .npy file holds one tensor, got ", weights.size());
        bytes = npy_bytes(weights.begin()->second);
    }
    const std::string beside = path + ".part";
    std::ofstream file(beside, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    file.close();
    std::error_code error;
    if (file.good())
        std::filesystem::rename(beside, path, error);
    if (!file.good() || error)
        std::filesystem::remove(beside, error);
    require(file.good() && std::filesystem::exists(path), path, ": cannot be written");
}

}  // namespace clprim
