// Layout of the workspace ("rows"): pixels x channels, float, channels last; each segment of `segment` channels (same
// group and offset group) is padded with zeros to a multiple of 32. A 32-channel chunk thus has one group and one
// offset group. A tensor that already lies so is used in place.
#include "kernels/deform_conv/sample.cl"

#define TASK __kernel __attribute__((reqd_work_group_size(1, 1, 1)))

#define BLOCK 96   // output pixels per step of the weight gradient

typedef struct {
    int channels;        // padded channels of a row of x
    int segment;         // real channels of a segment
    int padded_segment;  // the same, padded
    int tile;            // P
} layout;

static inline int padded_group(const geometry g, const layout l) { return l.channels / g.groups; }
static inline int offset_group_of(const geometry g, const layout l, int padded_channel)
{
    return padded_channel / l.padded_segment * l.segment / (g.channels / g.offset_groups);
}
