// Weight files: round trips, known bytes, and files that are truncated, corrupt or hostile.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "net/net_values.hpp"

namespace {

using namespace clprim;

using ByteVector = std::vector<std::byte>;

HostTensor tensor(DataType type, const Dims& shape, unsigned seed)
{
    ByteVector data(static_cast<std::size_t>(shape.product()) * size_of(type));
    std::mt19937 random(seed);
    for (std::byte& b : data)
        b = static_cast<std::byte>(type == DataType::boolean ? random() % 2 : random());
    return host_tensor(type, shape, std::move(data));
}

WeightMap sample()
{
    return {{"conv.weight", tensor(DataType::float32, {4, 2, 3, 3}, 1)}, {"empty", tensor(DataType::int64, {0, 3}, 2)},
            {"half", tensor(DataType::float16, {7}, 3)},                {"scalar", tensor(DataType::float64, {}, 4)},
            {"bf16", tensor(DataType::bfloat16, {2, 2}, 5)},            {"flags", tensor(DataType::uint8, {5}, 6)}};
}

Bytes shared(ByteVector bytes) { return std::make_shared<const ByteVector>(std::move(bytes)); }
Bytes shared(std::string_view text)
{
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    return shared(ByteVector(bytes.begin(), bytes.end()));
}

void expect_same(const WeightMap& a, const WeightMap& b)
{
    ASSERT_EQ(a.size(), b.size());
    for (const auto& [name, tensor] : a) {
        ASSERT_TRUE(b.contains(name)) << name;
        EXPECT_EQ(tensor.dtype, b.at(name).dtype) << name;
        EXPECT_EQ(tensor.shape, b.at(name).shape) << name;
        EXPECT_TRUE(std::ranges::equal(tensor.data, b.at(name).data)) << name;
    }
}

struct Format {
    const char* extension;
    ByteVector (*write)(const WeightMap&);
};
const Format formats[] = {{".safetensors", safetensors_bytes}, {".dlp", dlpw_bytes}, {".npz", npz_bytes}};

TEST(Weights, RoundTripInEveryFormat)
{
    for (const Format& format : formats) {
        const std::string path = testing::TempDir() + "clprim_weights" + format.extension;
        save_weights(path, sample());
        expect_same(sample(), load_weights(path));
        std::filesystem::remove(path);
    }
    const HostTensor one = tensor(DataType::int16, {2, 3}, 9);
    expect_same({{"data", one}}, parse_weights(shared(npy_bytes(one)), "a.npy"));
}

TEST(Weights, SafetensorsAsOtherLibrariesWriteThem)
{
    const std::string header = R"({"__metadata__":{"format":"pt"},"b":{"dtype":"I8","shape":[2],"data_offsets":[4,6]},)"
                               R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
    std::string file(8, '\0');
    file[0] = static_cast<char>(header.size());
    file += header + std::string("\0\0\x80\x3f\1\xff", 6);
    const WeightMap weights = parse_weights(shared(file), "f");
    float a;
    std::memcpy(&a, weights.at("a").data.data(), sizeof a);   // lies at an odd place
    EXPECT_EQ(a, 1.0f);
    EXPECT_EQ(weights.at("b").data[1], std::byte{0xff});
}

TEST(Weights, NumpyHeadersAndFortranOrder)
{
    const std::string dictionary = "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }\n";
    std::string file = std::string("\x93NUMPY\1\0", 8);
    file += static_cast<char>(dictionary.size());
    file += '\0';
    file += dictionary;
    for (const char v : {1, 2, 3, 4, 5, 6})   // columns
        file += std::string{v, '\0'};
    const HostTensor t = parse_npy(shared(file), "f");
    EXPECT_EQ(t.shape, (Dims{2, 3}));
    const std::vector<std::int16_t> rows = {1, 3, 5, 2, 4, 6};
    EXPECT_TRUE(std::ranges::equal(rows, std::span(reinterpret_cast<const std::int16_t*>(t.data.data()), 6)));
}

TEST(Weights, DeflatedArchives)
{
    // A member of an archive, as numpy.savez_compressed writes it: the stored one, packed again.
    const ByteVector npy = npy_bytes(host_tensor({1000}, std::vector<float>(1000, 2.5f)));
    std::vector<Bytef> packed(compressBound(npy.size()));
    z_stream stream{};
    ASSERT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(npy.data()));
    stream.avail_in = static_cast<uInt>(npy.size());
    stream.next_out = packed.data();
    stream.avail_out = static_cast<uInt>(packed.size());
    ASSERT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
    packed.resize(stream.total_out);
    deflateEnd(&stream);
    const auto crc =
        static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(npy.data()), static_cast<uInt>(npy.size())));
    std::string file;
    const auto number = [&](std::uint64_t value, int bytes) {
        for (int i = 0; i < bytes; ++i, value >>= 8)
            file += static_cast<char>(value);
    };
    const auto header = [&](std::uint32_t size) {
        for (const int word : {20, 0, 8, 0, 33})
            number(static_cast<std::uint64_t>(word), 2);
        number(crc, 4);
        number(packed.size(), 4);
        number(size, 4);
        number(5, 2);
        number(0, 2);
    };
    for (const std::uint32_t claimed : {static_cast<std::uint32_t>(npy.size()), 4000000000u}) {
        file.clear();
        file += "PK\3\4";
        header(claimed);
        file += "a.npy";
        file.append(reinterpret_cast<const char*>(packed.data()), packed.size());
        const std::size_t directory = file.size();
        file += "PK\1\2";
        number(20, 2);
        header(claimed);
        number(0, 14);
        file += "a.npy";
        const std::size_t end = file.size();
        file += "PK\5\6";
        number(0, 4);
        number(1, 2);
        number(1, 2);
        number(end - directory, 4);
        number(directory, 4);
        number(0, 2);
        if (claimed == npy.size()) {
            const WeightMap weights = parse_weights(shared(file), "f.npz");
            EXPECT_EQ(weights.at("a").shape, (Dims{1000}));
            EXPECT_EQ(reinterpret_cast<const float*>(weights.at("a").data.data())[999], 2.5f);
        } else {
            EXPECT_THROW(parse_weights(shared(file), "f.npz"), InvalidArgument);   // a bomb's claim is not allocated
        }
    }
}

