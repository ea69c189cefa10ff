// Sorts tiles of TILE items in local memory: several blocks (of a power of two of items), each within one row. One
// work-group owns a tile; work-items exchange pairs of the bitonic network.
//   -DT=dtype -DKEY_... [-DWIDE] [-DDESCENDING] -DTILE=1024 -DGROUP=n
//   -DFROM_ITEMS: rows of items come in (a selection is narrowed further); otherwise elements of `input`
//   -DTO_ITEMS:   the first `keep` items of each block go out; otherwise values and positions, the first
//                 `keep` of a row
// rows: operands input, values, indices, each at the first element of its row.
#include "core/dtype.cl"
#include "kernels/index/geometry.cl"
#include "kernels/sort/items.cl"
#include "kernels/sort/blocks.cl"

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void sort_tiles(ROWS_OF_ITEMS, ulong n, ulong keep, uint block_size, geometry_t rows)
{
    __local item_t tile[TILE];
    const uint shift = 31 - clz(block_size), within = block_size - 1;   // a power of two: nothing divides by it
    const block_t blocks_per_row = (n + within) >> shift;
    const block_t first_block = (block_t)get_group_id(0) * (TILE >> shift);
    input += input_offset;

    for (uint t = get_local_id(0); t < TILE; t += GROUP) {
        const block_t block = first_block + (t >> shift), row = blocks_per_row == 1 ? block : block / blocks_per_row;
        const ulong position = ((ulong)(block - row * blocks_per_row) << shift) + (t & within);
        item_t item = PADDING;
        if (row < (block_t)rows.numel && position < n) {
#ifdef FROM_ITEMS
            item = items[items_offset + row * n + position];
#else
            offset_t o[OPERANDS];
            geometry_offsets(rows, (index_t)row, o);
            item = item_of(load(T, input + o[0], position * input_stride), position);
#endif
        }
        tile[t] = item;
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    for (uint run = 2; run <= block_size; run *= 2)
        for (uint distance = run / 2; distance > 0; distance /= 2) {
            for (uint pair = get_local_id(0); pair < TILE / 2; pair += GROUP) {
                const uint low = 2 * pair - (pair & (distance - 1)), high = low + distance;
                item_t a = tile[low], b = tile[high];
                bool swap = before(b, a) == ((low & run) == 0 || run == block_size);
                tile[low] = swap ? b : a;
                tile[high] = swap ? a : b;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }

    for (uint t = get_local_id(0); t < TILE; t += GROUP) {
        const block_t block = first_block + (t >> shift), row = blocks_per_row == 1 ? block : block / blocks_per_row;
        const uint place = t & within;
        if (row >= (block_t)rows.numel || place >= keep)
            continue;
#ifdef TO_ITEMS
        ulong kept_per_row = blocks_per_row * keep;
        ulong at = (block - row * blocks_per_row) * keep + place;
        if (keep == block_size) {   // a full sort: rows stay n long
            kept_per_row = n;
            if (at >= n)
                continue;
        }
        kept[kept_offset + row * kept_per_row + at] = tile[t];
#else
        ulong from = POSITION(tile[t]);
        offset_t o[OPERANDS];
        geometry_offsets(rows, (index_t)row, o);
        values[values_offset + o[1] + place * values_stride] = input[o[0] + (long)from * input_stride];
        indices[indices_offset + o[2] + place * indices_stride] = (long)from;
#endif
    }
}
