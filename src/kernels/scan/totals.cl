// From one chunk's end to the next one's beginning, line by line: TOTALS, a state for each chunk of each line.
__kernel void scan_totals(__global ulong* words, ulong words_offset, long chunks, long count)
{
    long line = get_global_id(0);
    if (line >= count)
        return;
    __global state_t* totals = TOTALS + line * chunks;
    state_t s = totals[0];
    for (long c = 1; c < chunks; ++c)
        totals[c] = s = combine(s, totals[c]);
}
