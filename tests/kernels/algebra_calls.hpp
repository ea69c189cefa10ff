// Right calls of products, factorisations, sorting, indexing, random numbers, optimizers and so on, for
// test_forged_operands.cpp.
#pragma once

#include "kernels/forged_operands.hpp"

#include <clprim/concat.hpp>
#include <clprim/copy.hpp>
#include <clprim/coupling.hpp>
#include <clprim/determinant.hpp>
#include <clprim/distance.hpp>
#include <clprim/fft.hpp>
#include <clprim/float8.hpp>
#include <clprim/gemm.hpp>
#include <clprim/index.hpp>
#include <clprim/integer_matmul.hpp>
#include <clprim/keyed_random.hpp>
#include <clprim/linalg.hpp>
#include <clprim/narrow.hpp>
#include <clprim/nms.hpp>
#include <clprim/optim.hpp>
#include <clprim/quantized.hpp>
#include <clprim/random.hpp>
#include <clprim/scan.hpp>
#include <clprim/sequence.hpp>
#include <clprim/sort.hpp>
#include <clprim/sparse.hpp>
#include <clprim/trees.hpp>

namespace clprim::test {

inline std::vector<Call> algebra_calls()
{
    [[maybe_unused]] const auto i64 = DataType::int64, i32 = DataType::int32, i8 = DataType::int8;
    using T = const Tensors&;
    using Q = Queue&;
    return {
        {"gemm", {make({4, 5}), make({5, 6}), make({4, 6}), make({4, 6})},
         [](Q q, T t) { gemm(q, gemm_problem(t[0], t[1], t[2], t[3]), t[0], t[1], t[2], t[3]); }},
        {"sort", {make({4, 6}), make({4, 6}), make({4, 6}, i64)},
         [](Q q, T t) { sort(q, t[0], 1, false, t[1], t[2]); }},
        {"topk", {make({4, 6}), make({4, 2}), make({4, 2}, i64)},
         [](Q q, T t) { topk(q, t[0], 1, true, t[1], t[2]); }},
        {"count_places", {make({6}, i64), make({6}, DataType::int32)},
         [](Q q, T t) { count_places(q, t[0], t[1]); }},
        {"histogram_bins", {make({6}), make({6}, i64)},
         [](Q q, T t) { histogram_bins(q, t[0], {0, 1, 4}, t[1]); }},
        {"searchsorted", {make({6}), make({4}), make({4}, i64)},
         [](Q q, T t) { searchsorted(q, {.boundaries = t[0], .sorter = {}}, t[1], t[2]); }},
        {"random_bernoulli", {make({4}), make({4})}, [](Q q, T t) { random_bernoulli(q, t[0], t[1], {}); }},
        {"random_variates", {make({4}), make({4}), make({4})},
         [](Q q, T t) { random_variates(q, t[0], Variate::binomial, t[1], t[2], {}); }},
        {"dropout", {make({4}), make({4}), make({4}, DataType::boolean)},
         [](Q q, T t) { dropout(q, t[0], 0.5, {}, t[1], t[2]); }},
        {"quantized_matmul", {make({3, 64}), make({8, 64}, i8), make({1, 8}), make({3, 8})},
         [](Q q, T t) {
             quantized_matmul(q, t[0], {.values = t[1], .format = {}, .group = 64, .scales = t[2], .zeros = {}}, t[3]);
         }},
        {"dequantize", {make({8, 64}, i8), make({1, 8}), make({8, 64})},
         [](Q q, T t) {
             dequantize(q, {.values = t[0], .format = {}, .group = 64, .scales = t[1], .zeros = {}}, t[2]);
         }},
        {"integer_matmul", {make({3, 8}, i8), make({8, 5}, i8), make({3, 5}, i32)},
         [](Q q, T t) { integer_matmul(q, t[0], t[1], t[2]); }},
        {"lu_factor", {make({2, 4, 4}), make({2, 4}, i32), make({2}, i32)},
         [](Q q, T t) { lu_factor(q, t[0], t[1], t[2]); }},
        {"lu_solve", {make({2, 4, 4}), make({2, 4}, i32), make({2, 4, 3})},
         [](Q q, T t) { lu_solve(q, t[0], t[1], t[2]); }},
        {"cholesky", {make({2, 4, 4}), make({2}, i32)}, [](Q q, T t) { cholesky(q, t[0], t[1]); }},
        {"triangular_solve", {make({2, 4, 4}), make({2, 4, 3})},
         [](Q q, T t) { triangular_solve(q, t[0], true, false, t[1]); }},
        {"qr_factor", {make({2, 5, 4}), make({2, 4})}, [](Q q, T t) { qr_factor(q, t[0], t[1]); }},
        {"jacobi_eigh", {make({2, 4, 4}), make({2, 4, 4}), make({2, 4})},
         [](Q q, T t) { jacobi_eigh(q, t[0], t[1], t[2]); }},
        {"fft", {make({2, 8}, DataType::complex64), make({2, 8}, DataType::complex64)},
         [](Q q, T t) { fft(q, t[0], false, t[1]); }},
        {"pairwise_distances", {make({1, 3, 4}), make({1, 5, 4}), make({1, 3, 5})},
         [](Q q, T t) { pairwise_distances(q, t[0], t[1], 2, t[2]); }},
        {"nms", {make({6, 4}), make({6}, i64), make({6}, i64), make({1}, i64)},
         [](Q q, T t) { nms(q, t[0], t[1], 0.5, t[2], t[3]); }},
        {"rotated_overlaps", {make({6, 5}), make({3, 5}), make({6, 3})},
         [](Q q, T t) { rotated_overlaps(q, t[0], t[1], t[2]); }},
        {"concat", {make({2, 3}), make({4, 3}), make({6, 3})},
         [](Q q, T t) { concat(q, {t[0], t[1]}, 0, t[2]); }},
        {"sgd_step", {make({5}), make({5}), make({5})},
         [](Q q, T t) { sgd_step(q, {.common = {}, .momentum = 0.9}, {t[0]}, {t[1]}, {t[2]}); }},
        {"adam_step", {make({5}), make({5}), make({5}), make({5}), make({})},
         [](Q q, T t) { adam_step(q, {}, {{t[0]}, {t[1]}, {t[2]}, {t[3]}, {}, {t[4]}}); }},
        {"index_select", {make({4, 5}), make({3}, i64), make({3, 5})},
         [](Q q, T t) { index_select(q, t[0], 0, t[1], t[2]); }},
        {"gather", {make({4, 5}), make({4, 2}, i64), make({4, 2})},
         [](Q q, T t) { gather(q, t[0], 1, t[1], t[2]); }},
        {"scatter_reduce", {make({4, 5}), make({4, 2}, i64), make({4, 2})},
         [](Q q, T t) { scatter_reduce(q, t[0], 1, t[1], t[2], IndexReduce::sum); }},
        {"index_reduce", {make({4, 5}), make({3}, i64), make({3, 5})},
         [](Q q, T t) { index_reduce(q, t[0], 0, t[1], t[2], IndexReduce::sum); }},
        {"masked_fill", {make({4, 5}), make({4, 5}, DataType::boolean), make({4, 5})},
         [](Q q, T t) { masked_fill(q, t[0], t[1], t[2]); }},
        {"copy", {make({4, 5}), make({4, 5}, DataType::float64)}, [](Q q, T t) { copy(q, t[0], t[1]); }},
        {"triangle", {make({4, 5}), make({4, 5})}, [](Q q, T t) { triangle(q, t[0], 0, true, t[1]); }},
        {"cumulative", {make({4, 5}), make({4, 5})}, [](Q q, T t) { cumulative(q, t[0], 1, Scan::sum, t[1]); }},
        {"cumulative_extreme", {make({4, 5}), make({4, 5}), make({4, 5}, i64)},
         [](Q q, T t) { cumulative_extreme(q, t[0], 1, true, t[1], t[2]); }},
        {"sparse_mm", {make({4}, i64), make({1}, i64), make({1}), make({1, 2, 3}), make({1, 3, 3})},
         [](Q q, T t) { sparse_mm(q, {t[0], t[1], t[2]}, t[3], {}, t[4]); }},
        {"mode", {make({4, 6}), make({4, 6}, i64), make({4}), make({4}, i64)},
         [](Q q, T t) { mode(q, t[0], t[1], t[2], t[3]); }},
        {"pack_int4", {make({8, 32}, DataType::uint8), make({8, 32}, DataType::uint8)},
         [](Q q, T t) { pack_int4(q, t[0], t[1], false); }},
        {"random_fill", {make({5})},
         [](Q q, T t) { random_fill(q, t[0], Distribution::normal, 0, 1, {}); }},
        {"random_permutation", {make({5}, i64)}, [](Q q, T t) { random_permutation(q, t[0], {}); }},
        {"random_integers", {make({5}, i64)}, [](Q q, T t) { random_integers(q, t[0], 0, 7, {}); }},
        {"dropout_backward", {make({4}), make({4}, DataType::boolean), make({4})},
         [](Q q, T t) { dropout_backward(q, t[0], t[1], 2, t[2]); }},
        {"exchange_rows", {make({2, 4, 3}), make({2, 4}, i32)},
         [](Q q, T t) { exchange_rows(q, t[0], t[1], false); }},
        {"ldl_factor", {make({2, 4, 4}), make({2, 4}, i32), make({2}, i32)},
         [](Q q, T t) { ldl_factor(q, t[0], t[1], t[2], false); }},
        {"ldl_solve", {make({2, 4, 4}), make({2, 4}, i32), make({2, 4, 3})},
         [](Q q, T t) { ldl_solve(q, t[0], t[1], t[2], false); }},
        {"apply_reflectors", {make({2, 5, 4}), make({2, 4}), make({2, 5, 3})},
         [](Q q, T t) { apply_reflectors(q, t[0], t[1], t[2], false); }},
        {"jacobi_svd", {make({2, 4, 5}), make({2, 4, 4}), make({2, 4})},
         [](Q q, T t) { jacobi_svd(q, t[0], t[1], t[2]); }},
        {"eigen",
         {make({2, 4, 4}), make({2, 4}, DataType::complex64), make({2, 4, 4}, DataType::complex64), make({2}, i32)},
         [](Q q, T t) { eigen(q, t[0], t[1], t[2], t[3]); }},
        {"determinant", {make({2, 4, 4}), make({2})}, [](Q q, T t) { determinant(q, t[0], t[1]); }},
        {"couple_pairs", {make({2, 3}, DataType::float32, 0.5), make({2, 3})},
         [](Q q, T t) { couple_pairs(q, t[0], t[1]); }},
        {"pairwise_distances_backward",
         {make({1, 3, 4}), make({1, 5, 4}), make({1, 3, 5}), make({1, 3, 5}), make({1, 3, 4})},
         [](Q q, T t) { pairwise_distances_backward(q, {t[0], t[1], t[2], t[3], t[4]}); }},
        {"condensed_distances", {make({4, 3}), make({6})},
         [](Q q, T t) { condensed_distances(q, t[0], 2, t[1]); }},
        {"condensed_distances_backward", {make({4, 3}), make({6}), make({6}), make({4, 3})},
         [](Q q, T t) { condensed_distances_backward(q, {t[0], {}, t[1], t[2], t[3]}); }},
        {"nms of lists", {make({1, 6, 4}), make({1, 2, 6})},
         [](Q q, T t) {
             nms(q, NmsLists{.boxes = t[0], .scores = t[1], .iou_threshold = 0.5, .score_threshold = {}, .most = 3});
         }},
        {"adagrad_step", {make({5}), make({5}), make({5}), make({})},
         [](Q q, T t) { adagrad_step(q, {}, {{t[0]}, {t[1]}, {t[2]}, {t[3]}}); }},
        {"unscale_and_check", {make({5}), make({}), make({})},
         [](Q q, T t) { unscale_and_check(q, {t[0]}, t[1], t[2]); }},
        {"update_scale", {make({}), make({}, i32), make({})},
         [](Q q, T t) { update_scale(q, {}, t[0], t[1], t[2]); }},
        {"scatter", {make({4, 5}), make({4, 2}, i64), make({4, 2})},
         [](Q q, T t) { scatter(q, t[0], 1, t[1], t[2]); }},
        {"index_copy", {make({4, 5}), make({3}, i64), make({3, 5})},
         [](Q q, T t) { index_copy(q, t[0], 0, t[1], t[2]); }},
        {"fill", {make({4, 5})}, [](Q q, T t) { fill(q, t[0], 2.0); }},
        {"arange", {make({5}, i64)}, [](Q q, T t) { arange(q, t[0], std::int64_t{0}, std::int64_t{2}); }},
        {"linspace", {make({5})}, [](Q q, T t) { linspace(q, t[0], 0, 1); }},
        {"flip", {make({4, 5}), make({4, 5})},
         [](Q q, T t) {
             static const std::int64_t axes[] = {1};
             flip(q, t[0], axes, t[1]);
         }},
        {"nonzero_count", {make({4, 5})}, [](Q q, T t) { nonzero_count(q, t[0]); }},
        {"sparse_sampled",
         {make({1}, i64), make({1}), make({1}, i64, 0), make({1, 3, 4}), make({1, 4, 3}), make({1})},
         [](Q q, T t) { sparse_sampled(q, {{}, t[0], t[1]}, t[2], t[3], t[4], t[5]); }},
        {"sparse_triangular_solve", {make({4}, i64), make({1}, i64, 0), make({1}), make({3, 2})},
         [](Q q, T t) { sparse_triangular_solve(q, {t[0], t[1], t[2]}, true, true, t[3]); }},
        {"derive_keys", {make({4, 2}, DataType::uint64), make({4, 2}, DataType::uint64)},
         [](Q q, T t) { derive_keys(q, t[0], 0, t[1]); }},
        {"float32_to_float8", {make({5}), make({5}, DataType::uint8)},
         [](Q q, T t) { float32_to_float8(q, Float8::e4m3fn, t[0], t[1]); }},
        {"float8_to_float32", {make({5}, DataType::uint8), make({5})},
         [](Q q, T t) { float8_to_float32(q, Float8::e4m3fn, t[0], t[1]); }},
        {"rfft", {make({2, 8}), make({2, 5}, DataType::complex64)}, [](Q q, T t) { rfft(q, t[0], t[1]); }},
        {"irfft", {make({2, 5}, DataType::complex64), make({2, 8})}, [](Q q, T t) { irfft(q, t[0], t[1]); }},
        {"repeat_positions", {make({1}, i64, 5), make({5}, i64)}, [](Q q, T t) { repeat_positions(q, t[0], t[1]); }},
        {"nonzero_write", {make({4, 5}), make({20, 2}, i64)},
         [](Q q, T t) { nonzero_write(q, t[0], nonzero_count(q, make({4, 5})), t[1]); }},
        {"nonzero_write's totals", {make({1}, i64, 20), make({20, 2}, i64)},
         [](Q q, T t) { nonzero_write(q, make({4, 5}), {t[0], 20}, t[1]); }},
        {"nms_write", {make({1, 2, 3}, i64), make({2}, i64, 1), make({1, 3}, i64)},
         [](Q q, T t) { nms_write(q, {t[0], t[1]}, t[2]); }},
        {"keyed_fill", {make({3, 7}), make({3, 2}, DataType::uint64)},
         [](Q q, T t) { keyed_fill(q, t[0], t[1], Distribution::normal, 0, 1); }},
        {"derive_keys of a number on the device",
         {make({4, 2}, DataType::uint64), make({1}, DataType::uint64), make({4, 2}, DataType::uint64)},
         [](Q q, T t) { derive_keys(q, t[0], t[1], t[2]); }},
        {"foreach", {make({5}), make({5}), make({5}), make({5})},
         [](Q q, T t) {
             const TensorList lists[] = {{t[0]}, {t[1]}, {t[2]}, {t[3]}};
             const double scalars[] = {1};
             foreach(q, "addcmul", lists, scalars);
         }},
        {"read_through", {make({4, 5}), make({4, 5}, i64, 0), make({4, 5})},
         [](Q q, T t) { read_through(q, t[0], {.name = "read", .index = t[1], .size = 1, .stride = 0}, t[2]); }},
        {"write_through", {make({4, 5}), make({4, 5}, i64, 0), make({4, 5})},
         [](Q q, T t) { write_through(q, t[0], {.name = "write", .index = t[1], .size = 1, .stride = 0}, t[2]); }},
        {"reduce_through", {make({4, 5}), make({4, 5}, i64, 0), make({4, 5})},
         [](Q q, T t) {
             reduce_through(q, t[0], {.name = "reduce", .index = t[1], .size = 1, .stride = 0}, t[2],
                            IndexReduce::sum);
         }},
        {"add_keys", {make({4, 5}, i64), make({4, 5}, i64)},
         [](Q q, T t) { add_keys(q, t[0], {.name = "keys", .index = t[1], .size = 7, .stride = 3}, true); }},
        {"embedding_bag", {make({4, 6}), make({5}, i64), make({2}, i64, 0), make({5}), make({2, 6}), make({2}, i64)},
         [](Q q, T t) {
             embedding_bag(q, t[0], {.index = t[1], .offsets = t[2], .weights = t[3], .result = t[4],
                                     .sizes = t[5]});
         }},
        {"embedding_bag of maxima",
         {make({4, 6}), make({5}, i64), make({2}, i64, 0), make({2, 6}), make({2}, i64), make({2, 6}, i64)},
         [](Q q, T t) {
             embedding_bag(q, t[0], {.index = t[1], .offsets = t[2], .mode = BagMode::maximum, .result = t[3],
                                     .sizes = t[4], .places = t[5]});
         }},
        {"narrow", {make({4, 6}), make({4, 6}, DataType::uint8)},
         [](Q q, T t) { narrow(q, t[0], narrow_format("float8e4m3fn"), {}, t[1]); }},
        {"widen", {make({4, 6}, DataType::uint8), make({4, 6})},
         [](Q q, T t) { widen(q, t[0], narrow_format("float8e4m3fn"), t[1]); }},
        {"require_within", {make({4, 6})}, [](Q q, T t) { require_within(q, t[0], 0, 2, "not within"); }},
        {"tree_scores",
         {make({1}, i32, 0), make({1}, i32, 0), make({1}, i32, 0), make({1}), make({1}, i32, -1), make({1}, i32, -1),
          make({1}), make({2}, i32), make({1}, i32, 0), make({1}), make({3, 2}), make({3, 1})},
         [](Q q, T t) {
             tree_scores(q, {.roots = t[0], .features = t[1], .tests = t[2], .splits = t[3], .yes = t[4], .no = t[5],
                             .members = t[6], .votes = t[7], .targets = t[8], .weights = t[9]},
                         t[10], t[11]);
         }},
        {"cholesky_solve", {make({2, 4, 4}), make({2, 4, 3}), make({2, 4, 3})},
         [](Q q, T t) { cholesky_solve(q, t[0], false, t[1], t[2]); }},
    };
}

}  // namespace clprim::test
