// Masks of a real's bits: what lies outside is read from a place inside and becomes zero by one logical instruction.
#define MASK_float32 uint
#define MASK_float16 uint
#define MASK_bfloat16 uint
#define MASK_float64 ulong
typedef CLPRIM_CAT(MASK_, T) mask;
#define MASK(condition) ((condition) ? ~(mask)0 : (mask)0)

static inline real masked(real v, mask kept)
{
    union { real value; mask bits; } u;
    u.value = v;
    u.bits &= kept;
    return u.value;
}
