// Whether a device computes products by its matrix engine, and computes them right.
#include <array>
#include <map>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include <core/dry_run.hpp>
#include <core/program_cache.hpp>
#include <core/tuning_store.hpp>
#include <kernels/gemm/gpu_matrix.hpp>

namespace clprim::detail {
namespace {

// Small whole numbers, whose sums every type holds exactly.
class Probe {
public:
    Probe(Queue& queue, MatrixEngine engine, DataType type) : queue_(queue), engine_{engine, false, false}, type_(type)
    {
        for (std::size_t value = 0; value < bits_.size(); ++value)
            Scalar(static_cast<double>(value) - zero).write(type, reinterpret_cast<std::byte*>(&bits_[value]));
    }

    // One product with edges in every direction, operands both along k or both across.
    bool right(bool large, bool across)
    {
        const MatrixEngineShape& shape = shape_of(engine_.engine);
        const MatrixTile& tile = large ? shape.large : shape.small;
        GemmProblem p;
        p.m = shape.rows(tile) + 8, p.n = shape.columns(tile) - 8, p.k = 72;
        p.dtype = type_;
        p.a = across ? MatrixLayout{1, p.m, 0} : MatrixLayout{p.k, 1, 0};
        p.b = across ? MatrixLayout{p.n, 1, 0} : MatrixLayout{1, p.k, 0};
        p.c = {p.n, 1, 0};
        const auto a = [](std::int64_t i, std::int64_t k) { return (3 * i + 5 * k + i * k / 7) % 3 - 1; };
        const auto b = [](std::int64_t k, std::int64_t j) { return (5 * j + 7 * k + j * k / 5) % 3 - 1; };
        const Tensor a_tensor = upload(p.m, p.k, p.a, a), b_tensor = upload(p.k, p.n, p.b, b);
        const Tensor c_tensor = queue_.context().empty({p.m, p.n}, type_, queue_);
        gpu_matrix_by(engine_, large, queue_, p, {a_tensor, b_tensor, c_tensor, {}});
        std::vector<std::uint16_t> c(static_cast<std::size_t>(p.m * p.n));
        queue_.read(*c_tensor.memory, 0, c.data(), c.size() * sizeof c[0]);
        for (std::int64_t i = 0; i < p.m; ++i)
            for (std::int64_t j = 0; j < p.n; ++j) {
                std::int64_t sum = 0;
                for (std::int64_t k = 0; k < p.k; ++k)
                    sum += a(i, k) * b(k, j);
                if (c[static_cast<std::size_t>(i * p.n + j)] != bits(sum))
                    return false;
            }
        return true;
    }

private:
    static constexpr int zero = 80;   // sums lie between -72 and 72

    std::uint16_t bits(std::int64_t value) const { return bits_[static_cast<std::size_t>(value + zero)]; }

    template <class Value>
    Tensor upload(std::int64_t rows, std::int64_t columns, const MatrixLayout& layout, Value value)
    {
        std::vector<std::uint16_t> data(static_cast<std::size_t>(rows * columns));
        for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < columns; ++j)
                data[static_cast<std::size_t>(i * layout.row + j * layout.column)] = bits(value(i, j));
        const Tensor tensor = queue_.context().empty({rows * columns}, type_, queue_);
        queue_.write(*tensor.memory, 0, data.data(), data.size() * sizeof data[0]);
        return tensor;
    }

    Queue& queue_;
    MatrixEngineChoice engine_;
    DataType type_;
    std::array<std::uint16_t, 2 * zero + 1> bits_{};
};

bool try_engine(const Device& device, MatrixEngine engine, DataType type)
try {
    // A queue of its own: the one that asks may be recording.
    Probe probe(Context::get(device.index).new_queue(), engine, type);
    for (const bool large : {true, false})
        for (const bool across : {false, true})
            if (!probe.right(large, across))
                return false;
    return true;
} catch (const Error&) {   // it does not build, or does not run
    return false;
}

}  // namespace

bool matrix_engine_works(const Device& device, MatrixEngine engine, DataType type)
{
    if (dry_run())
        return true;
    static std::mutex mutex;
    static std::map<std::tuple<int, MatrixEngine, DataType>, bool> known;
    std::lock_guard lock(mutex);
    const auto [found, is_new] = known.try_emplace({device.index, engine, type}, false);
    if (is_new) {
        TuningStore& store = TuningStore::of(device);
        const std::string question = fmt::format("{} {} of {}", name_of(engine), name_of(type),
                                                 cache_hash(kernel_source("kernels/gemm/gpu_matrix.cl")));
        std::optional<std::string> answer = store.find("matrix_engine", question);
        if (!answer) {
            answer = try_engine(device, engine, type) ? "works" : "does not work";
            store.keep("matrix_engine", question, *answer);
        }
        found->second = *answer == "works";
    }
    return found->second;
}

}  // namespace clprim::detail
