/* Sequences and maps from C: ai.onnx.ml's ZipMap of x [n, 2], for keys of both types, and SequenceConstruct(x, x). The
 * models are written out by hand. */
#include "check.h"

/* ZipMap with classlabels_strings ["cat", "dog"], to a sequence of maps from strings to float. */
static const unsigned char by_names[] = {
    8, 8, 58, 'p', 10, 62, 10, 1, 'x', 18, 1, 'y', 34, 6, 'Z', 'i', 'p', 'M', 'a', 'p', 42, 34, 10, 19, 'c',
    'l', 'a', 's', 's', 'l', 'a', 'b', 'e', 'l', 's', 95, 's', 't', 'r', 'i', 'n', 'g', 's', 'J', 3, 'c', 'a', 't',
    'J', 3, 'd', 'o', 'g', 160, 1, 8, 58, 10, 'a', 'i', 46, 'o', 'n', 'n', 'x', 46, 'm', 'l', 18, 1, 'g', 'Z', 20,
    10, 1, 'x', 18, 15, 10, 13, 8, 1, 18, 9, 10, 3, 18, 1, 'n', 10, 2, 8, 2, 'b', 21, 10, 1, 'y', 18, 16, 34, 14,
    10, 12, 42, 10, 8, 8, 18, 6, 10, 4, 8, 1, 18, 0, 'B', 14, 10, 10, 'a', 'i', 46, 'o', 'n', 'n', 'x', 46, 'm',
    'l', 16, 1};

/* ZipMap with classlabels_int64s [-3, 1 << 40], to a sequence of maps from int64 to float. */
static const unsigned char by_numbers[] = {
    8, 8, 58, 'w', 10, 'E', 10, 1, 'x', 18, 1, 'y', 34, 6, 'Z', 'i', 'p', 'M', 'a', 'p', 42, 41, 10, 18,
    'c', 'l', 'a', 's', 's', 'l', 'a', 'b', 'e', 'l', 's', 95, 'i', 'n', 't', 54, 52, 's', 64, 253, 255, 255, 255,
    255, 255, 255, 255, 255, 1, 64, 128, 128, 128, 128, 128, 32, 160, 1, 7, 58, 10, 'a', 'i', 46, 'o', 'n', 'n',
    'x', 46, 'm', 'l', 18, 1, 'g', 'Z', 20, 10, 1, 'x', 18, 15, 10, 13, 8, 1, 18, 9, 10, 3, 18, 1, 'n', 10, 2, 8,
    2, 'b', 21, 10, 1, 'y', 18, 16, 34, 14, 10, 12, 42, 10, 8, 7, 18, 6, 10, 4, 8, 1, 18, 0, 'B', 14, 10, 10, 'a',
    'i', 46, 'o', 'n', 'n', 'x', 46, 'm', 'l', 16, 1};

/* SequenceConstruct(x, x) -> y, opset 17; float x [n]. */
static const unsigned char twice[] = {
    0x08, 8, 0x42, 2, 0x10, 17, 0x3a, 65,
    0x0a, 28, 0x0a, 1, 'x', 0x0a, 1, 'x', 0x12, 1, 'y', 0x22, 17, 'S', 'e', 'q', 'u', 'e', 'n', 'c', 'e', 'C', 'o', 'n',
    's', 't', 'r', 'u', 'c', 't',
    0x12, 1, 'g',
    0x5a, 15, 0x0a, 1, 'x', 0x12, 10, 0x0a, 8, 0x08, 1, 0x12, 4, 0x0a, 2, 0x12, 0,
    0x62, 13, 0x0a, 1, 'y', 0x12, 8, 0x22, 6, 0x0a, 4, 0x0a, 2, 0x08, 1};

static clprim_tensor* run(const unsigned char* model, size_t bytes, const int64_t* shape, size_t dims, const float* x)
{
    clprim_session* session = NULL;
    clprim_binding in = {"x", NULL}, out = {"y", NULL};
    clprim_port port;
    CHECK(clprim_session_create_from_memory(model, bytes, NULL, NULL, &session) == CLPRIM_OK);
    CHECK(clprim_tensor_create(CLPRIM_FLOAT32, shape, dims, x, &in.tensor) == CLPRIM_OK);
    CHECK(clprim_session_output(session, 0, &port) == CLPRIM_OK && !port.is_tensor);
    CHECK(clprim_session_run(session, &in, 1, &out, 1) == CLPRIM_OK);
    clprim_tensor_free(in.tensor);
    clprim_session_free(session);
    return out.tensor;
}

/* The map at `index`, and the tensors of its keys and of its two values, which it must have. */
static clprim_tensor* keys_of(const clprim_tensor* maps, size_t index, float first, float second)
{
    clprim_tensor *map = NULL, *keys = NULL, *values = NULL;
    const void* data = NULL;
    CHECK(clprim_sequence_item(maps, index, &map) == CLPRIM_OK);
    CHECK(clprim_tensor_kind(map) == CLPRIM_KIND_MAP && clprim_map_size(map) == 2 && clprim_sequence_size(map) == 0);
    CHECK(clprim_map_keys(map, &keys) == CLPRIM_OK && clprim_map_values(map, &values) == CLPRIM_OK);
    clprim_tensor_free(map);                                   /* what it led to lives on */
    CHECK(clprim_tensor_kind(values) == CLPRIM_KIND_TENSOR && clprim_tensor_type(values) == CLPRIM_FLOAT32);
    CHECK(clprim_tensor_dims(values) == 1 && clprim_tensor_shape(values)[0] == 2);
    CHECK(clprim_tensor_data(values, &data) == CLPRIM_OK);
    CHECK(((const float*)data)[0] == first && ((const float*)data)[1] == second);
    clprim_tensor_free(values);
    return keys;
}

