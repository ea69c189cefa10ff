/* Wrong calls from C: each is refused with a message that names function and argument. */
#include "check.h"
#include "twice_model.h"

/* Every pointer may be NULL: then there is an error, or nothing to say. */
static void test_null(void)
{
    const int64_t shape[] = {1};
    const void* data = NULL;
    const char* text = NULL;
    clprim_tensor* tensor = NULL;
    clprim_session* session = NULL;
    clprim_port port;
    clprim_binding binding = {"x", NULL};
    CHECK(clprim_device_get(0, NULL) == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_device_get(-1, NULL) == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_tensor_create(CLPRIM_FLOAT32, NULL, 1, shape, &tensor) == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_tensor_create(CLPRIM_INT64, shape, 1, shape, NULL) == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_tensor_create_strings(shape, 1, NULL, &tensor) == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_tensor_create_strings(shape, 1, &text, &tensor) == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_tensor_type(NULL) == 0 && clprim_tensor_dims(NULL) == 0 && clprim_tensor_bytes(NULL) == 0);
    CHECK(clprim_tensor_shape(NULL) == NULL);
    CHECK(clprim_tensor_data(NULL, &data) == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_tensor_string(NULL, 0, &text) == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_session_create(NULL, NULL, &session) == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_session_create("model.onnx", NULL, NULL) == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_session_create_from_memory(NULL, 8, NULL, NULL, &session) == CLPRIM_INVALID_ARGUMENT);
    REFUSED("no such device", clprim_session_create_from_memory, model, sizeof model, NULL, "no such device", &session);
    CHECK(clprim_session_input_count(NULL) == 0 && clprim_session_output_count(NULL) == 0);
    CHECK(clprim_session_input_name(NULL, 0) == NULL && clprim_session_output_name(NULL, 0) == NULL);
    CHECK(clprim_session_input(NULL, 0, &port) == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_session_save(NULL, "model.onnx") == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_session_run(NULL, &binding, 1, &binding, 1) == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_tensor_create(CLPRIM_INT64, shape, 1, shape, &tensor) == CLPRIM_OK);
    CHECK(clprim_tensor_data(tensor, NULL) == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_tensor_string(tensor, 0, &text) == CLPRIM_INVALID_ARGUMENT);
    clprim_tensor_free(tensor);
    clprim_session_free(NULL);
}

/* Objects of OpenCL that are none, and sessions that are not there. */
static void test_null_objects(void)
{
    const int64_t shape[] = {4}, negative[] = {-4}, huge[] = {INT64_MAX};
    clprim_port port;
    clprim_tensor* tensor = NULL;
    void* buffer = NULL;
    size_t number = 0;
    REFUSED("", clprim_device_get, 0, NULL);
    REFUSED("", clprim_device_get, -1, NULL);
    REFUSED("", clprim_build_programs, NULL, NULL, &number);
    CHECK(clprim_build_programs("no such device", "/nonexistent", &number) != CLPRIM_OK && clprim_last_error()[0]);
    REFUSED("", clprim_opencl_get, NULL, NULL);
    REFUSED("", clprim_opencl_use_context, NULL);
    REFUSED("", clprim_opencl_wait_for, NULL, NULL);
    REFUSED("", clprim_tensor_adopt, CLPRIM_FLOAT32, shape, 1, NULL, 0, NULL, &tensor);
    REFUSED("", clprim_tensor_adopt, CLPRIM_FLOAT32, negative, 1, NULL, 0, NULL, &tensor);
    REFUSED("", clprim_tensor_adopt, CLPRIM_FLOAT32, huge, 1, NULL, 0, NULL, &tensor);
    REFUSED("", clprim_tensor_adopt, CLPRIM_FLOAT32, shape, 1, NULL, 0, NULL, NULL);
    REFUSED("", clprim_tensor_adopt, (clprim_type)99, shape, 1, NULL, 0, NULL, &tensor);
    REFUSED("", clprim_tensor_buffer, NULL, NULL, &buffer, &number);
    REFUSED("", clprim_session_output, NULL, 0, &port);
    REFUSED("", clprim_session_trace, NULL, "trace.json");
    REFUSED("", clprim_session_save, NULL, "model.onnx");
    clprim_session_cancel(NULL);
    CHECK(clprim_session_metadata(NULL, "key") == NULL && clprim_session_metadata(NULL, NULL) == NULL);
    CHECK(tensor == NULL && buffer == NULL);
}

