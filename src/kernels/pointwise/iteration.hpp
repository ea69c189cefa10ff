// The loop nest of an elementwise kernel or a reduction: dimensions collapsed as far as the operands' strides allow.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include <clprim/tensor.hpp>

namespace clprim {

inline constexpr int max_operands = 16;   // tensors and host numbers of one kernel
inline constexpr int max_rank = 16;       // of one loop nest, after collapsing

// Sizes and strides with the fastest dimension first. stride[d][k]: of operand k along dimension d, in elements.
struct Iteration {
    int rank = 0, operands = 0;
    std::array<std::int64_t, 2 * max_rank> size;      // a reduction puts two nests into one
    std::array<std::array<std::int64_t, max_operands>, 2 * max_rank> stride;

    std::int64_t numel() const;
    void append(std::int64_t size, std::span<const std::int64_t> strides);   // a slower dimension
    void pad(int dimensions);     // with dimensions of size 1
    // Fastest dimension first, decided by the operand `leader`, then by those before it, then by those after it.
    void sort(int leader);
    void collapse();              // merges neighbours that step alike in every operand
    // The largest element offset that any operand reaches.
    std::int64_t reach() const;
};

// Strides of `tensor` broadcast to `shape`, row-major. Throws InvalidArgument naming `what` when it does not fit.
void broadcast_strides(const Tensor& tensor, const Dims& shape, const char* what, std::span<std::int64_t> strides);

// Division by a run-time constant without dividing, for numerators below 2^31: n / d = (mul_hi(n, magic) + n) >> shift.
// Granlund and Montgomery, Division by invariant integers using multiplication, 1994.
struct Divider {
    std::uint32_t magic, shift;
    explicit Divider(std::uint32_t divisor);
};

// Writes what the kernels call geometry_t (pointwise/geometry.cl): the dimensions from `first` on, padded with size 1
// to `rank` dimensions. Returns its size in bytes.
using GeometryBytes = std::array<std::byte, 8 * 2 * max_rank * (3 + max_operands)>;
std::size_t write_geometry(const Iteration& loops, int first, int rank, bool wide, GeometryBytes& bytes);

// The number of dimensions a kernel is built for: kernels exist for 1, 2, 4, 8 and 16.
int rank_bucket(int rank);

}  // namespace clprim
