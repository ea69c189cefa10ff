// Channels of a tensor as lines of all its pixels, one after the other, for products along pixels
// (gpu_matrix_lines_weight.cl): images lie in a grid with zeros between them, so that a tap of a kernel is one distance
// along a line. With strides there are as many lines as residues of the position modulo the stride; where SHIFTS is 2,
// as many again that begin an element later, for loads that want words.
//
// Options: -DCHANNELS_INNERMOST=0|1   whether neighbours of the tensor are channels or pixels
#include "kernels/conv/gpu_lines_problem.cl"

#define UNROLL _Pragma("unroll")

// Element of channel 0 at a place of a line; -1: there is a zero.
static inline int find_element(const conv_lines* p, int place, const int residue[3])
{
    if (place < p->before)
        return -1;
    int rest = place - p->before, inside = 1, element = 0;
    UNROLL for (int axis = 2; axis >= 0; --axis)
    {
        const int line = (mul_hi((uint)rest, p->magic[axis]) + (uint)rest) >> p->magic_shift[axis];
        const int at = rest - line * p->grid[axis];
        const int position = at * p->scale[axis] + residue[axis];
        inside &= at < p->seen[axis] && position < p->in[axis];
        element += position * p->axis[axis];
        rest = line;
    }
    return inside && rest < p->batch ? element + rest * p->image : -1;
}

__kernel __attribute__((reqd_work_group_size(LINE_ITEMS, 1, 1)))
void conv_lines_of(const __global ushort* restrict from, ulong from_offset, __global ushort* restrict lines,
                   ulong lines_offset, conv_lines p)
{
    __local int elements[LINE_PIECE];
    __local uint tile_words[LINES_TOGETHER][LINE_PIECE / 2 + 1];
    __local ushort(*const tile)[LINE_PIECE + 2] = (__local ushort(*)[LINE_PIECE + 2])tile_words;
    const int item = get_local_id(0), channel0 = get_group_id(1) * LINES_TOGETHER, copy = get_group_id(2);
    const int phases = p.scale[0] * p.scale[1] * p.scale[2], phase = copy % phases;
    const int place0 = get_group_id(0) * LINE_PIECE;
    const int residue[3] = {phase / (p.scale[1] * p.scale[2]), phase / p.scale[2] % p.scale[1], phase % p.scale[2]};
    if (!(p.read[0] >> min(residue[0], 31) & p.read[1] >> min(residue[1], 31) & p.read[2] >> min(residue[2], 31) & 1))
        return;   // the whole group
    if (item < LINE_PIECE)
        elements[item] = find_element(&p, place0 + item + copy / phases, residue);
    barrier(CLK_LOCAL_MEM_FENCE);
    from += from_offset;
    // Several elements of each work-item, whose loads are under way together.
    const int last = p.channels - 1 - channel0;
    from += channel0 * p.channel;
    ushort values[LINE_PIECE * LINES_TOGETHER / LINE_ITEMS];
#if CHANNELS_INNERMOST
    const int line = item % LINES_TOGETHER, first = item / LINES_TOGETHER;
    from += min(line, last) * p.channel;
#define EACH(i, place)                                                                                                \
    UNROLL for (int i = 0, place = first; i < LINE_PIECE * LINES_TOGETHER / LINE_ITEMS;                               \
                ++i, place += LINE_ITEMS / LINES_TOGETHER)
    EACH(i, place)
        values[i] = from[max(elements[place], 0)];
    EACH(i, place)
        tile[line][place] = elements[place] < 0 ? (ushort)0 : values[i];
#else
    const int place = item % LINE_PIECE, first = item / LINE_PIECE, element = elements[place];
    from += max(element, 0);
#define EACH(i, line)                                                                                                 \
    UNROLL for (int i = 0, line = first; i < LINE_PIECE * LINES_TOGETHER / LINE_ITEMS;                                \
                ++i, line += LINE_ITEMS / LINE_PIECE)
    EACH(i, line)
        values[i] = from[min(line, last) * p.channel];
    EACH(i, line)
        tile[line][place] = element < 0 ? (ushort)0 : values[i];
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    const int own = item / (LINE_PIECE / 8), from_place = item % (LINE_PIECE / 8) * 8;
    const __local uint* words = &tile_words[own][from_place / 2];
    if (own <= last)
        *(__global uint4*)(lines + lines_offset +
                           ((copy * p.channels + channel0 + own) * p.pitch + place0 + from_place)) =
            (uint4)(words[0], words[1], words[2], words[3]);
}
