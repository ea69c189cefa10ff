// Work on many tensors in one launch. A work-group owns PER_GROUP elements of one tensor.
// The table (64-bit words): number of tensors n; the first work-group of each tensor, n words; then per tensor its
// number of elements, its scalar (raw bits of `real`) and, per list, buffer << 56 | offset in elements. -DT=dtype
// -DLISTS=n
#include "core/dtype.cl"

#ifdef CLPRIM_DEVICE_CPU   // a vector, which walks through memory as it lies
#define GROUP 16
#define PER_GROUP (GROUP * 256)
#else
#define GROUP 64
#define PER_GROUP (GROUP * 16)
#endif

#ifdef WIDE
typedef double real;
#define SCALAR(word) as_double(word)
#else
typedef float real;
#define SCALAR(word) as_float((uint)(word))
#endif

#define BUFFER_PARAMETERS                                                                                              \
    __global uchar *b0, __global uchar *b1, __global uchar *b2, __global uchar *b3, __global uchar *b4,                \
        __global uchar *b5, __global uchar *b6, __global uchar *b7, __global uchar *b8, __global uchar *b9,            \
        __global uchar *b10, __global uchar *b11, __global uchar *b12, __global uchar *b13, __global uchar *b14,       \
        __global uchar *b15
#define BUFFERS b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, b15

static inline __global uchar* buffer_of(ulong word, BUFFER_PARAMETERS)
{
    switch ((uint)(word >> 56)) {
    case 0: return b0;
    case 1: return b1;
    case 2: return b2;
    case 3: return b3;
    case 4: return b4;
    case 5: return b5;
    case 6: return b6;
    case 7: return b7;
    case 8: return b8;
    case 9: return b9;
    case 10: return b10;
    case 11: return b11;
    case 12: return b12;
    case 13: return b13;
    case 14: return b14;
    default: return b15;
    }
}

// The entry of the tensor that work-group `group` belongs to; *first becomes the group's first element.
static inline const __global ulong* entry_of(const __global ulong* table, ulong group, ulong* first)
{
    ulong n = table[0], low = 0, high = n;
    while (high - low > 1) {
        ulong middle = (low + high) / 2;
        if (table[1 + middle] <= group)
            low = middle;
        else
            high = middle;
    }
    *first = (group - table[1 + low]) * PER_GROUP;
    return table + 1 + n + low * (2 + LISTS);
}

#define TABLE_PARAMETERS const __global ulong *table, ulong table_offset, BUFFER_PARAMETERS
#define FIND_TENSOR                                                                                                    \
    ulong first;                                                                                                       \
    const __global ulong* entry = entry_of(table + table_offset, get_group_id(0), &first);                             \
    const ulong end = min(first + PER_GROUP, entry[0]);
#define OPERAND(type, list)                                                                                            \
    ((__global type*)buffer_of(entry[2 + (list)], BUFFERS) + (entry[2 + (list)] & 0x00FFFFFFFFFFFFFFul))
#define EACH_ELEMENT(i) for (ulong i = first + get_local_id(0); i < end; i += GROUP)
