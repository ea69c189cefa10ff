// What becomes of a tile of 32 x 32 sums of bytes' products.
#include "kernels/integer/byte_blocks.cl"

typedef struct {
    long m, n, k, c_row, c_column, c_batch;
    long block_strips, block_panels;   // of a work-item
    long a_row, a_batch, zero_step;    // of rows that are read where they lie; zero_step: -1 without zero points
} integer_product;

// Adds `tile` to C, from its first chunk of k on, and takes zero points off with the last. Rows and columns have a sum
// and a zero point each.
static inline void put_tile(const int* tile, __global int* c, const int2* rows, const __global int2* columns,
                            int2 size, const integer_product* p, int first, int last)
{
    int column_sums[SIDE] = {0}, column_zeros[SIDE] = {0};
    for (int j = 0; j < SIDE && last; ++j) {
        column_sums[j] = columns[j].x;
        column_zeros[j] = columns[j].y;
    }
    for (int i = 0; i < size.x; ++i, tile += SIDE) {
        const int zero = last ? rows[i].y : 0, sum = last ? rows[i].x - (int)p->k * zero : 0;
        __global int* row = c + i * p->c_row;
        for (int side = 0; side < 2; ++side) {
            const int16 result =
                vload16(side, tile) - vload16(side, column_sums) * zero - vload16(side, column_zeros) * sum;
            __global int* to = row + 16 * side * p->c_column;
            if (p->c_column == 1 && size.y >= 16 * side + 16)
                vstore16(first ? result : result + vload16(0, to), 0, to);
            else {
                int each[16];
                vstore16(result, 0, each);
                for (int j = 0; j < 16 && 16 * side + j < size.y; ++j)
                    to[j * p->c_column] = each[j] + (first ? 0 : to[j * p->c_column]);
            }
        }
    }
}

// A tile that may still be on its way from registers, and what put_tile will be told.
typedef struct {
    __global int* c;                 // 0: none waits
    const int* tile;
    const int2* rows;
    const __global int2* columns;
    int2 size;
    int first, last;
} waiting_tile;

static inline void put_waiting(waiting_tile* waiting, const integer_product* p)
{
    if (waiting->c)
        put_tile(waiting->tile, waiting->c, waiting->rows, waiting->columns, waiting->size, p, waiting->first,
                 waiting->last);
    waiting->c = 0;
}
