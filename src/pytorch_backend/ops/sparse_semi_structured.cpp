// 2:4 semi-structured matrices, of which two elements in four are stored: PyTorch's tensor class for them asks for the
// operators of CUDA's libraries. Here they are stored in the same way, in 9/16 of the memory (10/16 of 8 bits), and
// written out before a product.
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_int_mm.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

namespace torch_ocl {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// Where the two elements of four lie is said by four bits: the first one's place, and four times the second one's.
// Where fewer than two are not zero, zeros are stored with them.
Tensor places_of(const Tensor& fours)
{
    const std::vector<Tensor> set = fours.ne(0).unbind(-1);
    const Tensor first = set[0].logical_not().logical_and(set[1]).to(at::kByte) +
                         set[0].logical_or(set[1]).logical_not().to(at::kByte) * 2;
    const Tensor both = set[0].logical_and(set[1]), neither = set[0].logical_or(set[1]).logical_not();
    const Tensor second = both.logical_or(neither).logical_or(set[3]).to(at::kByte) +
                          set[0].logical_not().logical_and(set[1]).logical_or(set[1].logical_not()).to(at::kByte) * 2;
    return first + second * 4;
}

// values [m, k / 2] and places [m, k / 4] as the matrix [m, k]. Of float32 one element in two is stored, and its place
// is that of a pair in four halves.
Tensor expanded(const Tensor& values, const Tensor& places)
{
    const std::int64_t rows = values.size(0), width = values.scalar_type() == at::kFloat ? 2 : 4;
    const Tensor lanes = at::arange(width, places.options()), zero = at::zeros({}, values.options());
    const Tensor stored = values.reshape({rows, -1, width / 2}), place = places.unsqueeze(-1);
    if (width == 2)
        return at::where(place.bitwise_right_shift(1).bitwise_and(1).eq(lanes), stored, zero).view({rows, -1});
    const Tensor second = at::where(place.bitwise_right_shift(2).eq(lanes), stored.narrow(2, 1, 1), zero);
    return at::where(place.bitwise_and(3).eq(lanes), stored.narrow(2, 0, 1), second).view({rows, -1});
}

Tensor nibbles(const Tensor& bytes)
{
    return at::stack({bytes.bitwise_and(15), bytes.bitwise_right_shift(4)}, -1).view({bytes.size(0), -1});
}

Tensor converted(const Tensor& product, at::ScalarType dtype)
{
    return dtype == at::kChar && product.scalar_type() != at::kChar ? product.clamp(-128, 127).to(dtype)
                                                                    : product.to(dtype);
}

// dense @ other, and `bias` added to each column, in the dtype of `other` or the one that is asked for.
Tensor product(const Tensor& dense, const Tensor& other, const OptionalTensor& bias, const OptionalTensor& alpha,
               std::optional<at::ScalarType> dtype)
{
    const at::ScalarType wanted = dtype.value_or(other.scalar_type());
    const bool biased = bias && bias->defined(), scaled = alpha && alpha->defined();
    const bool bytes = other.element_size() == 1;
    if (!bytes && !scaled && wanted == other.scalar_type())
        return biased ? at::addmm(bias->unsqueeze(1), dense, other) : at::mm(dense, other);
    Tensor y = other.scalar_type() == at::kChar ? at::_int_mm(dense, other)
                                                : at::mm(dense.to(at::kFloat), other.to(at::kFloat));
    if (scaled)
        y = y * (alpha->dim() == 1 ? alpha->unsqueeze(1) : *alpha);
    return converted(biased ? y + bias->unsqueeze(1) : y, wanted);
}

// ---- values and places in one tensor ----

bool is_compressible(at::ScalarType dtype)
{
    return dtype == at::kHalf || dtype == at::kBFloat16 || dtype == at::kChar || dtype == at::kFloat8_e4m3fn;
}

Tensor cslt_compress(const Tensor& input)
{
    TORCH_CHECK(input.dim() == 2 && is_compressible(input.scalar_type()) && input.size(0) > 0 && input.size(1) > 0 &&
                    input.size(1) % 16 == 0,
                "_cslt_compress: expected a matrix of float16, bfloat16, int8 or float8_e4m3fn with a multiple of 16 "
                "columns, got ", input.sizes(), " of ", input.scalar_type());
    const c10::OptionalDeviceGuard guard(input.device());
    const std::int64_t rows = input.size(0), columns = input.size(1), kept = rows * columns / 2;
    const Tensor fours = input.contiguous().view({rows, columns / 4, 4});
    const Tensor places = places_of(input.element_size() == 1 ? fours.view(at::kChar) : fours);
    const Tensor index = at::stack({places.bitwise_and(3), places.bitwise_right_shift(2)}, -1).to(at::kLong);
    const Tensor pairs = places.view({rows, columns / 8, 2});
    const Tensor bytes = pairs.select(2, 0).bitwise_or(pairs.select(2, 1).bitwise_left_shift(4));
    Tensor result = at::empty({kept + bytes.numel() / input.element_size()}, input.options());
    result.narrow(0, 0, kept).copy_(fours.gather(-1, index).view(-1));
    result.narrow(0, kept, result.numel() - kept).view(at::kByte).copy_(bytes.view(-1));
    return result.view({rows, -1});
}

Tensor cslt_expand(const Tensor& compressed, std::int64_t columns)
{
    const Tensor flat = compressed.contiguous().view(-1);
    const std::int64_t each = columns / 2 + columns / 8 / flat.element_size();
    TORCH_CHECK(columns % 16 == 0 && flat.numel() % each == 0, "_cslt_sparse_mm: dense_B has ", columns,
                " rows, which compressed_A of ", flat.numel(), " elements has not been made for");
    const std::int64_t rows = flat.numel() / each, kept = rows * columns / 2;
    return expanded(flat.narrow(0, 0, kept).view({rows, -1}),
                    nibbles(flat.narrow(0, kept, flat.numel() - kept).view(at::kByte).view({rows, -1})));
}

Tensor cslt_sparse_mm(const Tensor& compressed, const Tensor& dense, const OptionalTensor& bias,
                      const OptionalTensor& alpha, std::optional<at::ScalarType> out_dtype, bool transpose_result,
                      std::int64_t, std::int64_t, std::int64_t)
{
    TORCH_CHECK(dense.dim() == 2 && dense.scalar_type() == compressed.scalar_type() &&
                    is_compressible(dense.scalar_type()),
                "_cslt_sparse_mm: expected dense_B to be a matrix of compressed_A's dtype, float16, bfloat16, int8 or "
                "float8_e4m3fn, got ", dense.sizes(), " of ", dense.scalar_type());
    const c10::OptionalDeviceGuard guard(dense.device());
    const Tensor y = product(cslt_expand(compressed, dense.size(0)), dense, bias, alpha, out_dtype);
    return transpose_result ? y.t().contiguous() : y;
}

// One way to compute it: there is nothing to search.
std::int64_t cslt_sparse_mm_search(const Tensor&, const Tensor&, const OptionalTensor&, const OptionalTensor&,
                                   std::optional<at::ScalarType>, bool)
{
    return 0;
}

// ---- values and places apart, the places in the order in which CUTLASS keeps them ----

// Where CUTLASS keeps the words of places: rows are interleaved in groups, blocks of two by two words are swizzled, and
// pairs of columns lie one behind the other (ColumnMajorInterleaved<2>).
Tensor kept_at(const Tensor& words)
{
    const std::int64_t rows = words.size(0), half = words.element_size() == 2 ? 4 : 2, group = half * 8;
    const auto options = words.options().dtype(at::kLong);
    const Tensor row = at::arange(rows, options), column = at::arange(words.size(1), options);
    const Tensor mixed = row - row.remainder(group) + row.remainder(8) * half +
                         row.remainder(group).floor_divide(8);
    const Tensor odd_row = mixed.remainder(2).unsqueeze(1), odd_column = column.remainder(2);
    const Tensor shift = odd_column - odd_row;   // 1 above right, -1 below left: these two change places
    const Tensor to_row = mixed.unsqueeze(1) + shift, to_column = column - shift;
    return (to_column - to_column.remainder(2)) * rows + to_row * 2 + to_column.remainder(2);
}

Tensor cutlass_expand(const char* name, const Tensor& values, const Tensor& meta)
{
    const std::int64_t pair = values.scalar_type() == at::kFloat ? 1 : 2;   // stored elements for four bits
    TORCH_CHECK(values.dim() == 2 && meta.dim() == 2 && values.size(0) == meta.size(0) &&
                    (meta.scalar_type() == at::kShort || meta.scalar_type() == at::kInt) &&
                    values.size(1) == meta.size(1) * meta.element_size() * 2 * pair,
                name, ": expected the elements of a 2:4 matrix, and as many rows of their places in int16 or int32, "
                "got ", values.sizes(), " and ", meta.sizes());
    const Tensor words = meta.reshape(-1).gather(0, kept_at(meta).view(-1)).view(meta.sizes());
    return expanded(values, nibbles(words.view(at::kByte)));
}

Tensor semi_structured_mm(const Tensor& values, const Tensor& meta, const Tensor& other,
                          std::optional<at::ScalarType> out_dtype)
{
    const c10::OptionalDeviceGuard guard(values.device());
    return product(cutlass_expand("_sparse_semi_structured_mm", values, meta), other, {}, {}, out_dtype);
}

Tensor semi_structured_addmm(const Tensor& input, const Tensor& values, const Tensor& meta, const Tensor& other,
                             const at::Scalar& alpha, const at::Scalar& beta, std::optional<at::ScalarType> out_dtype)
{
    constexpr const char* name = "_sparse_semi_structured_addmm";
    TORCH_CHECK(input.dim() == 1 && input.size(0) == values.size(0), name, ": expected input of ", values.size(0),
                " elements, got ", input.sizes());
    const c10::OptionalDeviceGuard guard(values.device());
    const Tensor dense = cutlass_expand(name, values, meta);
    if (alpha.equal(1) && beta.equal(1))
        return product(dense, other, input, {}, out_dtype);
    return product(dense, other, {}, {}, out_dtype) * alpha + input.unsqueeze(1) * beta;
}

Tensor semi_structured_linear(const Tensor& input, const Tensor& weight, const Tensor& meta, const OptionalTensor& bias,
                              std::optional<std::string_view> activation, std::optional<at::ScalarType> out_dtype)
{
    constexpr const char* name = "_sparse_semi_structured_linear";
    const std::string_view function = activation.value_or("none");
    TORCH_CHECK(function == "none" || function == "relu" || function == "silu", name,
                ": expected activation none, relu or silu, got ", function);
    const c10::OptionalDeviceGuard guard(weight.device());
    const Tensor rows = input.reshape({-1, input.size(-1)});
    Tensor y = product(cutlass_expand(name, weight, meta), rows.t(), bias, {}, out_dtype).t();
    if (function != "none")
        y = function == "relu" ? at::relu(y) : at::silu(y);
    std::vector<std::int64_t> sizes = input.sizes().vec();
    sizes.back() = weight.size(0);
    return y.reshape(sizes);
}

// ---- pruning in a training step, whose masks are in the order of CUDA's threads ----

void refuse(const c10::OperatorHandle& op, torch::jit::Stack*)
{
    TORCH_CHECK_NOT_IMPLEMENTED(false, op.operator_name().name, ": pruning to 2:4 in a training step is not supported "
                                "on the ocl device; prune with a mask (torch.ao.pruning.WeightNormSparsifier with "
                                "sparse_block_shape (1, 4) and zeros_per_block 2), and convert with "
                                "torch.sparse.to_sparse_semi_structured for inference");
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_cslt_compress", cslt_compress);
    m.impl("_cslt_sparse_mm", cslt_sparse_mm);
    m.impl("_cslt_sparse_mm_search", cslt_sparse_mm_search);
    m.impl("_sparse_semi_structured_mm", semi_structured_mm);
    m.impl("_sparse_semi_structured_addmm", semi_structured_addmm);
    m.impl("_sparse_semi_structured_linear", semi_structured_linear);
    for (const char* name : {"_sparse_semi_structured_tile", "_sparse_semi_structured_apply",
                             "_sparse_semi_structured_apply_dense"})
        m.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse>());
}

}  // namespace
}  // namespace torch_ocl
