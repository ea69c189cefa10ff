// What com.microsoft's attention operators share: scores with what is added to them, masks, caches.
#pragma once

#include <optional>

#include "onnx/ops/contrib.hpp"

namespace clprim::onnx {

// Heads are views [B, H, S, D] wherever their memory lies.
struct Scores {
    Tensor query, key, value;                // query heads share key heads in order
    Tensor bias;                             // added; broadcasts to [B, H, L, S]; may be undefined
    bool causal = false;
    std::int64_t offset = 0;                 // of the first query among the keys
    double scale = 1, softcap = 0;
    Tensor sink;                             // a further score of each head [H], whose key has no value
    Tensor shown;                            // where scores [B, H, L, S] are written, if defined: before the softmax
    double shown_hidden = 0;                 // with this for hidden keys, or behind it
    bool shown_before_softmax = true;
};

// x [B, S, H D] as [B, H, S, D], a view.
Tensor heads_of(const Call& call, const Tensor& x, std::int64_t heads);

// An attribute that counts heads.
std::int64_t head_count(const Call& call, const char* name);

// Query, key and value of a projection [B, L, q + k + v], by the attributes `num_heads` and `qkv_hidden_sizes` (equal
// thirds without it).
Scores split_projection(const Call& call, const Tensor& x);

// The attribute `scale`, or 1 / sqrt(head_size).
double scale_of(const Call& call, std::int64_t head_size);

// Attends: [B, L, H Dv], as a tensor or as output 0.
Tensor attended(const Call& call, const Scores& p);
void attend_to_output(Call& call, const Scores& p);

// Where output 3 is wanted it shows the scores before the softmax, the lowest number for keys that causality hides.
void show_scores(Call& call, Scores& p);

// 0 to count - 1, int64.
Tensor positions(const Call& call, std::int64_t count);

struct Extent {
    std::int64_t batch, queries, keys;
};

// What hides keys: `mask_filter_value` where the mask says so, 0 elsewhere. Masks are how many keys of each sample
// count [B], or where they end and begin [2 B], or 1 for keys that count: [B, S], [B, L, S], [B, 1, M, M]. Undefined
// without the input.
Tensor mask_bias(const Call& call, std::size_t i, const Extent& e, DataType type);

// a + b with broadcasting, either of which may be undefined.
Tensor sum_of(const Call& call, const Tensor& a, const Tensor& b);

// Input i, undefined where it is absent or `none`.
Tensor optional_input(const Call& call, std::size_t i);

struct Cache {
    Tensor whole;                            // what is handed on
    Tensor used;                             // keys that count
};

// `fresh` [B, H, S, D] behind what `past` holds: all of it, or its first `length` of a longer buffer, whose size is
// kept.
Cache appended(const Call& call, const Tensor& past, const Tensor& fresh, std::optional<std::int64_t> length);

// Caches as outputs 1 and 2, where they are asked for.
void hand_on(Call& call, const Cache& keys, const Cache& values);

// The keys (0) or values (1) of a cache [2, B, H, P, D].
Tensor half_of(const Tensor& past, std::int64_t which);

}  // namespace clprim::onnx
