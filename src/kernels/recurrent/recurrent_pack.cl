// -DBYTES=int8|uint8 -DLOWEST=0|128 -DDOT_VECTOR=64|32 [-DDOT_VEX]
#include "core/dtype.cl"
#include "kernels/recurrent/recurrent_words.cl"
