// Whether a device computes attention by its matrix engine, and computes it right.
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include <clprim/copy.hpp>
#include <core/dry_run.hpp>
#include <core/program_cache.hpp>
#include <core/tuning_store.hpp>
#include <kernels/attention/gpu_matrix.hpp>

namespace clprim::detail {
namespace {

constexpr std::int64_t keys = 40;   // more than one step, and a part of one

Tensor upload(Queue& queue, const std::vector<float>& values, const Dims& shape, DataType type)
{
    const Tensor floats = queue.context().empty(shape, DataType::float32, queue);
    queue.write(*floats.memory, 0, values.data(), values.size() * sizeof values[0]);
    const Tensor result = queue.context().empty(shape, type, queue);
    copy(queue, floats, result);
    return result;
}

// Query i matches key i % size alone, so that it gets its value, or no key, so that it gets the mean of all.
bool right(Queue& queue, MatrixEngineChoice engine, bool large, DataType type, std::int64_t size)
{
    const std::int64_t queries = 136;
    const auto at = [size](std::int64_t row, std::int64_t e) { return static_cast<std::size_t>(row * size + e); };
    const auto value = [](std::int64_t j, std::int64_t e) {
        return static_cast<float>((3 * j + 5 * e + j * e / 7) % 3 - 1);
    };
    std::vector<float> q(at(queries, 0)), k(at(keys, 0)), v(at(keys, 0)), mean(at(1, 0));
    for (std::int64_t i = 0; i < queries; ++i)
        q[at(i, i % size)] = 8;
    for (std::int64_t j = 0; j < keys; ++j) {
        k[at(j, j)] = 8;
        for (std::int64_t e = 0; e < size; ++e) {
            v[at(j, e)] = value(j, e);
            mean[at(0, e)] += value(j, e) / keys;
        }
    }
    Attention p;
    p.query = upload(queue, q, {1, 1, queries, size}, type);
    p.key = upload(queue, k, {1, 1, keys, size}, type);
    p.value = upload(queue, v, {1, 1, keys, size}, type);
    const Tensor y = queue.context().empty(p.query.shape, type, queue);
    const Tensor floats = queue.context().empty(p.query.shape, DataType::float32, queue);
    attention_gpu_matrix_by(engine, large, queue, p, y, {});
    copy(queue, y, floats);
    std::vector<float> result(q.size());
    queue.read(*floats.memory, 0, result.data(), result.size() * sizeof result[0]);
    for (std::int64_t i = 0; i < queries; ++i)
        for (std::int64_t e = 0; e < size; ++e) {
            const float expected = i % size < keys ? value(i % size, e) : mean[at(0, e)];
            if (!(std::abs(result[at(i, e)] - expected) < 0.01f))
                return false;
        }
    return true;
}

}  // namespace

bool try_attention_by(const Device& device, MatrixEngineChoice engine, DataType type)
try {
    Queue& queue = Context::get(device.index).new_queue();   // the one that asks may be recording
    for (const std::int64_t size : {64, 128})
        for (const bool large : {false, true})
            if (!(large && engine.emulated) && !right(queue, engine, large, type, size))
                return false;
    return true;
} catch (const Error&) {   // it does not build, or does not run
    return false;
}

bool attention_by_matrix_works(const Device& device, MatrixEngineChoice engine, DataType type)
{
    if (dry_run() || engine.emulated)
        return true;
    static std::mutex mutex;
    static std::map<std::tuple<int, MatrixEngine, DataType>, bool> known;
    std::lock_guard lock(mutex);
    const auto [found, is_new] = known.try_emplace({device.index, engine.engine, type}, false);
    if (is_new) {
        TuningStore& store = TuningStore::of(device);
        const std::string question = fmt::format("{} {} of {}", name_of(engine.engine), name_of(type),
                                                 cache_hash(kernel_source("kernels/attention/gpu_matrix.cl")));
        std::optional<std::string> answer = store.find("attention_matrix", question);
        if (!answer) {
            answer = try_attention_by(device, {engine.engine, false, false}, type) ? "works" : "does not work";
            store.keep("attention_matrix", question, *answer);
        }
        found->second = *answer == "works";
    }
    return found->second;
}

}  // namespace clprim::detail
