// How lines of a transform lie in memory: Layout and Lines of layout.hpp. Line l of a tensor begins at
// l / inner * outer + l % inner * line; its elements are `step` apart.
typedef struct {
    ulong outer, line, step;
} layout_t;
typedef struct {
    layout_t x, y;
    uint lines, inner, all, fine;   // exp(-2 pi i m / all) = turns[m % fine] turns[fine + m / fine]
    int inverse;
} lines_t;
