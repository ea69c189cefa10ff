// -DT=dtype [-DCOMPLEX]
#ifdef COMPLEX
#define IS_SET(v) ((v).x != 0 || (v).y != 0)
#else
#define IS_SET(v) ((v) != 0)
#endif

typedef struct {
    int dims, pad;
    long sizes[16];
} shape_t;
