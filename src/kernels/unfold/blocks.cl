// From elements of pictures to blocks.
// Which block begins `distance` before a pixel; negative if none does. -DDENSE: all strides are 1.
static inline int block_at(int distance, int stride, int blocks)
{
#ifdef DENSE
    return distance < blocks ? distance : -1;
#else
    const uint block = (uint)distance / (uint)stride;   // a negative distance becomes a large one
    return block * stride == (uint)distance && block < (uint)blocks ? (int)block : -1;
#endif
}
