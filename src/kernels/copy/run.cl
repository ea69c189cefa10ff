// Elements that lie side by side on both sides, copied by one work-item of a CPU. Define RUN, their type, before.
static inline void copy_run(__global RUN* restrict to, const __global RUN* restrict from, ulong count)
{
    for (ulong i = 0; i < count; ++i)
        to[i] = from[i];
}
