// Philox-4x32-10: four random words of a counter and a key, in ten rounds of multiplication and exchange.
// PHILOX_ROUNDS: what precedes the loop over them, where a kernel has no registers for all at once.
#ifndef PHILOX_ROUNDS
#define PHILOX_ROUNDS
#endif
static inline uint4 philox(ulong counter, ulong stream, ulong seed)
{
    uint4 c = (uint4)((uint)counter, (uint)(counter >> 32), (uint)stream, (uint)(stream >> 32));
    uint2 key = (uint2)((uint)seed, (uint)(seed >> 32));
    PHILOX_ROUNDS for (int round = 0; round < 10; ++round) {
        uint high0 = mul_hi(0xD2511F53u, c.x), low0 = 0xD2511F53u * c.x;
        uint high1 = mul_hi(0xCD9E8D57u, c.z), low1 = 0xCD9E8D57u * c.z;
        c = (uint4)(high1 ^ c.y ^ key.x, low1, high0 ^ c.w ^ key.y, low0);
        key += (uint2)(0x9E3779B9u, 0xBB67AE85u);
    }
    return c;
}

// Uniform numbers of words: [0, 1) and (0, 1], with as many bits as the type holds.
static inline float uniform24(uint word) { return (float)(word >> 8) * 0x1p-24f; }
static inline float positive24(uint word) { return (float)((word >> 8) + 1) * 0x1p-24f; }
static inline ulong word64(uint low, uint high) { return (ulong)high << 32 | low; }
