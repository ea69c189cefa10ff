// Tables that kernels of Fourier transforms read, in memory of their device.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include <clprim/error_hook.hpp>
#include <clprim/queue.hpp>

namespace clprim::detail {

// Tables that a process has made: programs ask for few lengths. They are buffers of their own that are complete before
// any queue sees them and stay for good, since recordings may hold them; beyond a bound none is kept.
class KeptTables {
public:
    // None if there is none.
    static Tensor find(const Context& context, const std::string& name);
    static bool has_room(std::size_t bytes);
    static Tensor keep(Context& context, const std::string& name, DataType dtype, const void* data, std::int64_t count);
};

// What `make` computes on the host from `sizes`.
template <class R, class... Sizes>
Tensor table_of(Queue& queue, std::vector<R> (*make)(Sizes...), std::type_identity_t<Sizes>... sizes)
{
    std::string name = concat(reinterpret_cast<std::uintptr_t>(make));
    ((name += concat(' ', sizes)), ...);
    if (const Tensor known = KeptTables::find(queue.context(), name); known.defined())
        return known;
    const std::vector<R> table = make(sizes...);
    const auto count = static_cast<std::int64_t>(table.size());
    const DataType dtype = sizeof(R) == 8 ? DataType::float64 : DataType::float32;
    if (KeptTables::has_room(table.size() * sizeof(R)))
        return KeptTables::keep(queue.context(), name, dtype, table.data(), count);
    const Tensor result = queue.context().empty({count}, dtype, queue);
    queue.write(*result.memory, 0, table.data(), table.size() * sizeof(R));
    return result;
}

}  // namespace clprim::detail
