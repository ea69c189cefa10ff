// Whether a device computes products by its matrix engine, and computes them right.
#include <bit>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include <core/dry_run.hpp>
#include <core/program_cache.hpp>
#include <core/runtime.hpp>
#include <core/tuning_store.hpp>
#include <kernels/gemm/gpu_matrix.hpp>
#include <kernels/integer/gpu.hpp>

namespace clprim::detail {
namespace {

// Of a whole number below 256, which every type holds exactly.
std::uint16_t bits_of(std::int64_t value, DataType type)
{
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    if (type == DataType::bfloat16 || value == 0)
        return static_cast<std::uint16_t>(bits >> 16);
    const std::uint32_t exponent = (bits >> 23 & 0xff) - 127 + 15, fraction = bits >> 13 & 0x3ff;
    return static_cast<std::uint16_t>((bits >> 31 << 15) | exponent << 10 | fraction);
}

enum class Operands { along_k, across_k, anywhere };   // `anywhere`: along k, but not at multiples of eight

// Products of small whole numbers, whose sums are exact.
class Probe {
public:
    Probe(Queue& queue, MatrixEngineChoice engine, DataType type) : queue_(queue), engine_(engine), type_(type) {}

    // One product with edges in every direction.
    bool right(const MatrixTile& tile, Operands operands, std::int64_t k = 72)
    {
        const bool across = operands == Operands::across_k;
        const MatrixEngineShape& shape = shape_of(engine_.engine);
        GemmProblem p;
        p.m = shape.rows(tile) + 8, p.n = shape.columns(tile) - 8, p.k = k;
        p.dtype = type_;
        const std::int64_t pitch = operands == Operands::anywhere ? p.k + 3 : p.k;
        p.a = across ? MatrixLayout{1, p.m, 0} : MatrixLayout{pitch, 1, 0};
        p.b = across ? MatrixLayout{p.n, 1, 0} : MatrixLayout{1, pitch, 0};
        p.c = {p.n, 1, 0};
        const auto a = [](std::int64_t i, std::int64_t k) { return (3 * i + 5 * k + i * k / 7) % 3 - 1; };
        const auto b = [](std::int64_t k, std::int64_t j) { return (5 * j + 7 * k + j * k / 5) % 3 - 1; };
        const Tensor a_tensor = upload(p.m, p.k, p.a, a), b_tensor = upload(p.k, p.n, p.b, b);
        const Tensor c_tensor = queue_.context().empty({p.m, p.n}, type_, queue_);
        gpu_matrix_in(engine_, {tile, 1}, queue_, p, {a_tensor, b_tensor, c_tensor, {}});
        std::vector<std::uint16_t> c(static_cast<std::size_t>(p.m * p.n));
        queue_.read(*c_tensor.memory, 0, c.data(), c.size() * sizeof c[0]);
        for (std::int64_t i = 0; i < p.m; ++i)
            for (std::int64_t j = 0; j < p.n; ++j) {
                std::int64_t sum = 0;
                for (std::int64_t k = 0; k < p.k; ++k)
                    sum += a(i, k) * b(k, j);
                if (c[static_cast<std::size_t>(i * p.n + j)] != bits_of(sum, type_))
                    return false;
            }
        return true;
    }

private:
    template <class Value>
    Tensor upload(std::int64_t rows, std::int64_t columns, const MatrixLayout& layout, Value value)
    {
        const std::int64_t size = (rows - 1) * layout.row + (columns - 1) * layout.column + 1;
        std::vector<std::uint16_t> data(static_cast<std::size_t>(size));
        for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < columns; ++j)
                data[static_cast<std::size_t>(i * layout.row + j * layout.column)] =
                    bits_of(value(i, j), type_);
        const Tensor tensor = queue_.context().empty({size}, type_, queue_);
        queue_.write(*tensor.memory, 0, data.data(), data.size() * sizeof data[0]);
        return tensor;
    }

