// How a heavy operator picks one of its implementations; knows no operator.
//
// An operator keeps an ordered list of `Implementation`s: the best guess for every device first, the reference last.
//
//     using GemmImplementation = Implementation<GemmProblem, const GemmTensors&>;
//     const GemmImplementation list[] = {{"cpu_packed", cpu_packed_rejects, cpu_packed}, ..., {"reference", ...}};
//     const auto& chosen = choose("gemm", std::span(list), problem, queue,
//                                 [&](const auto& one) { ...run on scratch... });
//     chosen.run(queue, problem, tensors);
//
// Ordinarily the first one wins that neither rejects the problem nor is advised against, and that costs no more than
// the questions asked. `rejects` is about what an implementation can do; what a cost model expects to be slow is only
// advised against, so that it can be asked for and timed.
//   CLPRIM_TUNE=1             the candidates are timed at first use of a problem, which waits for the device; the
//                             fastest one is kept on disk, for as long as the same ones compete
//   CLPRIM_IMPLEMENTATION     "gemm=gpu_tiled,conv=reference": preferred ones, taken wherever they do not reject; a
//   name
//                             that the family does not have is an error
//   CLPRIM_VERBOSE=1          prints each problem, what was chosen, what rejected it and why
// The problem type has `std::string describe(const Problem&)`, found by argument-dependent look-up: all that decides
// speed, in one line. It is the key of the tuning result and what CLPRIM_VERBOSE prints.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <clprim/queue.hpp>

namespace clprim CLPRIM_API {

// Why an implementation cannot solve a problem on a device; nothing if it can.
using Rejection = std::optional<std::string>;

template <class Problem, class... Arguments>
struct Implementation {
    std::string_view name;
    Rejection (*rejects)(const Problem&, const Device&);
    void (*run)(Queue&, const Problem&, Arguments...);
    bool tune = true;   // false: never timed (a reference would make tuning slow)
    Rejection (*advises_against)(const Problem&, const Device&) = nullptr;
};

struct Candidate {
    std::string_view name;
    Rejection rejection{};
    bool tune = true;
    Rejection advice{};
};

// True unless the environment or prefer_implementation asks for more than the first that does not reject.
bool choice_is_plain() noexcept;

// The index of the chosen candidate, by the rules above. `trial(i)` must run candidate i without touching the caller's
// outputs. Throws NotSupported, with every reason, when all reject; InvalidArgument for a preferred name that the
// family does not have.
std::size_t choose_among(std::string_view family, const std::string& problem, std::span<const Candidate> candidates,
                         Queue& queue, const std::function<void(std::size_t)>& trial);

// As CLPRIM_TUNE, from within the process. For tests, which also bring a clock of their own (milliseconds).
void tune_choices(bool on, std::function<double()> clock = {});

// As CLPRIM_IMPLEMENTATION, from within the process; an empty name lifts it. For tests.
void prefer_implementation(std::string_view family, std::string_view name);

// `One` is an Implementation, or a struct with the same members but others in place of `run`.
template <class One, std::size_t Extent, class Problem, class Trial>
const One& choose(std::string_view family, std::span<const One, Extent> list, const Problem& problem, Queue& queue,
                  Trial&& trial)
{
    const Device& device = queue.device();
    if (choice_is_plain()) [[likely]]
        for (const One& one : list)
            if (!one.rejects(problem, device) && !(one.advises_against && one.advises_against(problem, device)))
                return one;
    std::vector<Candidate> candidates;
    for (const One& one : list) {
        Candidate candidate{one.name, one.rejects(problem, device), one.tune, {}};
        if (!candidate.rejection && one.advises_against)
            candidate.advice = one.advises_against(problem, device);
        candidates.push_back(std::move(candidate));
    }
    return list[choose_among(family, describe(problem), candidates, queue, [&](std::size_t i) { trial(list[i]); })];
}

}  // namespace clprim
