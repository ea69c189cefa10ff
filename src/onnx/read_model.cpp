// Models from files and bytes.
#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <clprim/error.hpp>
#include <clprim/onnx.hpp>

#include "onnx/reader.hpp"

namespace clprim::onnx {

namespace {

// What ONNX Runtime's own format (.ort) begins with: an offset, and its name.
using Beginning = std::array<std::byte, 8>;

bool is_of_onnxruntime(const Beginning& beginning) { return std::memcmp(beginning.data() + 4, "ORTM", 4) == 0; }

// `parse(proto)` says whether the bytes were a message.
template <class Parse>
std::shared_ptr<Model> read_bytes(std::uintmax_t size, const Beginning& beginning, const ModelFolder& folder,
                                  const Parse& parse)
{
    require(!is_of_onnxruntime(beginning), "a model in ONNX Runtime's own format (.ort), which is not read; ONNX "
            "Runtime itself writes it as ONNX: make an InferenceSession of it with "
            "SessionOptions.optimized_model_filepath and the configuration entry session.save_model_format = ONNX");
    pb::ModelProto proto;
    require(size <= 0x7fffffff, "an ONNX file is at most 2 GiB; larger models keep their data in external files");
    require(parse(proto), "not an ONNX model, or truncated (", size, " bytes)");
    auto model = read_model(proto, folder);
    std::ranges::copy_if(*folder.files, std::back_inserter(model->mapped), &ModelFile::is_mapped);
    return model;
}

// A file from its beginning to where it ended when it was opened.
class Source : public google::protobuf::io::CopyingInputStream {
public:
    explicit Source(const ModelFile& file) : file_(file) {}

    int Read(void* buffer, int size) override
    {
        const auto step = static_cast<std::size_t>(std::min<std::uintmax_t>(static_cast<unsigned>(size),
                                                                            file_.bytes() - at_));
        if (!file_.read(at_, {static_cast<std::byte*>(buffer), step}))
            return -1;
        at_ += step;
        return static_cast<int>(step);
    }

private:
    const ModelFile& file_;
    std::uintmax_t at_ = 0;
};

std::shared_ptr<const Model> read_files(std::vector<ModelFile> files, const std::filesystem::path& folder)
{
    const ModelFile first = files[0];
    Source source(first);
    Beginning beginning{};
    if (first.bytes() >= beginning.size())
        first.read(0, beginning);
    auto model = read_bytes(first.bytes(), beginning, {folder, &files}, [&](pb::ModelProto& proto) {
        google::protobuf::io::CopyingInputStreamAdaptor stream(&source);
        return proto.ParseFromZeroCopyStream(&stream);
    });
    model->files = std::move(files);
    return model;
}

}  // namespace

std::shared_ptr<const Model> read_again(const std::vector<ModelFile>& files)
{
    const auto require_unchanged = [&] {
        require(std::ranges::all_of(files, &ModelFile::is_unchanged), "the model's file '", files[0].path().string(),
                "' or its external data changed since it was read, and this needs weights that the session gave back");
    };
    require_unchanged();
    try {
        auto model = read_files(files, {});
        require_unchanged();
        return model;
    } catch (const InvalidArgument&) {
        require_unchanged();                                 // else of half-written bytes
        throw;
    }
}

}  // namespace clprim::onnx

namespace clprim {

OnnxModel::OnnxModel(const std::filesystem::path& file)
{
    std::error_code error;
    require(std::filesystem::is_regular_file(file, error), "no such file: ", file.string());
    const onnx::ModelFile opened(file);
    try {
        model_ = onnx::read_files({opened}, file.parent_path());
    } catch (const InvalidArgument& e) {
        throw InvalidArgument(file.string() + ": " + e.what());
    }
}

OnnxModel OnnxModel::from_bytes(std::span<const std::byte> bytes, const std::filesystem::path& folder)
{
    std::vector<onnx::ModelFile> files;
    onnx::ModelFolder where{.path = {}, .files = &files};
    if (!folder.empty())
        where.path = folder;
    onnx::Beginning beginning{};
    std::ranges::copy(bytes.first(std::min(bytes.size(), beginning.size())), beginning.begin());
    return OnnxModel(onnx::read_bytes(bytes.size(), beginning, where, [&](onnx::pb::ModelProto& proto) {
        return proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
    }));
}

}  // namespace clprim
