// A result in the memory layout that a kernel asks for.
#pragma once

#include <ATen/ops/empty_like.h>

namespace torch_ocl {

// `tensor()` is what to write: the caller's `out` where it already is dense in `format`, else a stand-in that finish()
// copies back.
class Output {
public:
    Output(const at::Tensor& out, at::MemoryFormat format = at::MemoryFormat::Contiguous)
        : out_(out), written_(out.is_contiguous(format) ? out : at::empty_like(out, out.options(), format)) {}

    const at::Tensor& tensor() const { return written_; }
    void finish() const
    {
        if (!written_.is_same(out_))
            out_.copy_(written_);
    }

private:
    at::Tensor out_, written_;
};

}  // namespace torch_ocl
