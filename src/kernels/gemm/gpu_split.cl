// A float32 matrix as bfloat16 numbers that a matrix engine multiplies: x is about high + low, high being x rounded to
// bfloat16 and low the rest, rounded as well. Where PARTS is 3, the product
//
//     [low_a, high_a', high_a] [high_b'; low_b; high_b]
//
// along a k three times as long has the three sums that matter in one, small ones first; what is left out is low low,
// 2^-18 of the operands. PARTS 1: high alone. Only the last part holds infinities and NaN (high' has zeros there, low
// as well), so that they meet each number of the other operand once, and one of its high parts.
//
// A number that would round to infinity is cut instead. After Henry, Tang, Heinecke, "Leveraging the bfloat16
// Artificial Intelligence Datatype For Higher-Precision Computations" (2019).
//
// With -DBITS the matrix has numbers of 16 bits already, of any kind, which are only laid out anew; PARTS is 1.
//
// Options: -DINDEX=int|long (holds every offset), -DPARTS=1|3 -DSECOND=0|1 (B's order of parts) -DALONG_K=0|1
// -DNEAR=0|1: which direction has neighbours in `to`, and whether they are neighbours in `from`.

// `from`: lines (rows of A, columns of B) and k, each with its step. `to`: batches of lines x PARTS * k_padded or the
// other way round; lines and k are padded to multiples of eight, and filled with zeros.
typedef struct {
    INDEX lines, depth, line_step, k_step, batch_step, lines_padded, depth_padded;
} split_problem;

#ifdef BITS
typedef ushort number;
typedef ushort4 number4;
#define rounded(v) (v)
#else
typedef float number;
typedef float4 number4;

static inline ushort4 rounded(float4 v)
{
    const uint4 bits = as_uint4(v), magnitude = bits & 0x7fffffffu;
    const uint4 up = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint4 cut = bits >> 16;
    const uint4 result = select(up, cut, magnitude >= 0x7f7f8000u);            // infinity stays, too large is cut
    return convert_ushort4(select(result, (uint4)0x7fc0u, magnitude > 0x7f800000u));
}
#endif

#define STEP (NEAR ? 1 : near_step)
#define PUT(to, four) *(__global ushort4*)(to) = four   // at a multiple of four numbers

__kernel void split_matrix(const __global number* from, ulong from_offset, __global ushort* to, ulong to_offset,
                           split_problem p)
{
    const INDEX near = (INDEX)get_global_id(0) * 4, far = get_global_id(1), batch = get_global_id(2);
    const INDEX near_padded = ALONG_K ? p.depth_padded : p.lines_padded;
    const INDEX far_padded = ALONG_K ? p.lines_padded : p.depth_padded;
    if (near >= near_padded || far >= far_padded)
        return;
    const INDEX near_count = ALONG_K ? p.depth : p.lines, far_count = ALONG_K ? p.lines : p.depth;
    const INDEX near_step = ALONG_K ? p.k_step : p.line_step, far_step = ALONG_K ? p.line_step : p.k_step;
    number4 v = 0;
    if (far < far_count && near < near_count) {
        // All four are on their way together: what lies beyond the last repeats it.
        const int last = (int)min(near_count - near, (INDEX)4) - 1;
        from += from_offset;
        from += (NEAR ? near : near * near_step) + batch * p.batch_step + far * far_step;
        const number4 w = (number4)(from[0], from[min(1, last) * STEP], from[min(2, last) * STEP],
                                    from[min(3, last) * STEP]);
        v = (number4)(w.x, last < 1 ? 0 : w.y, last < 2 ? 0 : w.z, last < 3 ? 0 : w.w);
    }
    const ushort4 high = rounded(v);
    const INDEX part = ALONG_K ? p.depth_padded : p.depth_padded * p.lines_padded;
    to += to_offset;
    to += batch * PARTS * p.depth_padded * p.lines_padded + near +
          (ALONG_K ? far * PARTS * p.depth_padded : far * p.lines_padded);
#if PARTS == 1
    PUT(to, high);
#else
    const float4 rest = v - as_float4(convert_uint4(high) << 16);
    const int4 finite = (as_int4(v) & 0x7fffffff) < 0x7f800000;
    const ushort4 kept = convert_ushort4(select((uint4)0, convert_uint4(high), finite));
    const ushort4 low = rounded(select((float4)0, rest, finite));
    PUT(to, SECOND ? kept : low);
    PUT(to + part, SECOND ? low : kept);
    PUT(to + 2 * part, high);
#endif
}
