// FlexAttention. A work-group of SIDE_X x SIDE_Y work-items owns BLOCK queries (of backward_keys: keys) of one head and
// passes over the blocks of the others that the mask does not hide, in tiles of BLOCK, which it holds in local memory:
// work-item (x, y) has rows y + SIDE_Y r and keys x + SIDE_X c of a tile of scores, and of a result the same rows and
// elements x + SIDE_X c. Rows of local memory are one element longer than they need be, so that neither direction meets
// in one bank. What surrounds this text defines X_LOAD, X_STORE, sizes, strides, and where the caller's functions are
// computed.
#define ROWS (BLOCK / SIDE_Y)
#define KEYS (BLOCK / SIDE_X)
#define PITCH (HEAD + 1)
#define COLUMNS ((HEAD + SIDE_X - 1) / SIDE_X)
#define SCORE_PITCH (BLOCK + 1)
#define UNROLLED _Pragma("unroll")   // or what a work-item owns would not lie in registers
#define EACH_ROW UNROLLED for (int r = 0; r < ROWS; ++r)
#define EACH_KEY UNROLLED for (int c = 0; c < KEYS; ++c)
#define EACH_COLUMN UNROLLED for (int c = 0; c < COLUMNS; ++c)
// Tiles of `count` others, from `first` to `end`, in blocks that the mask shows to a block: those that it cuts (kind
// 0), then those that it leaves whole.
#define EACH_TILE(first, b, h, block, count, block_size)                                                              \
    for (int kind = 0; kind < KINDS; ++kind)                                                                          \
        for (long at = 0, blocks = kind == 0 ? PARTIAL_COUNT(b, h, block) : FULL_COUNT(b, h, block); at < blocks;     \
             ++at)                                                                                                    \
            for (long first = (long)(block_size) * (kind == 0 ? PARTIAL_INDEX(b, h, block, at)                        \
                                                              : FULL_INDEX(b, h, block, at)),                         \
                      end = min((long)(count), first + (long)(block_size)); first < end; first += BLOCK)
#define ROW (y_item + SIDE_Y * r)
#define KEY (x_item + SIDE_X * c)
#define SYNCHRONIZE barrier(CLK_LOCAL_MEM_FENCE)
#define LOG2E ((REAL)1.4426950408889634074)

// Rows to local memory; neighbours fetch neighbours. What lies outside is zero.
static inline void fetch_rows(const __global X_TYPE* x, long row_stride, long stride, long rows, int size,
                              __local REAL* to)
{
    for (int at = get_local_id(1) * SIDE_X + get_local_id(0); at < BLOCK * HEAD; at += SIDE_X * SIDE_Y) {
        const int row = at / HEAD, e = at % HEAD;
        to[row * PITCH + e] = row < rows && e < size ? (REAL)X_LOAD(x, row * row_stride + e * stride) : (REAL)0;
    }
}

// values[r][c] = a[row] . b[key]
static inline void dot_tiles(const __local REAL* a, const __local REAL* b, int size, REAL values[ROWS][KEYS])
{
    const int x_item = get_local_id(0), y_item = get_local_id(1);
    EACH_ROW EACH_KEY values[r][c] = 0;
    for (int e = 0; e < size; ++e) {
        REAL part[KEYS];
        EACH_KEY part[c] = b[KEY * PITCH + e];
        EACH_ROW {
            const REAL a_part = a[ROW * PITCH + e];
            EACH_KEY values[r][c] = fma(a_part, part[c], values[r][c]);
        }
    }
}

// sums[r][c] += sum over k of weights[row, k] rows[k][column]; weights lie `row_step` and `step` apart.
static inline void add_tiles(const __local REAL* weights, int row_step, int step, const __local REAL* rows,
                             REAL sums[ROWS][COLUMNS])
{
    const int x_item = get_local_id(0), y_item = get_local_id(1);
    for (int k = 0; k < BLOCK; ++k) {
        REAL part[COLUMNS];
        EACH_COLUMN part[c] = KEY < HEAD ? rows[k * PITCH + KEY] : (REAL)0;
        EACH_ROW {
            const REAL weight = weights[ROW * row_step + k * step];
            EACH_COLUMN sums[r][c] = fma(weight, part[c], sums[r][c]);
        }
    }
}

static inline void put_rows(REAL sums[ROWS][COLUMNS], REAL factor, __global X_TYPE* y, long row_stride, long stride,
                            long rows, int size)
{
    const int x_item = get_local_id(0), y_item = get_local_id(1);
    EACH_ROW EACH_COLUMN
        if (ROW < rows && KEY < size)
            X_STORE(y, ROW * row_stride + KEY * stride, factor * sums[r][c]);
}
