// Random numbers of the four words of a Philox block (kernels/random/philox.cl).
static inline float normal_variate(uint4 words)   // Box and Muller
{
    return sqrt(-2 * log(positive24(words.x))) * cos(6.28318530717958648f * uniform24(words.y));
}
static inline long integer_variate(uint4 words, long low, long high)
{
    const ulong range = (ulong)high - (ulong)low, word = word64(words.x, words.y);
    return (long)((ulong)low + (range ? word % range : word));
}
