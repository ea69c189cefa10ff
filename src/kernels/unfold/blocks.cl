// What unfold.cl and cpu_fold.cl know of blocks.
typedef struct { int channels, in[2], out[2], extent[2], stride[2], padding[2], dilation[2]; } unfold_t;

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
