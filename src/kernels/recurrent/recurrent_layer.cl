// What the kernels of recurrent_layer share. recurrent_t mirrors Geometry in recurrent.cpp.
typedef struct {
    uint steps, batch, inputs, hidden;            // inputs 0: x is projected already
    uint reversed, has_bias, has_recurrent_bias, has_lengths, has_h, has_c;
    uint h_direction, h_sample, c_direction, c_sample;                            // strides
    uint y_step, y_direction, y_sample, last_h_direction, last_h_sample, last_c_direction, last_c_sample;
} recurrent_t;

#define TENSOR(name) const __global storage_t(X)* name, ulong name##_offset
#define OUTPUT(name) __global storage_t(X)* name, ulong name##_offset

static inline float logistic(float v) { return 1.0f / (1.0f + exp(-v)); }
