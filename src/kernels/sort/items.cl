// Items: what sorting compares. The order-preserving key of an element with its position in the row below it.
//   types of up to 32 bits: ulong, key in the upper half;   64-bit types (-DWIDE): ulong2, (key, position).
// -DDESCENDING turns the order round, keeping it stable.
#ifdef WIDE
typedef ulong2 item_t;
#define PADDING ((item_t)(ULONG_MAX, ULONG_MAX))
#define POSITION(item) ((item).y)
static inline bool before(item_t a, item_t b) { return a.x < b.x || (a.x == b.x && a.y < b.y); }
#else
typedef ulong item_t;
#define PADDING ULONG_MAX
#define POSITION(item) ((item) & 0xFFFFFFFFul)
static inline bool before(item_t a, item_t b) { return a < b; }
#endif
#define IS_PADDING(item) (POSITION(item) == POSITION(PADDING))

#ifdef T
#if defined(KEY_float)         // also of float16 and bfloat16; all NaNs are one, and the two zeros
static inline uint key_of(float v)
{
    uint bits = v == 0 ? 0u : as_uint(v);
    return isnan(v) ? 0xFFFFFFFFu : bits >> 31 ? ~bits : bits | 0x80000000u;
}
#elif defined(KEY_double)
static inline ulong key_of(double v)
{
    ulong bits = v == 0 ? 0ul : as_ulong(v);
    return isnan(v) ? ULONG_MAX : bits >> 63 ? ~bits : bits | 0x8000000000000000ul;
}
#elif defined(KEY_long)
static inline ulong key_of(long v) { return (ulong)v ^ 0x8000000000000000ul; }
#elif defined(KEY_ulong)
static inline ulong key_of(ulong v) { return v; }
#elif defined(KEY_int)
static inline uint key_of(int v) { return (uint)v ^ 0x80000000u; }
#else
static inline uint key_of(uint v) { return v; }
#endif

static inline item_t item_of(compute_t(T) v, ulong position)
{
#ifdef WIDE
    ulong key = key_of(v);
#else
    uint key = key_of(v);
#endif
#ifdef DESCENDING
    key = ~key;
#endif
#ifdef WIDE
    return (item_t)(key, position);
#else
    return (item_t)key << 32 | position;
#endif
}

// What kernels take and give: elements of rows or, with -DFROM_ITEMS, items; values and positions or, with -DTO_ITEMS,
// items.
#ifdef FROM_ITEMS
#define ITEMS_TAKEN , const __global item_t *items, ulong items_offset
#else
#define ITEMS_TAKEN
#endif
#ifdef TO_ITEMS
#define GIVEN , __global item_t *kept, ulong kept_offset
#else
#define GIVEN                                                                                         \
    , __global storage_t(T) *values, ulong values_offset, long values_stride, __global long *indices, \
        ulong indices_offset, long indices_stride
#endif
// The elements of `count` items become values and positions; o: of the row's operands, `input` at its first element.
#define GIVE_ITEMS(items, count)                                                                      \
    for (uint i = 0; i < (count); ++i) {                                                              \
        const long from = POSITION((items)[i]);                                                       \
        values[values_offset + o[1] + i * values_stride] = input[from * input_stride];                \
        indices[indices_offset + o[2] + i * indices_stride] = from;                                   \
    }
#define ROWS_OF_ITEMS const __global storage_t(T) *input, ulong input_offset, long input_stride ITEMS_TAKEN GIVEN
#endif
