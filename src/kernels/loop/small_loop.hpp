// Loops over small tensors as one launch: a work-group of a CPU does all iterations, with what they compute in local
// memory and a barrier behind every step. Launches, and waits for a condition, are most of what such loops would take.
#pragma once

#include <string>
#include <vector>

#include <clprim/program.hpp>
#include <clprim/queue.hpp>
#include <clprim/tensor.hpp>

namespace clprim {

inline constexpr std::size_t no_value = static_cast<std::size_t>(-1);

// Shapes and dtypes (float32, int64, boolean) are known, memory is not.
struct SmallLoop {
    struct Value {
        enum class Place {
            outside,    // the same in all iterations
            element,    // of a sequence along its first axis, one for each iteration
            carried,    // from one iteration to the next
            computed,   // by a step
            iteration,  // its number, int64
        };
        Place place = Place::computed;
        DataType dtype = DataType::float32;
        Dims shape;
        bool backwards = false;   // of an element: from the sequence's end
    };
    struct Step {
        enum class Kind {
            elementwise,   // code assigns y0 from x0.., which broadcast as trailing axes or one number do
            product,       // [m, k] by [k, n], and a third input [n] that is added
            reduction,     // over the last `inner` elements: code combines sum and x, which begin with `from`
        };
        Kind kind = Kind::elementwise;
        std::vector<std::size_t> inputs;
        std::size_t output = 0;
        std::string code, from;
        std::int64_t inner = 1;
        bool mean = false;
    };
    struct Carried {
        std::size_t value, next;
    };
    struct Scanned {
        std::size_t value;
        bool backwards = false;
    };

    std::vector<Value> values;
    std::vector<Step> steps;               // in order; every computed value is the output of one
    std::vector<Carried> carried;
    std::vector<Scanned> scanned;
    std::size_t condition = no_value;      // a boolean: another iteration?
};

// Whether the device and the loop are such that one launch is right and faster than one for each step.
bool is_small(const SmallLoop& loop, const Device& device);

// A loop's program and the sizes that it is given, made once.
struct SmallLoopProgram {
    SmallLoopProgram(Context& context, SmallLoop loop_);
    SmallLoop loop;
    std::vector<std::int64_t> sizes;
    Kernel* kernel = nullptr;
};

struct SmallLoopTensors {
    std::vector<Tensor> inputs;     // contiguous: by value, those outside, sequences and what carried ones begin with
    std::vector<Tensor> carried;    // results, by SmallLoop::carried
    std::vector<Tensor> scanned;    // results, a first axis of as many iterations
    Tensor condition;               // of the first iteration; undefined: true
    Tensor state;                   // int64 [2]: the iterations done, and whether the condition holds
};

// Iterations [first, end), fewer where a condition ends them. Results of carried values may be what they began with.
void run_small_loop(Queue& queue, const SmallLoopProgram& program, const SmallLoopTensors& tensors, std::int64_t first,
                    std::int64_t end);

}  // namespace clprim
