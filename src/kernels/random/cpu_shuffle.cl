// A random permutation on a CPU: one work-item exchanges each element with one of those up to it (Fisher and Yates),
// its random words made sixteen Philox blocks at a time. -DOUT=dtype
#include "core/dtype.cl"

// Sixteen blocks of philox.cl: words k of all blocks lie in words[16 * k].
static inline void philox16(uint block, ulong stream, ulong seed, uint* words)
{
    uint16 x = block + (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), y = 0;
    uint16 z = (uint)stream, w = (uint)(stream >> 32);
    uint key0 = (uint)seed, key1 = (uint)(seed >> 32);
    for (int round = 0; round < 10; ++round) {
        const uint16 high0 = mul_hi((uint16)0xD2511F53u, x), low0 = 0xD2511F53u * x;
        const uint16 high1 = mul_hi((uint16)0xCD9E8D57u, z), low1 = 0xCD9E8D57u * z;
        x = high1 ^ y ^ key0;
        y = low1;
        z = high0 ^ w ^ key1;
        w = low0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    vstore16(x, 0, words);
    vstore16(y, 1, words);
    vstore16(z, 2, words);
    vstore16(w, 3, words);
}

static inline void exchange(__global storage_t(OUT)* out, uint i, uint j)
{
    const storage_t(OUT) other = out[j];
    out[j] = out[i];
    out[i] = other;
}

// Of at most 2^20 elements. The product of a word of 32 bits and a count rounds shares by up to count / 2^32: where
// that is more than 2^-18, words of 64 bits are taken.
#ifdef cl_intel_vec_len_hint
__attribute__((intel_vec_len_hint(1)))
#endif
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void shuffle_row(__global storage_t(OUT)* out, ulong out_offset, uint n, ulong seed, ulong stream)
{
    out += out_offset;
    for (uint i = 0; i < n; ++i)
        store(OUT, out, i, (compute_t(OUT))i);
    uint words[64], block = 0, i = n - 1;
    for (; i >= 1 << 14; block += 16) {
        philox16(block, stream, seed, words);
        for (uint k = 0; k < 32 && i >= 1; ++k, --i)
            exchange(out, i, (uint)mul_hi((ulong)words[k + 32] << 32 | words[k], (ulong)i + 1));
    }
    for (; i >= 1; block += 16) {
        philox16(block, stream, seed, words);
        for (uint k = 0; k < 64 && i >= 1; ++k, --i)
            exchange(out, i, mul_hi(words[k], i + 1));
    }
}