/* Numbers that are none of counts, sizes, types or offsets: refused before any memory is read by them. */
static void test_numbers(void)
{
    const size_t counts[] = {(size_t)1 << 62, (size_t)-1, 65};
    const int64_t one[] = {1}, negative[] = {-5}, huge[] = {(int64_t)1 << 62};
    const int64_t wrapping[] = {(int64_t)1 << 32, (int64_t)1 << 32};
    const clprim_type types[] = {(clprim_type)0, (clprim_type)27, (clprim_type)-1, CLPRIM_TYPE_LAST};
    const float number = 1;
    const char *word = "a", *text;
    const void* data;
    void* buffer;
    size_t i, offset;
    clprim_tensor *tensor = NULL, *numbers = NULL, *strings = NULL;

    CHECK(clprim_tensor_create(CLPRIM_FLOAT32, one, 1, &number, &numbers) == CLPRIM_OK);
    CHECK(clprim_tensor_create_strings(one, 1, &word, &strings) == CLPRIM_OK);
    CHECK(clprim_tensor_buffer(numbers, NULL, &buffer, &offset) == CLPRIM_OK);
    for (i = 0; i < 3; ++i) {
        REFUSED("dims is", clprim_tensor_create, CLPRIM_FLOAT32, one, counts[i], &number, &tensor);
        REFUSED("dims is", clprim_tensor_create_strings, one, counts[i], &word, &tensor);
        REFUSED("dims is", clprim_tensor_adopt, CLPRIM_FLOAT32, one, counts[i], buffer, offset, NULL, &tensor);
        REFUSED("index is", clprim_tensor_string, strings, counts[i], &text);
    }
    for (i = 0; i < 4; ++i) {
        REFUSED("type is", clprim_tensor_create, types[i], one, 1, &number, &tensor);
        REFUSED("type is", clprim_tensor_adopt, types[i], one, 1, buffer, offset, NULL, &tensor);
    }
    REFUSED("clprim_tensor_create_strings", clprim_tensor_create, CLPRIM_STRING, one, 1, &number, &tensor);
    REFUSED("type is CLPRIM_STRING", clprim_tensor_adopt, CLPRIM_STRING, one, 1, buffer, offset, NULL, &tensor);
    REFUSED("shape[0] is -5", clprim_tensor_create, CLPRIM_FLOAT32, negative, 1, &number, &tensor);
    REFUSED("more than memory", clprim_tensor_create, CLPRIM_FLOAT32, huge, 1, &number, &tensor);
    REFUSED("more than memory", clprim_tensor_create, CLPRIM_FLOAT32, wrapping, 2, &number, &tensor);
    REFUSED("more than memory", clprim_tensor_create_strings, huge, 1, &word, &tensor);
    REFUSED("reaches beyond", clprim_tensor_adopt, CLPRIM_FLOAT32, one, 1, buffer, (size_t)1 << 62, NULL, &tensor);
    REFUSED("offset is", clprim_tensor_adopt, CLPRIM_UINT8, one, 1, buffer, (size_t)-1, NULL, &tensor);
    REFUSED("not a multiple", clprim_tensor_adopt, CLPRIM_FLOAT32, one, 1, buffer, offset + 1, NULL, &tensor);
    REFUSED("buffer is NULL", clprim_tensor_adopt, CLPRIM_FLOAT32, one, 1, NULL, 0, NULL, &tensor);
    REFUSED("no such device", clprim_tensor_adopt, CLPRIM_FLOAT32, one, 1, buffer, offset, "no such device", &tensor);
    REFUSED("clprim_tensor_string reads", clprim_tensor_data, strings, &data);
    REFUSED("float32; expected strings", clprim_tensor_string, numbers, 0, &text);
    REFUSED("strings", clprim_tensor_buffer, strings, NULL, &buffer, &offset);
    REFUSED("no such device", clprim_tensor_buffer, numbers, "no such device", &buffer, &offset);
    CHECK(tensor == NULL);
    clprim_tensor_free(numbers);
    clprim_tensor_free(strings);
}

