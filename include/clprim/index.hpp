// Reading and writing through index tensors (int64 or int32).
//
// An index lies in [-n, n) for an axis of n elements and negative ones count from the end, or with
// NegativeIndex::refused in [0, n). An index outside is found by the kernel, which touches nothing through it: the next
// synchronisation of the queue throws IndexError naming the operator.
// All functions take any strides. Reductions are owner-computes, without atomics: the same bits in every run, and
// updates of one element happen in the order of the index.
#pragma once

#include <string_view>

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

enum class IndexReduce { assign, sum, product, minimum, maximum };
enum class NegativeIndex { from_end, refused };

// The axis that an index reaches along; a plain number does.
struct Along {
    std::size_t axis;
    NegativeIndex negative = NegativeIndex::from_end;
    std::string_view name = {};   // of the operator, for errors; empty: of the function

    Along(std::size_t axis_) : axis(axis_) {}
    Along(std::size_t axis_, NegativeIndex negative_, std::string_view name_ = {})
        : axis(axis_), negative(negative_), name(name_)
    {
    }
};

// out[..., j, ...] = input[..., index[j], ...] along the axis; index has one dimension.
void index_select(Queue& queue, const Tensor& input, const Along& along, const Tensor& index, const Tensor& out);

// out[i][j][k] = input[i][index[i][j][k]][k] for axis 1 of 3, and so on. Index and out have one shape, which may be
// smaller than the input's save along the axis.
void gather(Queue& queue, const Tensor& input, const Along& along, const Tensor& index, const Tensor& out);

// self[i][index[i][j][k]][k] = source[i][j][k] for axis 1 of 3, and so on. Where an index comes twice, one of its
// sources wins (with scatter_reduce and IndexReduce::assign: the last).
void scatter(Queue& queue, const Tensor& self, const Along& along, const Tensor& index, const Tensor& source);

// The same, but combining with what is there.
void scatter_reduce(Queue& queue, const Tensor& self, const Along& along, const Tensor& index, const Tensor& source,
                    IndexReduce reduce);

// self[..., index[j], ...] = source[..., j, ...], or combined with what is there; index has one dimension.
void index_copy(Queue& queue, const Tensor& self, const Along& along, const Tensor& index, const Tensor& source);
void index_reduce(Queue& queue, const Tensor& self, const Along& along, const Tensor& index, const Tensor& source,
                  IndexReduce reduce);

// The general form, which all of the above are. All tensors have one shape, the iteration space; the tensor that the
// index reaches into has stride 0 where only the index moves it.
inline constexpr std::int64_t index_is_key = -1;

struct IndexedAxis {
    std::string_view name;       // of the operator, for errors
    Tensor index;
    std::int64_t size = 0;       // extent of the indexed axis, or index_is_key (see add_keys)
    std::int64_t stride = 1;     // of the indexed axis, in elements; for reads and writes by key: of keys
    NegativeIndex negative = NegativeIndex::from_end;
};
void read_through(Queue& queue, const Tensor& source, const IndexedAxis& axis, const Tensor& out);
void write_through(Queue& queue, const Tensor& self, const IndexedAxis& axis, const Tensor& source);
// Here the last dimension counts the updates of a line, which happen in order.
void reduce_through(Queue& queue, const Tensor& self, const IndexedAxis& axis, const Tensor& source,
                    IndexReduce reduce);

// Keys of an index made of several tensors: keys[p] += wrapped index[p] * stride, or -1 once any index was bad (which
// is reported once). `first` starts new keys, of dtype int64. Strides may count runs of elements, which move faster;
// then the length of a run is the stride of the axis that the keys reach along.
void add_keys(Queue& queue, const Tensor& keys, const IndexedAxis& axis, bool first);
// New keys of two tensors, in one launch on CPUs.
void add_keys(Queue& queue, const Tensor& keys, const IndexedAxis& first, const IndexedAxis& second);

enum class BagMode { sum, mean, maximum };

// Bag b has the samples offsets[b] .. offsets[b + 1], the last one without an offset behind it all that are left.
struct EmbeddingBags {
    Tensor index, offsets;       // [samples], [bags] or [bags + 1]; int64 or int32
    Tensor weights = {};         // of samples [samples], for sums; or undefined
    BagMode mode = BagMode::sum;
    std::int64_t padding = -1;   // an index whose samples are left out; negative: none
    Tensor result;               // [bags, width], of the table's dtype
    Tensor sizes;                // [bags], int64 or int32: samples that were not left out
    Tensor places = {};          // [bags, width], for maxima: which row each comes from, the first of equals, or -1
};

// Rows of a table [rows, width] of floating-point dtype, combined bag by bag (torch.nn.functional.embedding_bag), in
// float or double and in the order of samples; empty bags are 0. Negative indices are refused.
void embedding_bag(Queue& queue, const Tensor& table, const EmbeddingBags& bags);

// self[p] = value[p] where mask[p] (boolean) is set. One shape; broadcast operands have stride 0.
void masked_fill(Queue& queue, const Tensor& self, const Tensor& mask, const Tensor& value);

}  // namespace clprim
CLPRIM_API_END
