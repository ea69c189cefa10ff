// Caches of keys and values as integers with scales, as com.microsoft's GroupQueryAttention has them.
#pragma once

#include "onnx/ops/contrib.hpp"

namespace clprim::onnx {

struct CacheFormat {
    int bits = 0;                            // 8, or 4: two to a byte; 0: numbers as they are
    Tensor scale;                            // broadcasts to [B, H, S, D]
};

// What the attributes say of keys ("k") or values ("v") of so many heads and numbers in each; the scale is input i.
CacheFormat cache_format(const Call& call, const std::string& what, std::size_t i, std::int64_t heads,
                         std::int64_t size);

// Numbers [B, H, S, D] as a cache has them, and back as elements of `type`.
Tensor cache_form(const Call& call, const CacheFormat& format, const Tensor& numbers);
Tensor from_cache(const Call& call, const CacheFormat& format, const Tensor& cache, DataType type);

}  // namespace clprim::onnx
