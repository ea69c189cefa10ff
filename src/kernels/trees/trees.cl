// A work-item owns a row: it walks down every tree and gathers the votes in its row of scores. Built with -DT=float or
// double and -DAGGREGATE=0 average, 1 sum, 2 minimum, 3 maximum; -DCHECK for tables whose entries may lead anywhere.
#include "core/dtype.cl"
#ifdef CHECK
#include "core/errors.cl"
#define ENDS , int leaves, int vote_count, int member_count, __global int* errors, int operator_code
#else
#define ENDS
#endif

#ifdef CHECK
static inline bool tree_test(T v, int test, T split, __global const T* members, int member_count)
#else
static inline bool tree_test(T v, int test, T split, __global const T* members)
#endif
{
    if (v != v)
        return test & 16 || (test & 15) == 5;
    switch (test & 15) {
    case 0: return v <= split;
    case 1: return v < split;
    case 2: return v >= split;
    case 3: return v > split;
    case 4: return v == split;
    case 5: return v != split;
    default: break;
    }
#ifdef CHECK
    for (int i = max((int)split, 0); i < member_count && members[i] == members[i]; ++i)
#else
    for (int i = (int)split; members[i] == members[i]; ++i)
#endif
        if (members[i] == v)
            return true;
    return false;
}

__kernel void tree_scores(__global const T* x, ulong x_offset, __global T* scores, ulong scores_offset,
                          __global const int* roots, ulong roots_offset, __global const int* features,
                          ulong features_offset, __global const int* tests, ulong tests_offset,
                          __global const T* splits, ulong splits_offset, __global const int* yes, ulong yes_offset,
                          __global const int* no, ulong no_offset, __global const T* members, ulong members_offset,
                          __global const int* votes, ulong votes_offset, __global const int* targets,
                          ulong targets_offset, __global const T* weights, ulong weights_offset, ulong rows, int width,
                          int count, int trees, int nodes ENDS)
{
    const ulong row = get_global_id(0);
    if (row >= rows)
        return;
    x += x_offset + row * width;
    scores += scores_offset + row * count;
    roots += roots_offset;
    features += features_offset;
    tests += tests_offset;
    splits += splits_offset;
    yes += yes_offset;
    no += no_offset;
    members += members_offset;
    votes += votes_offset;
    targets += targets_offset;
    weights += weights_offset;
    const T start = AGGREGATE == 2 ? INFINITY : AGGREGATE == 3 ? -INFINITY : 0;
    for (int t = 0; t < count; ++t)
        scores[t] = start;
    for (int tree = 0; tree < trees; ++tree) {
        int at = roots[tree];
#ifdef CHECK
        for (int steps = 0; at >= 0 && steps < nodes; ++steps) {
            if (at >= nodes || (uint)features[at] >= (uint)width) {
                clprim_index_error(errors, operator_code, at < nodes ? features[at] : at, at < nodes ? width : nodes);
                break;
            }
            at = tree_test(x[features[at]], tests[at], splits[at], members, member_count) ? yes[at] : no[at];
        }
        if (at < -leaves) {
            clprim_index_error(errors, operator_code, at, leaves);
            continue;
        }
#else
        for (int steps = 0; at >= 0 && steps < nodes; ++steps)
            at = tree_test(x[features[at]], tests[at], splits[at], members) ? yes[at] : no[at];
#endif
        if (at >= 0)
            continue;
#ifdef CHECK
        for (int v = max(votes[-1 - at], 0); v < min(votes[-at], vote_count); ++v) {
            if ((uint)targets[v] >= (uint)count) {
                clprim_index_error(errors, operator_code, targets[v], count);
                continue;
            }
#else
        for (int v = votes[-1 - at]; v < votes[-at]; ++v) {
#endif
            const int t = targets[v];
            scores[t] = AGGREGATE == 2   ? fmin(scores[t], weights[v])
                        : AGGREGATE == 3 ? fmax(scores[t], weights[v])
                                         : scores[t] + weights[v];
        }
    }
    for (int t = 0; t < count; ++t)
        scores[t] = AGGREGATE == 0 ? scores[t] / trees : isinf(scores[t]) && scores[t] == start ? 0 : scores[t];
}
