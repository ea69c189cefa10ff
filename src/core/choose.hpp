// How a heavy operator picks one of its implementations; knows no operator.
//
// An operator keeps an ordered list of `Implementation`s: the best guess for every device first, the reference last.
//
//     using GemmImplementation = Implementation<GemmProblem, const GemmTensors&>;
//     const GemmImplementation list[] = {{"cpu_packed", cpu_packed_rejects, cpu_packed}, ..., {"reference", ...}};
//     choose("gemm", std::span(list), problem, queue, [&](const auto& one) { one.run(queue, problem, scratch); })
//         .run(queue, problem, tensors);
//
// Ordinarily the first one wins that neither rejects the problem nor is advised against, and that costs no more than
// the questions asked. `rejects` is about what an implementation can do; what a cost model expects to be slow is only
// advised against, so that it can be asked for and timed.
//   CLPRIM_TUNE=1             the candidates are timed at first use of a problem, and those near the fastest at other
//                             points of their spaces, which waits for the device. What is found is kept on disk and
//                             used from then on, also without this variable, for as long as the same ones compete; for
//                             problems of the same class (sizes of the same power of two) where nothing is known of
//                             them
//   CLPRIM_IMPLEMENTATION     "gemm=gpu_tiled:tile=64,conv=reference": preferred ones, taken wherever they do not
//                             reject, with parameters; a name that the family does not have is an error
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
#include <clprim/tuning.hpp>
#include <core/parameters.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// Why an implementation cannot solve a problem on a device; nothing if it can.
using Rejection = std::optional<std::string>;

template <class Problem, class... Arguments>
struct Implementation {
    std::string_view name;
    Rejection (*rejects)(const Problem&, const Device&);
    void (*run)(Queue&, const Problem&, Arguments...);
    bool tune = true;   // false: never timed (a reference would make tuning slow)
    Rejection (*advises_against)(const Problem&, const Device&) = nullptr;
    // Its parameters, and how it runs with other values than the usual ones. A point that the problem or the device
    // does not allow throws NotSupported before anything is launched.
    Space (*space)(const Problem&, const Device&) = nullptr;
    void (*run_at)(Queue&, const Problem&, const Point&, Arguments...) = nullptr;
};

struct Candidate {
    std::string_view name;
    Rejection rejection{};
    bool tune = true;
    Rejection advice{};
    Space space{};
};

// A candidate's index and its parameters; none: as usual.
struct Choice {
    std::size_t index = 0;
    Point point{};
};
using Trial = std::function<void(const Choice&)>;

// True unless the environment, prefer_implementation or results of tuning ask for more than the first that does not
// reject.
bool choice_is_plain() noexcept;

// The choice by the rules above. `trial` must run it without touching the caller's outputs. Throws NotSupported, with
// every reason, when all reject; InvalidArgument for a preferred name that the family does not have, or parameters that
// the implementation does not have.
Choice choose_among(std::string_view family, const std::string& problem, std::span<const Candidate> candidates,
                    Queue& queue, const Trial& trial);

// What choose_among answered for this problem before, as long as settings and results of tuning are the same: asking
// all candidates again, for names under which results are kept, takes longer than to enqueue a small product.
std::optional<Choice> remembered_choice(std::string_view family, std::string_view problem, const Device& device);

// After results of tuning have come from elsewhere.
void reconsider_choices();

// As CLPRIM_IMPLEMENTATION, from within the process; an empty name lifts it. For tests.
void prefer_implementation(std::string_view family, std::string_view name);

// An implementation that was chosen.
template <class One>
class Chosen {
public:
    explicit Chosen(const One& one, Point = {}) : one_(&one) {}
    const One* operator->() const { return one_; }

private:
    const One* one_;
};

// With the parameters that it is to run with.
template <class Problem, class... Arguments>
class Chosen<Implementation<Problem, Arguments...>> {
public:
    using One = Implementation<Problem, Arguments...>;
    explicit Chosen(const One& one, Point point = {}) : one_(&one), point_(std::move(point)) {}
    const One* operator->() const { return one_; }

    void run(Queue& queue, const Problem& problem, Arguments... arguments) const
    {
        if (point_.empty())
            one_->run(queue, problem, std::forward<Arguments>(arguments)...);
        else
            one_->run_at(queue, problem, point_, std::forward<Arguments>(arguments)...);
    }

private:
    const One* one_;
    Point point_;
};

// `One` is an Implementation, or a struct with the same members but others in place of those that run it.
template <class One, std::size_t Extent, class Problem, class Trial>
Chosen<One> choose(std::string_view family, std::span<const One, Extent> list, const Problem& problem, Queue& queue,
                   Trial&& trial)
{
    const Device& device = queue.device();
    if (choice_is_plain()) [[likely]]
        for (const One& one : list)
            if (!one.rejects(problem, device) && !(one.advises_against && one.advises_against(problem, device)))
                return Chosen<One>(one);
    const std::string text = describe(problem);
    if (std::optional<Choice> before = remembered_choice(family, text, device))
        if (before->index < list.size() && !list[before->index].rejects(problem, device))
            return Chosen<One>(list[before->index], std::move(before->point));
    std::vector<Candidate> candidates;
    for (const One& one : list) {
        Candidate candidate{one.name, one.rejects(problem, device), one.tune, {}, {}};
        if (!candidate.rejection && one.advises_against)
            candidate.advice = one.advises_against(problem, device);
        if constexpr (requires { one.space; })
            if (!candidate.rejection && one.space)
                candidate.space = one.space(problem, device);
        candidates.push_back(std::move(candidate));
    }
    const auto chosen = [&](const Choice& choice) { return Chosen<One>(list[choice.index], choice.point); };
    return chosen(choose_among(family, text, candidates, queue,
                               [&](const Choice& choice) { trial(chosen(choice)); }));
}

}  // namespace clprim
CLPRIM_API_END
