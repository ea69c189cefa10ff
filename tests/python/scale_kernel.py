"""The kernel that tests of kernels of one's own share."""

# Of any type T, with load_T and store_T.
ANY_TYPE = """// y = factor * x
__kernel void scale(__global const T* x, ulong x_offset, __global T* y, ulong y_offset, float factor, int count)
{
    x += x_offset;
    y += y_offset;
    int i = get_global_id(0);
    if (i < count)
        store_T(y, i, (T_value)factor * load_T(x, i));
}
"""
FLOAT = ANY_TYPE.replace("store_T(y, i, (T_value)factor * load_T(x, i))", "y[i] = factor * x[i]").replace(" T*",
                                                                                                        " float*")
