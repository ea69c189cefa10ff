// Bytes from one place to another on CPUs, a work-item for each line of the cache in the target. With STREAM lines are
// written past the cache, which fetches none of them first.
typedef uint16 __attribute__((aligned(1))) anywhere_t;
#define LINE ((ulong)sizeof(uint16))

#ifdef STREAM
#define STORE(line, to) __builtin_nontemporal_store(line, to)
#else
#define STORE(line, to) (*(to) = (line))
#endif

// The hint has a compiler leave a work-item's vectors as they are.
__kernel __attribute__((vec_type_hint(uint16)))
void copy_bytes(const __global uchar* source, ulong source_offset, __global uchar* target, ulong target_offset,
                ulong count)
{
    source += source_offset;
    target += target_offset;
    const ulong before = min(count, (LINE - (ulong)target % LINE) % LINE), lines = (count - before) / LINE;
    const size_t i = get_global_id(0);
    const ulong at = before + i * LINE;
    if (i < lines)
        STORE(*(const __global anywhere_t*)(source + at), (__global uint16*)(target + at));
    if (i == 0) {
        for (ulong k = 0; k < before; ++k)
            target[k] = source[k];
        for (ulong k = before + lines * LINE; k < count; ++k)
            target[k] = source[k];
    }
}
