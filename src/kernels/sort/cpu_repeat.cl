// Position i stands repeats[i] times in the result, which ends[i] says where: a work-item writes `each` of them.
// -DT, -DOUT: int32 or int64, of ends and result.
#include "core/dtype.cl"

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void repeat(const __global storage_t(T)* ends, ulong ends_offset, __global storage_t(OUT)* out,
                     ulong out_offset, ulong n, ulong each, long length)
{
    const ulong first = get_global_id(0) * each, last = min(first + each, n);
    ends += ends_offset;
    out += out_offset;
    long at = first > 0 ? max((long)ends[first - 1], 0L) : 0;
    for (ulong i = first; i < last; ++i)
        for (const long end = min((long)ends[i], length); at < end; ++at)
            out[at] = i;
}
