// What the registrations of linear algebra share.
#pragma once

#include <array>

#include <ATen/TensorUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <c10/util/accumulate.h>

#include <ops/outputs.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {

// Matrices [..., m, n] as a new contiguous [batch, m, n], without lazy conjugation: for a factorisation to overwrite.
inline at::Tensor work_copy(const at::Tensor& a)
{
    const int64_t batch = c10::multiply_integers(a.sizes().slice(0, a.dim() - 2));
    at::Tensor result = torch_ocl::empty(a.sizes(), a.scalar_type(), a.device());
    result.copy_(a);
    return result.view({batch, a.size(-2), a.size(-1)});
}

// Such a copy of matrices that broadcast to a batch.
inline at::Tensor work_copy(const at::Tensor& a, at::IntArrayRef batch)
{
    std::vector<int64_t> sizes = batch.vec();
    sizes.insert(sizes.end(), {a.size(-2), a.size(-1)});
    return work_copy(a.expand(sizes));
}

// Matrices [..., m, n] that broadcast to a batch as [batch, m, n] for kernels that take any strides: a view where there
// is one, without lazy conjugation.
inline at::Tensor as_batch(const at::Tensor& a, at::IntArrayRef batch)
{
    const at::Tensor plain = a.resolve_conj().resolve_neg();
    if (batch.size() == 1 && plain.dim() == 3 && plain.size(0) == batch[0])
        return plain;
    if (batch.empty())
        return plain.unsqueeze(0);
    std::vector<int64_t> sizes = batch.vec();
    sizes.insert(sizes.end(), {a.size(-2), a.size(-1)});
    return plain.expand(sizes).reshape({c10::multiply_integers(batch), a.size(-2), a.size(-1)});
}

// Such a view of an output, or memory of its own that finish() copies.
class BatchOutput {
public:
    explicit BatchOutput(const at::Tensor& out) : out_(out)
    {
        const int64_t batch = c10::multiply_integers(out.sizes().slice(0, out.dim() - 2));
        const std::array<int64_t, 3> sizes{batch, out.size(-2), out.size(-1)};
        if (const auto strides = at::detail::computeStride(out.sizes(), out.strides(), sizes);
            strides && !out.is_conj() && !out.is_neg()) {
            matrices_ = out.as_strided(sizes, *strides, out.storage_offset());
            return;
        }
        copied_ = true;
        matrices_ = torch_ocl::empty(sizes, out.scalar_type(), out.device());
    }
    const at::Tensor& matrices() const { return matrices_; }
    void finish() const
    {
        if (copied_)
            out_.copy_(matrices_.view(out_.sizes()));
    }

private:
    at::Tensor out_, matrices_;
    bool copied_ = false;
};

// A new tensor of matrices whose columns lie together.
inline at::Tensor empty_columns(at::IntArrayRef batch, int64_t rows, int64_t columns, const at::Tensor& like)
{
    std::vector<int64_t> sizes = batch.vec();
    sizes.insert(sizes.end(), {columns, rows});
    return torch_ocl::empty(sizes, like.scalar_type(), like.device()).mT();
}

inline at::IntArrayRef batch_sizes(const at::Tensor& a) { return a.sizes().slice(0, a.dim() - 2); }

// Where the CPU refuses dtypes before it looks whether there is anything to compute.
inline void require_kernel(const at::Tensor& a, const char* name)
{
    const at::ScalarType type = a.scalar_type();
    TORCH_CHECK_NOT_IMPLEMENTED(type == at::kFloat || type == at::kDouble || type == at::kComplexFloat ||
                                    type == at::kComplexDouble, '"', name, "\" not implemented for '", type, "'");
}

// PyTorch promises an error for matrices that are not finite: `found`, [batch, n], is NaN for them. This waits for the
// device.
inline void require_finite(const at::Tensor& found, const char* name, int64_t code, bool single)
{
    if (found.numel() != 0)
        at::_linalg_check_errors(found.isnan().any(-1).mul(code).to(at::kInt), name, single);
}

// A work copy with the sizes of `out`, written to it.
inline void deliver(const at::Tensor& work, const at::Tensor& out) { out.copy_(work.view(out.sizes())); }

// An output as [batch, ...] to write into: itself where it lies without gaps, else memory of its own, which settle()
// copies.
inline at::Tensor in_place_of(const at::Tensor& out, at::IntArrayRef sizes)
{
    return out.is_contiguous() ? out.view(sizes) : torch_ocl::empty(sizes, out.scalar_type(), out.device());
}
inline void settle(const at::Tensor& written, const at::Tensor& out)
{
    if (!out.is_contiguous())
        deliver(written, out);
}

inline at::Tensor empty_like_batch(const at::Tensor& work, at::IntArrayRef rest, at::ScalarType type)
{
    std::vector<int64_t> sizes{work.size(0)};
    sizes.insert(sizes.end(), rest.begin(), rest.end());
    return torch_ocl::empty(sizes, type, work.device());
}

inline at::Tensor& assign(at::Tensor& out, const at::Tensor& value) { return assign_output(out, value); }

}  // namespace torch_ocl
