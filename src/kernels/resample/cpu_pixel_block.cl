// Which places of y a work-item of a kernel for pixels owns: o0 to o1 of the lines before end_line of all `lines`,
// whose first one is get_global_id(1) * lines_each. Pointers go to where their tensors begin.
#include "kernels/resample/cpu_lines.cl"

#define BEGIN_PIXEL_BLOCK(columns)                                                                                    \
    const int o0 = get_global_id(0) * (columns), o1 = min(o0 + (int)(columns), p.out[2]);                             \
    const uint rows = p.out[0] * p.out[1];                                                                            \
    const ulong lines = p.planes / p.channels * (ulong)rows;                                                          \
    const ulong end_line = min((get_global_id(1) + 1) * (ulong)lines_each, lines);                                    \
    x += x_offset;                                                                                                    \
    y += y_offset;                                                                                                    \
    places += places_offset;                                                                                          \
    weights += weights_offset;