static void test_maps(void)
{
    const int64_t shape[] = {3, 2};
    const float x[] = {1, 2, 3, 4, 5, 6};
    size_t i;
    clprim_tensor* names = run(by_names, sizeof by_names, shape, 2, x);
    clprim_tensor* numbers = run(by_numbers, sizeof by_numbers, shape, 2, x);
    CHECK(clprim_tensor_kind(names) == CLPRIM_KIND_SEQUENCE && clprim_sequence_size(names) == 3);
    CHECK(clprim_sequence_size(numbers) == 3 && clprim_map_size(numbers) == 0 && clprim_tensor_type(numbers) == 0);
    for (i = 0; i < 3; ++i) {
        clprim_tensor* keys = keys_of(names, i, x[2 * i], x[2 * i + 1]);
        const char* text = NULL;
        const void* data = NULL;
        CHECK(clprim_tensor_type(keys) == CLPRIM_STRING && clprim_tensor_shape(keys)[0] == 2);
        CHECK(clprim_tensor_string(keys, 0, &text) == CLPRIM_OK && strcmp(text, "cat") == 0);
        CHECK(clprim_tensor_string(keys, 1, &text) == CLPRIM_OK && strcmp(text, "dog") == 0);
        clprim_tensor_free(keys);
        keys = keys_of(numbers, i, x[2 * i], x[2 * i + 1]);
        CHECK(clprim_tensor_type(keys) == CLPRIM_INT64 && clprim_tensor_data(keys, &data) == CLPRIM_OK);
        CHECK(((const int64_t*)data)[0] == -3 && ((const int64_t*)data)[1] == (int64_t)1 << 40);
        clprim_tensor_free(keys);
    }
    clprim_tensor_free(names);
    clprim_tensor_free(numbers);
}

static void test_sequence_of_tensors(void)
{
    const int64_t shape[] = {3};
    const float x[] = {1, 2, 3};
    const void* data = NULL;
    clprim_tensor *both = run(twice, sizeof twice, shape, 1, x), *item = NULL;
    CHECK(clprim_sequence_size(both) == 2 && clprim_sequence_item(both, 1, &item) == CLPRIM_OK);
    clprim_tensor_free(both);
    CHECK(clprim_tensor_type(item) == CLPRIM_FLOAT32 && clprim_tensor_shape(item)[0] == 3);
    CHECK(clprim_tensor_data(item, &data) == CLPRIM_OK && ((const float*)data)[2] == 3);
    clprim_tensor_free(item);
}

static void test_refusals(void)
{
    const int64_t shape[] = {1, 2};
    const float x[] = {1, 2};
    const void* data = NULL;
    clprim_tensor *maps = run(by_names, sizeof by_names, shape, 2, x), *map = NULL, *tensor = NULL, *none = NULL;
    CHECK(clprim_sequence_item(maps, 0, &map) == CLPRIM_OK && clprim_map_keys(map, &tensor) == CLPRIM_OK);
    REFUSED("index is 1; the sequence has 1", clprim_sequence_item, maps, 1, &none);
    REFUSED("item is NULL", clprim_sequence_item, maps, 0, NULL);
    REFUSED("sequence is NULL; expected a sequence", clprim_sequence_item, NULL, 0, &none);
    REFUSED("sequence holds a map; expected a sequence", clprim_sequence_item, map, 0, &none);
    REFUSED("sequence holds a tensor", clprim_sequence_item, tensor, 0, &none);
    REFUSED("map is NULL; expected a map", clprim_map_keys, NULL, &none);
    REFUSED("map holds a sequence; expected a map", clprim_map_keys, maps, &none);
    REFUSED("keys is NULL", clprim_map_keys, map, NULL);
    REFUSED("map is NULL", clprim_map_values, NULL, &none);
    REFUSED("map holds a tensor", clprim_map_values, tensor, &none);
    REFUSED("values is NULL", clprim_map_values, map, NULL);
    REFUSED("tensor holds a map; expected a tensor", clprim_tensor_data, map, &data);
    REFUSED("tensor holds a sequence; expected a tensor", clprim_tensor_data, maps, &data);
    CHECK(none == NULL && clprim_sequence_size(NULL) == 0 && clprim_map_size(NULL) == 0);
    CHECK(clprim_tensor_kind(NULL) == CLPRIM_KIND_NONE);
    clprim_tensor_free(tensor);
    clprim_tensor_free(map);
    clprim_tensor_free(maps);
}

int main(void)
{
    test_maps();
    test_sequence_of_tensors();
    test_refusals();
    return failures != 0;
}