TEST(Weights, EveryTruncationIsAnError)
{
    for (const Format& format : formats) {
        const ByteVector whole = format.write(sample());
        for (std::size_t size = 0; size < whole.size(); ++size)
            EXPECT_THROW(parse_weights(
                             shared(ByteVector(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))), "f"),
                         InvalidArgument)
                << format.extension << " cut to " << size;
    }
}

TEST(Weights, CorruptBytesNeverDoMoreThanThrow)
{
    std::mt19937 random(1);
    int thrown = 0;
    for (int round = 0; round < 20000; ++round) {
        const Format& format = formats[round % 3];
        ByteVector bytes =
            format.write({{"w", tensor(DataType::float32, {2, 2}, 1)}, {"b", tensor(DataType::int8, {3}, 2)}});
        for (unsigned k = 0, n = 1 + random() % 4; k < n; ++k)
            bytes[random() % bytes.size()] =
                static_cast<std::byte>(random() % 2 ? random() : "0123456789[]{},\"-e"[random() % 18]);
        try {
            for (const auto& [name, t] : parse_weights(shared(std::move(bytes)), "f"))
                ASSERT_EQ(t.data.size(), static_cast<std::size_t>(t.shape.product()) * size_of(t.dtype));
        } catch (const Error&) {
            ++thrown;
        }
    }
    EXPECT_GT(thrown, 5000);
}

TEST(Weights, HostileHeadersAreNamed)
{
    const auto message = [](const std::string& header) {
        std::string file(8, '\0');
        for (int i = 0; i < 8; ++i)
            file[static_cast<std::size_t>(i)] = static_cast<char>(header.size() >> (8 * i));
        try {
            parse_safetensors(shared(file + header + "12345678"), "w.safetensors");
        } catch (const InvalidArgument& error) {
            return std::string(error.what());
        }
        return std::string("no error");
    };
    const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
        return R"({"t": {"dtype": ")" + dtype + R"(", "shape": )" + shape + R"(, "data_offsets": )" + offsets + "}}";
    };
    EXPECT_EQ(message(entry("F32", "[2]", "[0, 8]")), "no error");
    for (const std::string& bad :
         {entry("F32", "[3]", "[0, 8]"), entry("F32", "[2]", "[0, 16]"), entry("F32", "[2]", "[8, 0]"),
          entry("F32", "[4611686018427387904, 4, 2]", "[0, 8]"), entry("F99", "[2]", "[0, 8]"),
          entry("F32", "[-2]", "[0, 8]"), entry("F32", "[2]", "[0, 18446744073709551615]"), entry("F32", "2", "[0, 8]"),
          entry("F32", "[1]", "[4, 8]"), entry("F32", "[1e400]", "[0, 8]"), std::string("[]"),
          std::string("{\"t\": 3}"), std::string(1000, '[')})
        EXPECT_NE(message(bad).find("w.safetensors"), std::string::npos) << bad << ": " << message(bad);
    EXPECT_THROW(load_weights(testing::TempDir() + "there is no such file"), InvalidArgument);
    EXPECT_THROW(save_weights(testing::TempDir() + "weights.txt", {}), InvalidArgument);
}

TEST(Weights, ANetLoadsWhatItSavedAndConverts)
{
    const auto build = [](DataType dtype) {
        auto net = std::make_unique<Net>(Context::get());
        net->add_input("x", {{2, 3}, dtype});
        net->add(InnerProductConfig{.outputs = 4}, "fc", {"x"}, {"y"});
        net->mark_output("y");
        net->setup();
        return net;
    };
    const auto net = build(DataType::float32);
    net->initialize_parameters(3);
    for (const Format& format : formats) {
        const std::string path = testing::TempDir() + "clprim_net" + format.extension;
        net->save_parameters(path);
        const auto again = build(DataType::float32), half = build(DataType::float16);
        again->load_parameters(path);
        half->load_parameters(path);
        const auto w = test::read(net->queue(), net->parameter("fc.0"));
        EXPECT_EQ(test::read(again->queue(), again->parameter("fc.0")), w);
        const auto rounded = test::read(half->queue(), half->parameter("fc.0"));
        for (std::size_t i = 0; i < w.size(); ++i)
            EXPECT_NEAR(rounded[i], w[i], 1e-3);
        std::filesystem::remove(path);
    }
    WeightMap weights = net->parameters_to_host();
    weights.erase("fc.1");
    EXPECT_THROW(net->load_parameters(weights), InvalidArgument);
    net->load_parameters(weights, true);
    weights["fc.0"] = host_tensor({3, 4}, std::vector<float>(12));
    EXPECT_THROW(net->load_parameters(weights, true), InvalidArgument);
}

}  // namespace
