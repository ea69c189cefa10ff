// The axis that an index reaches along (index.hpp: IndexedAxis). An index lies in [lowest, size), a negative one counts
// from the end; size < 0: the index is a key, which is an element offset, or negative where a bad index was reported.
typedef struct { long lowest, size, stride; } axis_t;

// The element offset of an index, through `offset`; false, and nothing may be touched, where it is bad.
static inline bool reach(const axis_t axis, long at, __global int* errors, int operator_code, long* offset)
{
    *offset = at * axis.stride;
    if (axis.size < 0)
        return at >= 0;
    if (at < axis.lowest || at >= axis.size) {
        clprim_index_error(errors, operator_code, at, axis.size);
        return false;
    }
    if (at < 0)
        *offset += axis.size * axis.stride;
    return true;
}
