// Tables that kernels read beside their operands (roots of unity, where taps lie), in memory of their device.
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

// The table of that name, or what `make` computes on the host, a std::vector of numbers.
template <class Make>
Tensor table_named(Queue& queue, const std::string& name, const Make& make)
{
    if (const Tensor known = KeptTables::find(queue.context(), name); known.defined())
        return known;
    const auto table = make();
    using R = typename decltype(make())::value_type;
    static_assert(std::is_same_v<R, float> || std::is_same_v<R, double> || std::is_same_v<R, std::int32_t>);
    constexpr DataType dtype = std::is_same_v<R, float> ? DataType::float32
                               : std::is_same_v<R, double> ? DataType::float64 : DataType::int32;
    const auto count = static_cast<std::int64_t>(table.size());
    if (KeptTables::has_room(table.size() * sizeof(R)))
        return KeptTables::keep(queue.context(), name, dtype, table.data(), count);
    const Tensor result = queue.context().empty({count}, dtype, queue);
    queue.write(*result.memory, 0, table.data(), table.size() * sizeof(R));
    return result;
}

// What `make` computes from `sizes`.
template <class R, class... Sizes>
Tensor table_of(Queue& queue, std::vector<R> (*make)(Sizes...), std::type_identity_t<Sizes>... sizes)
{
    std::string name = concat(reinterpret_cast<std::uintptr_t>(make));
    ((name += concat(' ', sizes)), ...);
    return table_named(queue, name, [&] { return make(sizes...); });
}

// What `make` computes from a struct of numbers, whose bytes name it.
template <class R, class Key>
Tensor table_of(Queue& queue, std::vector<R> (*make)(const Key&), const Key& key)
{
    static_assert(std::has_unique_object_representations_v<Key>);
    std::string name = concat(reinterpret_cast<std::uintptr_t>(make), ' ');
    name.append(reinterpret_cast<const char*>(&key), sizeof key);
    return table_named(queue, name, [&] { return make(key); });
}

}  // namespace clprim::detail
