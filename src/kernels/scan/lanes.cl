// Scans over the work-items of a group: lines of `deep` lanes each. The text before it has state_t, combine() and TEAM,
// the work-items of a group at most; kernels have `__local state_t scratch[2 * TEAM]` and `uint turn = 0`.
typedef struct {
    uint wide, deep;                // powers of two
    uint line_shift, lane_shift;    // a work-item's bits of its line and of its lane
} layout_t;

// A work-item's state where others find it: that of lane k of the same line lies at OF_LANE(k). `turn` says which half
// of the scratch is free: what was shared before may still be read.
static inline __local state_t* share(__local state_t* scratch, uint* turn, state_t s)
{
    __local state_t* place = scratch + *turn;
    place[get_local_id(0)] = s;
    barrier(CLK_LOCAL_MEM_FENCE);
    *turn ^= TEAM;
    return place;
}
#define OF_LANE(k) (id - ((lane - (k)) << layout.lane_shift))

// Inclusive scan over the lanes of a line, for all work-items of a group.
static inline state_t scan_lanes(__local state_t* scratch, uint* turn, state_t s, const layout_t layout, uint lane)
{
    const uint id = get_local_id(0);
    for (uint distance = 1; distance < layout.deep; distance *= 2) {
        const __local state_t* place = share(scratch, turn, s);
        if (lane >= distance)
            s = combine(place[OF_LANE(lane - distance)], s);
    }
    return s;
}
