// The next loss scale of mixed-precision training. One work-item.
__kernel void update_scale(__global float* scale, ulong scale_offset, __global int* tracker, ulong tracker_offset,
                           const __global float* found_inf, ulong found_inf_offset, float growth, float backoff,
                           int interval)
{
    scale += scale_offset;
    tracker += tracker_offset;
    if (found_inf[found_inf_offset] != 0) {
        *scale *= backoff;
        *tracker = 0;
        return;
    }
    int good = *tracker + 1;
    if (good == interval) {
        float grown = *scale * growth;
        if (isfinite(grown))
            *scale = grown;
        good = 0;
    }
    *tracker = good;
}
