// The first few of the sorted order, on GPUs: a work-group owns a block of up to TILE elements or items of a row, each
// work-item some of them in registers. Their best ones are the leaves of a tree in local memory, whose root is taken
// `keep` times; only its owner looks for its next one then, and renews what stands above.
//   -DT=dtype -DKEY_... [-DWIDE] [-DDESCENDING] -DTILE=n -DGROUP=n -DMOST=what `keep` is at most
//   -DFROM_ITEMS: rows of items come in;  -DTO_ITEMS: items go out, `keep` of each block
// rows: operands input, values, indices, each at the first element of its row.
#include "core/dtype.cl"
#include "kernels/index/geometry.cl"
#include "kernels/sort/items.cl"
#include "kernels/sort/blocks.cl"

#define EACH_ITEM (TILE / GROUP)

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void select_few(ROWS_OF_ITEMS, ulong n, uint keep, geometry_t rows)
{
    __local item_t tree[2 * GROUP];   // the root is [1], what stands below [i] are [2 i] and [2 i + 1]
    __local item_t found[MOST];
    const uint id = get_local_id(0);
    const block_t block = get_group_id(0), blocks_per_row = (n + TILE - 1) / TILE, row = block / blocks_per_row;
    const ulong first = (ulong)(block - row * blocks_per_row) * TILE;
    offset_t o[OPERANDS];
    geometry_offsets(rows, (index_t)row, o);
    input += input_offset + o[0];

    item_t own[EACH_ITEM], best = PADDING;
#pragma unroll
    for (int e = 0; e < EACH_ITEM; ++e) {
        const ulong position = first + id + e * GROUP;
        own[e] = PADDING;
        if (position < n)
#ifdef FROM_ITEMS
            own[e] = items[items_offset + row * n + position];
#else
            own[e] = item_of(load(T, input, (long)position * input_stride), position);
#endif
    }
#pragma unroll
    for (int e = 0; e < EACH_ITEM; ++e)
        if (before(own[e], best))
            best = own[e];
    tree[GROUP + id] = best;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint level = GROUP / 2; level > 0; level /= 2) {
        if (id < level) {
            const item_t a = tree[2 * (level + id)], b = tree[2 * (level + id) + 1];
            tree[level + id] = before(b, a) ? b : a;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    for (uint k = 0; k < keep; ++k) {
        const item_t top = tree[1];
        if (id == 0)
            found[k] = top;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (!before(top, best) && !IS_PADDING(top)) {   // its own
            best = PADDING;
#pragma unroll
            for (int e = 0; e < EACH_ITEM; ++e)
                if (before(top, own[e]) && before(own[e], best))
                    best = own[e];
            uint at = GROUP + id;
            item_t renewed = best;
            tree[at] = renewed;
            while (at > 1) {
                const item_t other = tree[at ^ 1];
                renewed = before(other, renewed) ? other : renewed;
                at /= 2;
                tree[at] = renewed;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    for (uint place = id; place < keep; place += GROUP) {
#ifdef TO_ITEMS
        kept[kept_offset + (ulong)block * keep + place] = found[place];
#else
        const ulong from = POSITION(found[place]);
        values[values_offset + o[1] + place * values_stride] = input[(long)from * input_stride];
        indices[indices_offset + o[2] + place * indices_stride] = (long)from;
#endif
    }
}
