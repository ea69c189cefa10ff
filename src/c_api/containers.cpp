// Sequences and maps: what lies in a handle that is no tensor.
#include "c_api/handles.hpp"

using namespace clprim;
using namespace clprim::c_api;

namespace {

// Which is one of the names of clprim_kind, in the order of their numbers.
const char* kind_name(clprim_kind kind)
{
    constexpr const char* names[] = {"nothing", "a tensor", "a sequence", "a map"};
    return names[kind];
}

const Value& value_of(const clprim_tensor* handle, const char* name, clprim_kind kind)
{
    require_given(handle, name, kind_name(kind));
    const clprim_kind given = clprim_tensor_kind(handle);
    require(given == kind, name, " holds ", kind_name(given), "; expected ", kind_name(kind));
    return handle->value;
}

void give(clprim_tensor** target, const clprim_tensor& from, const Value& part)
{
    *target = new clprim_tensor{part, from.queue};
}

}  // namespace

extern "C" {

clprim_kind clprim_tensor_kind(const clprim_tensor* tensor)
{
    if (!tensor || tensor->value.is_none())
        return CLPRIM_KIND_NONE;
    return tensor->value.is_sequence() ? CLPRIM_KIND_SEQUENCE
           : tensor->value.is_map()    ? CLPRIM_KIND_MAP
                                       : CLPRIM_KIND_TENSOR;
}

size_t clprim_sequence_size(const clprim_tensor* sequence)
{
    return clprim_tensor_kind(sequence) == CLPRIM_KIND_SEQUENCE ? sequence->value.items().size() : 0;
}

clprim_status clprim_sequence_item(const clprim_tensor* sequence, size_t index, clprim_tensor** item)
{
    return guarded(__func__, [&] {
        require_given(item, "item", "where to put the handle");
        const auto& items = value_of(sequence, "sequence", CLPRIM_KIND_SEQUENCE).items();
        require(index < items.size(), "index is ", index, "; the sequence has ", items.size(), " items");
        give(item, *sequence, items[index]);
    });
}

size_t clprim_map_size(const clprim_tensor* map)
{
    return clprim_tensor_kind(map) == CLPRIM_KIND_MAP ? static_cast<size_t>(map->value.keys().numel()) : 0;
}

clprim_status clprim_map_keys(const clprim_tensor* map, clprim_tensor** keys)
{
    return guarded(__func__, [&] {
        require_given(keys, "keys", "where to put the handle");
        const Value& value = value_of(map, "map", CLPRIM_KIND_MAP);
        give(keys, *map, value.keys());
    });
}

clprim_status clprim_map_values(const clprim_tensor* map, clprim_tensor** values)
{
    return guarded(__func__, [&] {
        require_given(values, "values", "where to put the handle");
        const Value& value = value_of(map, "map", CLPRIM_KIND_MAP);
        give(values, *map, value.values());
    });
}

}  // extern "C"
