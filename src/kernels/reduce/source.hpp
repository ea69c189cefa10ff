// What a reduction is while it is prepared, and the text of its program.
#pragma once

#include <clprim/reduce.hpp>

#include <optional>
#include <string>
#include <vector>

#include <kernels/pointwise/iteration.hpp>
#include <kernels/pointwise/source.hpp>

namespace clprim::reduction {

// One launch while it is prepared. Operands are the inputs, then the outputs.
struct Call {
    std::vector<const Tensor*> operands;
    std::size_t inputs = 0;
    bool ordered = false;
    Iteration kept, reduced;
    std::int64_t kept_count = 1, reduced_count = 1;
    int kept_rank = 1, reduced_rank = 1;      // that the kernel is built for
    unsigned lanes = 1;                       // accumulators of each output
    unsigned beside = 1;                      // outputs of a GPU's work-group with several lanes each
    bool across = false;                      // which work-items side by side own, not lanes of one
    unsigned group = 0;                       // work-items of a GPU's work-group, at most
    bool own_lanes = false;                   // one work-item has them all
    std::int64_t short_row = 0;               // as they are folded at its end, for longer rows only
    unsigned columns = 0;                     // or as many outputs side by side
    unsigned rows = 0;                        // or so many short rows, with as many accumulators for each
    std::int64_t longest_row = 0;             // of these
    std::int64_t segments = 1, segment = 0;   // cuts of the reduction, and how long they are
    unsigned unit_reduced = 0, unit_kept = 0; // bit k: operand k moves by 1 along the fastest reduced or kept dimension
    bool wide = false;
    const char* reports = nullptr;            // what errors found by the kernel say
};

// What the text of the program needs beyond the call.
struct TextRequest {
    const char* name;
    ReduceCode code;
    std::vector<Variable> operands;
    std::vector<Number> numbers;
    DataType common;
};

// An upper bound of sizeof(state_t).
std::size_t state_bytes(std::string_view state);

// Whether a CPU's work-item keeps accumulators side by side (cpu_reduce.cl), which compilers put into vectors: few
// numbers each, declared as `TYPE NAME, NAME;`, and no function that has a form in vectors for work-items alone.
bool fits_lanes(const ReduceCode& code);

// How many rows may be folded side by side (cpu_reduce_rows.cl): as many as a vector has of the widest of one or two
// numbers. 0 where none may.
unsigned rows_together(const ReduceCode& code, DataType common);

std::string program_text(const Call& call, const TextRequest& request);

}  // namespace clprim::reduction