static void test_counts_of_sessions(void)
{
    const char* path = "test_c_api_counts.onnx";
    const size_t counts[] = {(size_t)1 << 62, (size_t)-1, 2};
    const float values[] = {1, 2};
    const double doubles[] = {1, 2};
    const int64_t shape[] = {2}, square[] = {1, 2};
    const clprim_size size = {"rows", 2}, nameless_size = {NULL, 2};
    clprim_session_options options = {.sizes = &size};
    clprim_tensor *x = NULL, *wide = NULL, *two = NULL;
    clprim_session* session = NULL;
    clprim_binding in = {"x", NULL}, out = {"y", NULL}, outs[2] = {{"y", NULL}, {"y", NULL}};
    clprim_port port;
    char long_path[6000] = "";
    size_t i;
    FILE* file = fopen(path, "wb");

    CHECK(file && fwrite(model, 1, sizeof model, file) == sizeof model && fclose(file) == 0);
    REFUSED("bytes is 0", clprim_session_create_from_memory, model, 0, NULL, NULL, &session);
    for (i = 0; i < 2; ++i)
        REFUSED("at most 2 GiB", clprim_session_create_from_memory, model, counts[i], NULL, NULL, &session);
    for (i = 0; i < 3; ++i) {
        options.size_count = counts[i];
        REFUSED("size_count is", clprim_session_create_with, path, NULL, &options, &session);
    }
    options.size_count = 1;
    REFUSED("rows", clprim_session_create_with, path, NULL, &options, &session);
    options.sizes = &nameless_size;
    REFUSED("sizes[0].name is NULL", clprim_session_create_with, path, NULL, &options, &session);
    options.sizes = NULL;
    REFUSED("sizes is NULL", clprim_session_create_with, path, NULL, &options, &session);
    REFUSED("no such device", clprim_session_create, path, "no such device", &session);
    memset(long_path, 'a', sizeof long_path - 1);
    REFUSED("aaa", clprim_session_create, long_path, NULL, &session);
    REFUSED("aaa", clprim_build_programs, NULL, long_path, &i);
    REFUSED("aaa", clprim_use_programs, long_path);
    CHECK(session == NULL && clprim_session_create(path, NULL, &session) == CLPRIM_OK);
    remove(path);
    if (!session)
        return;
    CHECK(clprim_tensor_create(CLPRIM_FLOAT32, shape, 1, values, &x) == CLPRIM_OK);
    CHECK(clprim_tensor_create(CLPRIM_FLOAT32, square, 2, values, &two) == CLPRIM_OK);
    CHECK(clprim_tensor_create(CLPRIM_FLOAT64, shape, 1, doubles, &wide) == CLPRIM_OK);
    in.tensor = x;
    for (i = 0; i < 3; ++i) {
        REFUSED("input_count is", clprim_session_run, session, &in, counts[i], &out, 1);
        REFUSED("output_count is", clprim_session_run, session, &in, 1, &out, counts[i]);
        REFUSED("index is", clprim_session_input, session, counts[i], &port);
        CHECK(clprim_session_input_name(session, counts[i]) == NULL);
    }
    REFUSED("output_count is 2", clprim_session_run, session, &in, 1, outs, 2);
    REFUSED("output_count is 0", clprim_session_run, session, &in, 1, &out, 0);
    in.tensor = wide;
    REFUSED("must be float32", clprim_session_run, session, &in, 1, &out, 1);
    in.tensor = two;
    REFUSED("got float32 [1, 2]", clprim_session_run, session, &in, 1, &out, 1);
    CHECK(out.tensor == NULL && outs[0].tensor == NULL);
    clprim_tensor_free(x);
    clprim_tensor_free(two);
    clprim_tensor_free(wide);
    clprim_session_free(session);
}

int main(void)
{
    test_null();
    test_null_objects();
    test_numbers();
    test_counts_of_sessions();
    return failures != 0;
}