    Queue& queue_;
    MatrixEngineChoice engine_;
    DataType type_;
};

// Products of bytes, each way that they lie: signed and unsigned ones in place, and packed, with zero points.
bool right_bytes(Queue& queue, MatrixEngineChoice engine, bool large, bool pack)
{
    const MatrixEngineShape& shape = shape_of(engine.engine);
    const MatrixTile& tile = large ? shape.large : shape.small;
    const std::int64_t m = shape.rows(tile) + 8, n = shape.columns(tile) - 8, k = pack ? 75 : 144;
    const auto a = [](std::int64_t i, std::int64_t kk) { return (37 * i + 91 * kk + i * kk) % 256; };
    const auto b = [](std::int64_t kk, std::int64_t j) { return (53 * j + 29 * kk + j * kk) % 256 - 128; };
    std::vector<std::uint8_t> a_bytes(static_cast<std::size_t>(m * k)), b_bytes(static_cast<std::size_t>(n * k));
    for (std::int64_t kk = 0; kk < k; ++kk) {
        for (std::int64_t i = 0; i < m; ++i)
            a_bytes[static_cast<std::size_t>(i * k + kk)] = static_cast<std::uint8_t>(a(i, kk));
        for (std::int64_t j = 0; j < n; ++j)
            b_bytes[static_cast<std::size_t>(j * k + kk)] = static_cast<std::uint8_t>(b(kk, j));
    }
    const auto upload = [&](const std::vector<std::uint8_t>& bytes, Dims shape_of_it, DataType type) {
        const Tensor tensor = queue.context().empty(std::move(shape_of_it), type, queue);
        queue.write(*tensor.memory, 0, bytes.data(), bytes.size());
        return tensor;
    };
    IntegerTensors t{upload(a_bytes, {m, k}, DataType::uint8), upload(b_bytes, {n, k}, DataType::int8).transpose(0, 1),
                     queue.context().empty({m, n}, DataType::int32, queue), {}};
    if (pack)
        t.zeros.a = upload({7}, {1}, DataType::uint8);
    gpu_integer_matrix_by(engine, large, queue, integer_product(t), t);
    std::vector<std::int32_t> c(static_cast<std::size_t>(m * n));
    queue.read(*t.c.memory, 0, c.data(), c.size() * sizeof c[0]);
    for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
            std::int64_t sum = 0;
            for (std::int64_t kk = 0; kk < k; ++kk)
                sum += (a(i, kk) - (pack ? 7 : 0)) * b(kk, j);
            if (c[static_cast<std::size_t>(i * n + j)] != sum)
                return false;
        }
    return true;
}

constexpr const char* gemm_text = "kernels/gemm/gpu_matrix.cl";

// What was found before about a text of kernels, else what is found now, which is kept. A user should know why products
// are slow.
bool kept_answer(const Device& device, const std::string& what, const char* text, const std::function<bool()>& works)
{
    TuningStore& store = TuningStore::of(device);
    const std::string question = fmt::format("{} of {}", what, cache_hash(kernel_source(text)));
    std::optional<std::string> answer = store.find("matrix_engine", question);
    if (!answer) {
        answer = works() ? "works" : "does not work";
        store.keep("matrix_engine", question, *answer);
        if (*answer != "works")
            log(LogLevel::warning, concat("matrix engine of ", device.name, ": ", what,
                                          " fails a trial with this driver; slower kernels serve instead"));
    }
    return *answer == "works";
}

}  // namespace

bool try_matrix_engine(const Device& device, MatrixEngineChoice engine, DataType type)
try {
    // A queue of its own: the one that asks may be recording.
    Queue& queue = Context::get(device.index).new_queue();
    if (type == DataType::int8) {
        for (const bool large : {false, true})
            for (const bool pack : {false, true})
                if (!(large && engine.emulated) && !right_bytes(queue, engine, large, pack))
                    return false;
        return true;
    }
    Probe probe(queue, engine, type);
    const MatrixEngineShape& shape = shape_of(engine.engine);
    for (const Operands operands : {Operands::along_k, Operands::across_k, Operands::anywhere})
        if (!probe.right(shape.small, operands) || (!engine.emulated && !probe.right(shape.large, operands)))
            return false;
    return true;
} catch (const Error&) {   // it does not build, or does not run
    return false;
}

