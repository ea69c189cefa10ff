// Deferred errors. The words of Queue::error_buffer(): [0] operator code (0 = no error; the first writer wins),
// [1] what went wrong, [2..3] the offending index, [4..5] the size of the indexed dimension; longs as low, high.
static inline void clprim_index_error(__global int* errors, int operator_code, long index, long size)
{
    if (atomic_cmpxchg(errors, 0, operator_code) == 0) {
        ((__global long*)errors)[1] = index;
        ((__global long*)errors)[2] = size;
    }
}
// An integer was divided by zero; a probability lies outside [0, 1].
static inline void clprim_division_error(__global int* errors, int operator_code)
{
    if (atomic_cmpxchg(errors, 0, operator_code) == 0)
        errors[1] = 1;
}
static inline void clprim_probability_error(__global int* errors, int operator_code)
{
    if (atomic_cmpxchg(errors, 0, operator_code) == 0)
        errors[1] = 2;
}
// A value is not what the operator takes: the operator's name says it all.
static inline void clprim_value_error(__global int* errors, int operator_code)
{
    if (atomic_cmpxchg(errors, 0, operator_code) == 0)
        errors[1] = 3;
}
