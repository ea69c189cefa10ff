// What an elementwise launch is made of before its kernel is chosen: operands, loops, and how operands move.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <clprim/queue.hpp>
#include <kernels/pointwise/iteration.hpp>
#include <kernels/pointwise/source.hpp>

namespace clprim {

enum class PointwiseVariant : unsigned { linear, rows, strided, general };

// One launch of an elementwise kernel while it is prepared: operands in kernel order (inputs, then outputs) and how
// they move.
struct PointwiseCall {
    Iteration loops;
    int inputs = 0, count = 0;                 // operands: inputs, then outputs
    std::array<Step, max_operands> step;
    std::array<const Tensor*, max_operands> tensor;   // null: a number
    std::array<DataType, max_operands> dtype;
    std::array<DataType, max_operands> type;   // of the variable
    bool heavy = false;                        // long series for each element: four at once would only be code
    PointwiseVariant variant = PointwiseVariant::linear;
    int rank = 0;                              // of the geometry that the kernel gets
    bool wide = false;
    bool quads = false;                        // dense operands are read and written four elements at a time
    bool fours = false;                        // a GPU's work-item computes four elements, a work-group apart
    const char* reports = nullptr;             // the name that errors found by the kernel get

    // Quads of a work-item: two, whose reads are on their way together, where that leaves enough work-items.
    int quads_of_item() const { return variant == PointwiseVariant::linear ? 2 : 1; }

    void add(const Tensor* t, DataType dt, DataType variable_type)
    {
        require(count < max_operands, "a pointwise kernel takes at most ", max_operands, " operands");
        tensor[count] = t;
        dtype[count] = dt;
        type[count++] = variable_type;
    }
};

// Loops over the outputs' shape, the variant of the kernel, and how each operand moves along the fastest dimension.
// Throws InvalidArgument where an input does not broadcast or outputs have different shapes.
void plan(PointwiseCall& call, const Device& device);

// On CPUs, copies of inputs that lie in another order than the outputs, in the outputs' order, where the kernel runs
// along vectors then; the call reads them instead. A copy transposes tiles in registers, the kernel would gather each
// element by itself: 4 to 10 times as long from 8192 elements on. Holds them while the call is enqueued.
class DenseCopies {
public:
    DenseCopies(Queue& queue, PointwiseCall& call);
    DenseCopies(const DenseCopies&) = delete;
    DenseCopies& operator=(const DenseCopies&) = delete;

private:
    std::vector<Tensor> copies_;
};

}  // namespace clprim