// Products by one tile of each depth of slabs that are copied past registers.
bool try_copies_past_registers(const Device& device, MatrixEngineChoice engine)
try {
    Probe probe(Context::get(device.index).new_queue(), engine, DataType::float16);
    constexpr std::int64_t slabs = 13;   // several times as many as lie in local memory
    std::set<std::int64_t> tried;
    for (const RatedTile& rated : gemm_tiles(engine.engine))
        if (rated.tile.stages > 0 && !rated.tile.warpgroups && tried.insert(rated.tile.depth).second)
            for (const Operands operands : {Operands::along_k, Operands::across_k})
                if (!probe.right(rated.tile, operands, slabs * rated.tile.depth + 8))
                    return false;
    return true;
} catch (const Error&) {
    return false;
}

bool try_warpgroups(const Device& device, MatrixEngineChoice engine)
try {
    Queue& queue = Context::get(device.index).new_queue();
    for (const RatedTile& rated : gemm_tiles(engine.engine))
        if (rated.tile.warpgroups) {
            const std::int64_t deep = 13 * rated.tile.depth + 8;   // whose sums bfloat16 does not hold
            if (!Probe(queue, engine, DataType::float16).right(rated.tile, Operands::along_k, deep) ||
                !Probe(queue, engine, DataType::float16).right(rated.tile, Operands::across_k, deep) ||
                !Probe(queue, engine, DataType::bfloat16).right(rated.tile, Operands::across_k))
                return false;
        }
    return true;
} catch (const Error&) {
    return false;
}

bool matrix_engine_works(const Device& device, MatrixEngine engine, DataType type)
{
    if (dry_run())
        return true;
    static std::mutex mutex;
    static std::map<std::tuple<int, MatrixEngine, DataType>, bool> known;
    std::lock_guard lock(mutex);
    const auto [found, is_new] = known.try_emplace({device.index, engine, type}, false);
    if (is_new)
        found->second = kept_answer(device, fmt::format("{} {}", name_of(engine), name_of(type)),
                                    type == DataType::int8 ? "kernels/integer/gpu_matrix.cl" : gemm_text,
                                    [&] { return try_matrix_engine(device, {engine, false, false}, type); });
    return found->second;
}

bool copies_past_registers(MatrixEngineChoice engine, const Device& device)
{
    if (engine.engine != MatrixEngine::mma || engine.emulated || dry_run())
        return engine.engine == MatrixEngine::mma;
    static std::mutex mutex;
    static std::map<int, bool> known;
    std::lock_guard lock(mutex);
    const auto [found, is_new] = known.try_emplace(device.index, false);
    if (is_new)
        found->second = kept_answer(device, "slabs past registers", gemm_text,
                                    [&] { return try_copies_past_registers(device, engine); });
    return found->second;
}

bool has_warpgroups(MatrixEngineChoice engine, const Device& device)
{
    if (engine.engine != MatrixEngine::mma || engine.emulated)
        return engine.engine == MatrixEngine::mma;
    if (dry_run())   // of a device that may be there or not
        return compute_capability(device) == 90 || device.name.find("H100") != std::string::npos;
    static std::mutex mutex;
    static std::map<int, bool> known;
    std::lock_guard lock(mutex);
    const auto [found, is_new] = known.try_emplace(device.index, false);
    if (is_new && compute_capability(device) == 90)   // no other one has them
        found->second = kept_answer(device, "warpgroups", gemm_text, [&] { return try_warpgroups(device, engine); });
    return found->second;
}

}  // namespace clprim::detail
