// Whether a device computes attention by its matrix engine, and computes it right.
#include <algorithm>
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

// Attention of values that take part in all sums, and its gradients by the definition.
struct Known {
    Known(std::int64_t queries_, std::int64_t size_) : queries(queries_), size(size_)
    {
        for (std::int64_t i = 0; i < queries; ++i) {
            const float* query = &q[at(i, 0)];
            std::vector<double> p(keys), grad_p(keys);
            double total = 0, delta = 0;
            for (std::int64_t j = 0; j < keys; ++j) {
                for (std::int64_t e = 0; e < size; ++e) {
                    p[u(j)] += scale * query[e] * k[at(j, e)];
                    grad_p[u(j)] += grad_y[at(i, e)] * v[at(j, e)];
                }
                total += p[u(j)] = std::exp(p[u(j)]);
            }
            logsumexp.push_back(static_cast<float>(std::log(total)));
            for (std::int64_t j = 0; j < keys; ++j) {
                p[u(j)] /= total;
                delta += p[u(j)] * grad_p[u(j)];
            }
            for (std::int64_t j = 0; j < keys; ++j) {
                const double grad_s = scale * p[u(j)] * (grad_p[u(j)] - delta);
                for (std::int64_t e = 0; e < size; ++e) {
                    y[at(i, e)] += static_cast<float>(p[u(j)] * v[at(j, e)]);
                    grad_q[at(i, e)] += grad_s * k[at(j, e)];
                    grad_k[at(j, e)] += grad_s * query[e];
                    grad_v[at(j, e)] += p[u(j)] * grad_y[at(i, e)];
                }
            }
        }
    }

    static std::size_t u(std::int64_t i) { return static_cast<std::size_t>(i); }
    std::size_t at(std::int64_t row, std::int64_t e) const { return u(row * size + e); }
    std::vector<float> values(std::int64_t rows, std::int64_t a, std::int64_t b) const
    {
        std::vector<float> result;
        for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t e = 0; e < size; ++e)
                result.push_back(static_cast<float>((a * i + b * e + i * e / 7) % 5 - 2) / 4);
        return result;
    }

    static constexpr double scale = 0.25;
    std::int64_t queries, size;
    std::vector<float> q = values(queries, 3, 5), k = values(keys, 7, 2), v = values(keys, 2, 3),
                       grad_y = values(queries, 5, 7), y = std::vector<float>(u(queries * size)), logsumexp;
    std::vector<double> grad_q = std::vector<double>(y.size()), grad_k = std::vector<double>(u(keys * size)),
                        grad_v = grad_k;
};

// Within a hundredth of the largest.
bool near(Queue& queue, const Tensor& actual, const std::vector<double>& expected)
{
    const Tensor floats = queue.context().empty(actual.shape, DataType::float32, queue);
    copy(queue, actual, floats);
    std::vector<float> result(expected.size());
    queue.read(*floats.memory, 0, result.data(), result.size() * sizeof result[0]);
    double largest = 0;
    for (const double x : expected)
        largest = std::max(largest, std::abs(x));
    for (std::size_t i = 0; i < result.size(); ++i)
        if (!(std::abs(result[i] - expected[i]) < 0.01 * largest))
            return false;
    return true;
}

bool gradients_right(Queue& queue, MatrixEngineChoice engine, DataType type, std::int64_t size)
{
    const Known known(136, size);
    const Dims of_queries{1, 1, known.queries, size}, of_keys{1, 1, keys, size};
    Attention p;
    p.query = upload(queue, known.q, of_queries, type);
    p.key = upload(queue, known.k, of_keys, type);
    p.value = upload(queue, known.v, of_keys, type);
    p.scale = Known::scale;
    const AttentionResults results{upload(queue, known.y, of_queries, type),
                                   upload(queue, known.logsumexp, {1, 1, known.queries}, DataType::float32),
                                   upload(queue, known.grad_y, of_queries, type)};
    const AttentionGradients gradients{queue.context().empty(of_queries, type, queue),
                                       queue.context().empty(of_keys, type, queue),
                                       queue.context().empty(of_keys, type, queue)};
    attention_gpu_matrix_backward_by(engine, queue, p, results, gradients);
    return near(queue, gradients.query, known.grad_q) && near(queue, gradients.key, known.grad_k) &&
           near(queue, gradients.value, known.grad_v);
}

using Try = bool (*)(const Device&, MatrixEngineChoice, DataType);

// What `attempt` found, now or before: on disk for as long as driver and kernel stay the same.
bool found_out(const Device& device, MatrixEngineChoice engine, DataType type, const char* file, Try attempt)
{
    if (dry_run() || engine.emulated)
        return true;
    static std::mutex mutex;
    static std::map<std::tuple<int, MatrixEngine, DataType, Try>, bool> known;
    std::lock_guard lock(mutex);
    const auto [found, is_new] = known.try_emplace({device.index, engine.engine, type, attempt}, false);
    if (is_new) {
        TuningStore& store = TuningStore::of(device);
        const std::string question = fmt::format("{} {} of {}", name_of(engine.engine), name_of(type),
                                                 cache_hash(kernel_source(file)));
        std::optional<std::string> answer = store.find("attention_matrix", question);
        if (!answer) {
            answer = attempt(device, {engine.engine, false, false}, type) ? "works" : "does not work";
            store.keep("attention_matrix", question, *answer);
        }
        found->second = *answer == "works";
    }
    return found->second;
}

}  // namespace

bool try_attention_by(const Device& device, MatrixEngineChoice engine, DataType type)
try {
    Queue& queue = Context::get(device.index).new_queue();   // the one that asks may be recording
    for (const std::int64_t size : {64, 128, 256})
        for (const bool large : {false, true})
            if (!(large && (engine.emulated || size > 128)) && (size <= 128 || engine.engine != MatrixEngine::wmma) &&
                !right(queue, engine, large, type, size))
                return false;
    return true;
} catch (const Error&) {   // it does not build, or does not run
    return false;
}

bool try_attention_backward_by(const Device& device, MatrixEngineChoice engine, DataType type)
try {
    Queue& queue = Context::get(device.index).new_queue();
    return gradients_right(queue, engine, type, 64) && gradients_right(queue, engine, type, 128);
} catch (const Error&) {
    return false;
}

bool attention_by_matrix_works(const Device& device, MatrixEngineChoice engine, DataType type)
{
    return found_out(device, engine, type, "kernels/attention/gpu_matrix.cl", try_attention_by);
}

bool attention_backward_by_matrix_works(const Device& device, MatrixEngineChoice engine, DataType type)
{
    return found_out(device, engine, type, "kernels/attention/gpu_matrix_backward.cl", try_attention_backward_by);
}

}  // namespace clprim::detail
