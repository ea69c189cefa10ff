// The search for the fastest candidate of a family and the best point of its space.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include <core/choose.hpp>

namespace clprim {

struct TuningLimits {
    std::function<double()> clock;   // milliseconds
    double seconds = 10;             // of a problem, after which the best so far is taken
};

struct TuningOutcome {
    std::optional<Choice> best;      // none where nothing ran
    double milliseconds = 0, usual_milliseconds = 0;   // of the best one; of the first candidate as it is
    int tried = 0;
    std::string report;              // " gpu_tiled 1.250 ms, tile=64:slab=16 1.100 ms; clblast failed (...)"
};

// Times every candidate as usual; then those that come within twice the fastest at other points of their spaces: all of
// them where they are few, else some at random and the neighbours of the best for as long as that helps.
TuningOutcome tune_among(std::span<const Candidate> candidates, Queue& queue, const Trial& trial,
                         const TuningLimits& limits);

}  // namespace clprim
