// y[i] = table[x[i]] of bytes. A work-item reads and writes eight at a time: what it waits for is loads from the table.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void look_up(const __global uchar* x, ulong x_offset, const __global uchar* table, ulong table_offset,
             __global uchar* y, ulong y_offset, ulong count, ulong share)
{
    x += x_offset;
    y += y_offset;
    table += table_offset;
    const ulong begin = get_group_id(0) * share, end = min(count, begin + share);
    ulong i = begin;
    for (; i + 8 <= end; i += 8) {
        const ulong eight = as_ulong(vload8(0, x + i));
        ulong found = 0;
#pragma unroll
        for (uint e = 0; e < 64; e += 8)
            found |= (ulong)table[(eight >> e) & 255] << e;
        vstore8(as_uchar8(found), 0, y + i);
    }
    for (; i < end; ++i)
        y[i] = table[x[i]];
}
