// Eight channels of a tap for the slabs of matrix_tiles.cl, which lie at a multiple of eight elements. Distances are in
// bytes from the beginning of the buffer; what is outside is read where there are zeros, behind the table's end.
typedef struct {
    OFFSET first;   // of tap 0, which may lie outside
    int z, y, x;
} byte_place;

static inline byte_place find_bytes(const gpu_conv_problem* p, int pixel, ulong origin)
{
    const source_place place = find_source(p, find_position(p, pixel));
    return (byte_place){2 * ((OFFSET)origin + place.first), place.z, place.y, place.x};
}

static inline uint4 gather_channels(const __global stored* source, const __global int4* zeros,
                                    const gpu_conv_problem* p, byte_place place, int4 tap, int wanted)
{
#if !INSIDE
    wanted &= (uint)(place.y + tap.z) < (uint)p->in[1] && (uint)(place.x + tap.w) < (uint)p->in[2];
#if PLANES
    wanted &= (uint)(place.z + tap.y) < (uint)p->in[0];
#endif
#endif
    const __global uchar* at = (const __global uchar*)source + (place.first + 2 * tap.x);
    return *(const __global uint4*)(wanted ? at : (const __global uchar*)zeros);
}
