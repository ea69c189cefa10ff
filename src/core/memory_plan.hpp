// Which tensors may take turns in the same memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <clprim/export.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// Bytes that are needed from step `first` to step `last`, both included.
struct MemoryRequest {
    std::size_t bytes = 0;
    int first = 0, last = 0;
};
struct MemoryPlace {
    int arena = 0;
    std::size_t offset = 0;
};
struct MemoryPlan {
    std::vector<MemoryPlace> places;      // of the requests
    std::vector<std::size_t> arenas;      // bytes
};

// Offsets such that requests which overlap in time do not overlap in memory; the largest are placed first, each at the
// lowest offset that is free while it lives ("greedy by size", Pisarchyk and Lee 2020). Where that takes more than is
// alive at once, further orders are tried: by bytes times steps, and with what ended up on top first. Offsets are
// multiples of 512. An arena grows to `limit` bytes at most, or holds one request that is larger by itself.
MemoryPlan plan_memory(const std::vector<MemoryRequest>& requests, std::size_t limit);

// The most bytes, rounded as places are, that are needed at one step: no plan has less.
std::size_t most_alive(const std::vector<MemoryRequest>& requests);

}  // namespace clprim
CLPRIM_API_END
