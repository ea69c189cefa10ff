// Iteration spaces with several strided operands, collapsed to as few dimensions as their strides allow.
//
// All operands have one shape (broadcast operands have stride 0). Which dimension is innermost follows the strides of
// the first operand, so a kernel that treats positions alike walks memory in order, whatever the layout. A kernel file
// includes "kernels/index/geometry.cl", takes `geometry_t g` and asks geometry_offsets() for the offsets of a position.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <clprim/queue.hpp>

namespace clprim {

class Geometry {
public:
    // The common iteration space of operands of equal shape. Throws InvalidArgument if the shapes differ.
    // `keep_order` keeps row-major order of positions (for kernels whose result depends on it).
    Geometry(std::span<const Tensor* const> operands, bool keep_order = false);
    Geometry(std::initializer_list<const Tensor*> operands, bool keep_order = false)
        : Geometry(std::span<const Tensor* const>(operands.begin(), operands.size()), keep_order) {}

    // The same with explicit strides per operand (in elements, outermost first, any sign).
    Geometry(const Dims& shape, std::span<const Dims> strides, bool keep_order = false);

    std::int64_t numel() const { return numel_; }   // work-items, once positions are shared
    int dims() const { return static_cast<int>(sizes_.size()); }
    std::int64_t size(int d) const { return sizes_[d]; }                        // innermost first
    std::int64_t stride(int operand, int d) const { return strides_[operand][d]; }
    bool dense(int operand) const { return dims() <= 1 && (numel_ <= 1 || strides_[operand][0] == 1); }

    // Build options and the matching kernel argument.
    std::string options() const;
    void set_argument(Launch& launch) const;

    // Splits `factor` equal elements off into one wider element: for moves of plain bytes. Returns false, and changes
    // nothing, unless every operand of `wide` (a bit mask) walks the innermost dimension densely and all else divides;
    // the other operands must not move along it.
    bool widen(int factor, unsigned wide);

    // Gives each work-item `each` positions along one dimension instead of one, since finding out where takes a GPU as
    // long as moving several (EACH in geometry.cl). They lie apart, so that neighbouring work-items keep neighbouring
    // positions. Where there is a choice the last operand does not move between them: then last_is_still().
    void share(int each);
    // The same with neighbours along the innermost dimension, where all operands of `dense` walk it densely and their
    // rows begin at multiples of `each`, so that a kernel moves them as a vector. Changes nothing where that is not so.
    bool share_neighbours(int each, unsigned dense);
    bool last_is_still() const { return !steps_.empty() && steps_.back() == 0; }

private:
    void collapse(Dims shape, std::vector<Dims> strides, bool keep_order);
    int shared_dimension(int each) const;
    int padded_dims() const;
    bool large() const;

    std::int64_t numel_ = 1;
    std::vector<std::int64_t> sizes_;
    std::vector<std::vector<std::int64_t>> strides_;
    std::int64_t each_ = 1, apart_ = 0, end_ = 0;   // end_: positions before they were shared, 0 where all have `each`
    std::vector<std::int64_t> steps_;
};

}  // namespace clprim
