// Bytes from one place to another on CPUs, a run of lines of the cache in the target for each work-item. With STREAM
// lines are written past the cache, which fetches none of them first.
typedef uint16 __attribute__((aligned(1))) anywhere_t;
#define LINE ((ulong)sizeof(uint16))

#ifdef STREAM
#define STORE(line, to) __builtin_nontemporal_store(line, to)
#else
#define STORE(line, to) (*(to) = (line))
#endif

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void copy_bytes(const __global uchar* source, ulong source_offset, __global uchar* target, ulong target_offset,
                         ulong count, ulong each)
{
    source += source_offset;
    target += target_offset;
    const ulong before = min(count, (LINE - (ulong)target % LINE) % LINE), lines = (count - before) / LINE;
    const ulong first = get_global_id(0) * each, last = min(first + each, lines);
    const __global anywhere_t* from = (const __global anywhere_t*)(source + before);
    __global uint16* to = (__global uint16*)(target + before);
    #pragma unroll 4
    for (ulong i = first; i < last; ++i)
        STORE(from[i], to + i);
    if (first == 0) {
        for (ulong k = 0; k < before; ++k)
            target[k] = source[k];
        for (ulong k = before + lines * LINE; k < count; ++k)
            target[k] = source[k];
    }
}
