// Eight channels of a tap for the slabs of matrix_tiles.cl, which lie at a multiple of eight elements. Distances are in
// bytes from the beginning of the buffer; what is outside is read where there are zeros, behind the table's end.
// An entry of the table (gpu_tables.hpp) says how far a tap lies from tap 0 and has one bit for each axis.
typedef struct {
    OFFSET first;   // of tap 0, which may lie outside
    int outside;    // the bits of taps that do
} byte_place;

static inline int bits_outside(const gpu_conv_problem* p, int at, int axis, int bit)
{
    int bits = 0;
    for (int tap = 0; tap < p->taps[axis]; ++tap)
        bits |= (uint)(at + tap * p->step[axis]) < (uint)p->in[axis] ? 0 : 1 << (bit + tap);
    return bits;
}

static inline byte_place find_bytes(const gpu_conv_problem* p, int pixel, ulong origin)
{
    const source_place place = find_source(p, find_position(p, pixel));
    byte_place result = {2 * ((OFFSET)origin + place.first), 0};
#if !INSIDE
    result.outside = bits_outside(p, place.y, 1, TAP_BITS_Y) | bits_outside(p, place.x, 2, TAP_BITS_X);
#if PLANES
    result.outside |= bits_outside(p, place.z, 0, TAP_BITS_Z);
#endif
#endif
    return result;
}

// Zeros for what is outside.
static inline const __global uint4* zeros_of(const __global int2* table, const gpu_conv_problem* p)
{
    return (const __global uint4*)table + (p->total / 8 + 1) / 2;
}

static inline const __global uchar* find_channels(const __global stored* source, const __global uint4* zeros,
                                                  byte_place place, int2 tap, int wanted)
{
#if !INSIDE
    wanted &= !(place.outside & tap.y);
#endif
    const __global uchar* at = (const __global uchar*)source + (place.first + tap.x);
    return wanted ? at : (const __global uchar*)zeros;
}
static inline uint4 gather_channels(const __global stored* source, const __global uint4* zeros, byte_place place,
                                    int2 tap, int wanted)
{
    return *(const __global uint4*)find_channels(source, zeros, place, tap, wanted);
}

// Where eight channels after the other lie at a tap. Zeros stand for a tap outside: as many as it has channels, or,
// where addresses are cheap that are found from one buffer's beginning alone, by a mask of what is read.
#if defined(ENGINE_DPAS8)
typedef struct {
    OFFSET at;
    uint mask;
} tap_place;
static inline tap_place find_tap_place(const __global stored* source, ulong origin, const __global uint4* zeros,
                                       byte_place place, int2 tap, int channel)
{
#if INSIDE
    const int inside = 1;
#else
    const int inside = !(place.outside & tap.y);
#endif
    const tap_place result = {inside ? place.first + channel + tap.x : 2 * (OFFSET)origin, inside ? ~0u : 0};
    return result;
}
// `back` bytes, a constant, before `far` bytes into the tap, which is where move_on has come.
static inline uint4 fetch_tap(const __global stored* source, tap_place place, OFFSET far, int back)
{
    return *(const __global uint4*)((const __global uchar*)source + (place.at + (far - back)));
}
static inline void move_on(tap_place* place, int bytes) {}
static inline uint4 inside_tap(uint4 v, tap_place place) { return INSIDE ? v : v & place.mask; }
#else
typedef const __global uchar* tap_place;
static inline tap_place find_tap_place(const __global stored* source, ulong origin, const __global uint4* zeros,
                                       byte_place place, int2 tap, int channel)
{
    place.first += channel;
    return find_channels(source, zeros, place, tap, 1);
}
static inline uint4 fetch_tap(const __global stored* source, tap_place place, OFFSET far, int back)
{
    return *(const __global uint4*)(place - back);
}
static inline void move_on(tap_place* place, int bytes) { *place += bytes; }
static inline uint4 inside_tap(uint4 v, tap_place place) { return v; }
#endif
