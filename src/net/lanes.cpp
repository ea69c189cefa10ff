// Independent branches of the forward pass on several queues ("lanes"). Order between lanes follows from memory: a step
// waits for the last step of another lane that touches the same bytes, if one of the two writes them. That covers
// values and also memory that the planner gave to one tensor after another.
#include <algorithm>

#include "net/graph.hpp"

namespace clprim {
namespace {

struct Span {
    const Block* block;
    std::size_t begin, end;
    bool written;

    Span(const Tensor& tensor, bool written_)
        : block(tensor.memory.get()), begin(static_cast<std::size_t>(tensor.offset) * size_of(tensor.dtype)),
          end(begin + tensor.nbytes()), written(written_)
    {
    }
    bool conflicts(const Span& other) const
    {
        return block == other.block && (written || other.written) && begin < other.end && other.begin < end;
    }
};

std::vector<Span> spans_of(const NetStep& step)
{
    std::vector<Span> spans;
    for (const Tensor& tensor : step.in)
        spans.emplace_back(tensor, false);
    for (const std::vector<Tensor>* list : {&step.out, &step.saved})
        for (const Tensor& tensor : *list)
            spans.emplace_back(tensor, true);
    for (const Tensor& tensor : step.params)   // running statistics are written
        spans.emplace_back(tensor, !step.saved.empty());
    return spans;
}

}  // namespace

void Net::State::plan_lanes()
{
    queues = {queue};
    if (lanes < 2)
        return;
    while (static_cast<int>(queues.size()) < lanes)
        queues.push_back(&queue->context().new_queue());

    // The first reader of a step's result continues its lane, others open the next one.
    std::vector<int> lane_of(values.size(), -1);
    std::vector<bool> continued(values.size());
    int next = 0;
    for (NetStep& step : steps) {
        step.lane = -1;
        for (const int v : step.inputs)
            if (step.lane < 0 && lane_of[v] >= 0 && !continued[v]) {
                step.lane = lane_of[v];
                continued[v] = true;
            }
        if (step.lane < 0)
            step.lane = next++ % lanes;
        for (const int v : step.outputs)
            lane_of[v] = step.lane;
    }

    std::vector<std::vector<Span>> spans;
    for (const NetStep& step : steps)
        spans.push_back(spans_of(step));
    for (std::size_t i = 0; i < steps.size(); ++i) {
        std::vector<bool> done(static_cast<std::size_t>(lanes));
        done[static_cast<std::size_t>(steps[i].lane)] = true;   // in order by itself
        for (std::size_t j = i; j-- > 0;) {
            if (done[static_cast<std::size_t>(steps[j].lane)])
                continue;
            const bool conflict = std::ranges::any_of(spans[i], [&](const Span& a) {
                return std::ranges::any_of(spans[j], [&](const Span& b) { return a.conflicts(b); });
            });
            if (!conflict)
                continue;
            done[static_cast<std::size_t>(steps[j].lane)] = true;
            steps[i].waits_for.push_back(static_cast<int>(j));
            steps[j].is_waited_for = true;
        }
    }
    for (std::size_t lane = 1; lane < queues.size(); ++lane)
        for (const std::vector<Span>& list : spans)
            for (const Span& span : list)
                queue->context().record_use(*const_cast<Block*>(span.block), *queues[lane]);
}

void Net::State::forward_steps()
{
    const std::uint64_t seed = pass_seed();
    if (queues.size() < 2) {
        for (NetStep& step : steps)
            forward_step(step, *queue, seed);
        return;
    }
    const Event start = queue->record();
    for (std::size_t lane = 1; lane < queues.size(); ++lane)
        queues[lane]->wait_for(start);
    std::vector<Event> done(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
        NetStep& step = steps[i];
        Queue& on = *queues[static_cast<std::size_t>(step.lane)];
        for (const int before : step.waits_for)
            on.wait_for(done[static_cast<std::size_t>(before)]);
        forward_step(step, on, seed);
        if (step.is_waited_for)
            done[i] = on.record();
    }
    for (std::size_t lane = 1; lane < queues.size(); ++lane) {
        queue->wait_for(queues[lane]->record());
        queues[lane]->flush();
    }
}

}  // namespace clprim
