/* Compiled as C99: the header is C, and a session runs from C. */
#include "check.h"
#include "twice_model.h"

static void test_devices(void)
{
    clprim_device device;
    CHECK(clprim_device_count() > 0);
    CHECK(clprim_device_get(0, &device) == CLPRIM_OK && device.name[0] && device.global_memory > 0);
    CHECK(clprim_device_get(1000, &device) == CLPRIM_INVALID_ARGUMENT && clprim_last_error()[0]);
    CHECK(clprim_version()[0]);
}

static void test_tensors(void)
{
    const int64_t shape[] = {2, 2}, negative[] = {-1}, huge[] = {INT64_MAX, 4};
    const char* words[] = {"a", "bc", "", "d"};
    const char* text = NULL;
    clprim_tensor* tensor = NULL;
    CHECK(clprim_tensor_create_strings(shape, 2, words, &tensor) == CLPRIM_OK);
    CHECK(clprim_tensor_type(tensor) == CLPRIM_STRING && clprim_tensor_dims(tensor) == 2);
    CHECK(clprim_tensor_string(tensor, 1, &text) == CLPRIM_OK && strcmp(text, "bc") == 0);
    CHECK(clprim_tensor_string(tensor, 4, &text) == CLPRIM_INVALID_ARGUMENT);
    clprim_tensor_free(tensor);
    tensor = NULL;
    CHECK(clprim_tensor_create(CLPRIM_FLOAT32, negative, 1, words, &tensor) == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_tensor_create(CLPRIM_FLOAT32, huge, 2, words, &tensor) == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_tensor_create((clprim_type)99, shape, 2, words, &tensor) == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_tensor_create(CLPRIM_FLOAT32, shape, 2, NULL, &tensor) == CLPRIM_INVALID_ARGUMENT);
    CHECK(tensor == NULL);
    clprim_tensor_free(NULL);
}

static void test_session(void)
{
    const float values[] = {1, 2.5f, -3};
    const int64_t shape[] = {3};
    const void* data = NULL;
    clprim_tensor* x = NULL;
    clprim_session* session = NULL;
    clprim_port port;
    clprim_binding in = {"x", NULL}, out = {"y", NULL}, wrong = {"z", NULL}, nameless = {NULL, NULL}, twice[2];

    CHECK(clprim_session_create("no_such_file.onnx", NULL, &session) == CLPRIM_INVALID_ARGUMENT);
    CHECK(strstr(clprim_last_error(), "no_such_file.onnx") != NULL);
    CHECK(clprim_session_create_from_memory(model, sizeof model - 5, NULL, NULL, &session) == CLPRIM_INVALID_ARGUMENT);
    CHECK(session == NULL);
    CHECK(clprim_session_create_from_memory(model, sizeof model, NULL, NULL, &session) == CLPRIM_OK);
    if (!session)
        return;
    CHECK(clprim_session_input_count(session) == 1 && strcmp(clprim_session_input_name(session, 0), "x") == 0);
    CHECK(clprim_session_output_count(session) == 1 && strcmp(clprim_session_output_name(session, 0), "y") == 0);
    CHECK(clprim_session_output_name(session, 1) == NULL);
    CHECK(clprim_session_input(session, 0, &port) == CLPRIM_OK && strcmp(port.name, "x") == 0);
    CHECK(port.type == CLPRIM_FLOAT32 && port.is_tensor && port.has_shape && port.dims == 1);
    CHECK(port.shape[0] == -1 && port.names[0][0] == 0);
    CHECK(clprim_session_output(session, 0, &port) == CLPRIM_OK && strcmp(port.name, "y") == 0);
    CHECK(clprim_session_output(session, 1, &port) == CLPRIM_INVALID_ARGUMENT);

    CHECK(clprim_tensor_create(CLPRIM_FLOAT32, shape, 1, values, &x) == CLPRIM_OK);
    in.tensor = x;
    CHECK(clprim_session_run(session, &in, 1, &out, 1) == CLPRIM_OK && out.tensor != NULL);
    CHECK(clprim_tensor_type(out.tensor) == CLPRIM_FLOAT32 && clprim_tensor_shape(out.tensor)[0] == 3);
    CHECK(clprim_tensor_bytes(out.tensor) == sizeof values);
    if (clprim_tensor_data(out.tensor, &data) == CLPRIM_OK) {
        const float* y = (const float*)data;
        CHECK(y[0] == 2 && y[1] == 5 && y[2] == -6);
    }
    clprim_tensor_free(out.tensor);

    CHECK(clprim_session_run(session, NULL, 0, &out, 1) == CLPRIM_INVALID_ARGUMENT);
    twice[0] = twice[1] = in;
    REFUSED("input_count is 2", clprim_session_run, session, twice, 2, &out, 1);
    CHECK(clprim_session_run(session, NULL, 1, &out, 1) == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_session_run(session, &in, 1, NULL, 1) == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_session_run(session, &in, 1, &out, 0) == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_session_run(session, &nameless, 1, &out, 1) == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_session_run(session, &in, 1, &nameless, 1) == CLPRIM_INVALID_ARGUMENT);
    in.tensor = NULL;
    CHECK(clprim_session_run(session, &in, 1, &out, 1) == CLPRIM_INVALID_ARGUMENT && strstr(clprim_last_error(), "'x'"));
    in.tensor = x;
    CHECK(clprim_session_run(session, &in, 1, &wrong, 1) == CLPRIM_INVALID_ARGUMENT && wrong.tensor == NULL);
    clprim_tensor_free(x);
    clprim_session_free(session);
}

/* Outputs in memory of the caller's. */
static void test_run_into(void)
{
    const float values[] = {1, 2.5f, -3}, zeros[] = {0, 0, 0};
    const int64_t shape[] = {3}, other[] = {2};
    const char* word = "a";
    const void* data = NULL;
    void *buffer = NULL, *again = NULL;
    size_t offset = 0;
    clprim_tensor *x = NULL, *y = NULL, *small = NULL, *text = NULL;
    clprim_session* session = NULL;
    clprim_binding in = {"x", NULL}, out = {"y", NULL};

    CHECK(clprim_session_create_from_memory(model, sizeof model, NULL, NULL, &session) == CLPRIM_OK);
    CHECK(clprim_tensor_create(CLPRIM_FLOAT32, shape, 1, values, &x) == CLPRIM_OK);
    CHECK(clprim_tensor_create(CLPRIM_FLOAT32, shape, 1, zeros, &y) == CLPRIM_OK);
    CHECK(clprim_tensor_create(CLPRIM_FLOAT32, other, 1, zeros, &small) == CLPRIM_OK);
    CHECK(clprim_tensor_create_strings(NULL, 0, &word, &text) == CLPRIM_OK);
    in.tensor = x;
    out.tensor = y;
    for (int run = 0; run < 5; ++run) { /* recorded and replayed from the third on */
        CHECK(clprim_session_run_into(session, &in, 1, &out, 1) == CLPRIM_OK && out.tensor == y);
        CHECK(clprim_tensor_data(y, &data) == CLPRIM_OK && ((const float*)data)[1] == 5);
        CHECK(clprim_tensor_buffer(y, NULL, &again, &offset) == CLPRIM_OK && (run == 0 || again == buffer));
        buffer = again;
    }
    out.tensor = x; /* the input's own memory */
    CHECK(clprim_session_run_into(session, &in, 1, &out, 1) == CLPRIM_OK && out.tensor == x);
    CHECK(clprim_session_run_into(session, &in, 1, &out, 1) == CLPRIM_OK);
    CHECK(clprim_tensor_data(x, &data) == CLPRIM_OK);
    CHECK(((const float*)data)[0] == 4 && ((const float*)data)[2] == -12);
    CHECK(clprim_tensor_data(y, &data) == CLPRIM_OK && ((const float*)data)[0] == 2);
    out.tensor = small;
    CHECK(clprim_session_run_into(session, &in, 1, &out, 1) == CLPRIM_INVALID_ARGUMENT && out.tensor == small);
    out.tensor = text;
    CHECK(clprim_session_run_into(session, &in, 1, &out, 1) == CLPRIM_INVALID_ARGUMENT);
    out.tensor = NULL;
    CHECK(clprim_session_run_into(session, &in, 1, &out, 1) == CLPRIM_OK && out.tensor != NULL && out.tensor != x);
    clprim_tensor_free(out.tensor);
    out.tensor = y;
    CHECK(clprim_session_run_into(NULL, &in, 1, &out, 1) == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_session_run_into(session, &in, 1, &out, 0) == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_session_run_into(session, &in, 1, NULL, 1) == CLPRIM_INVALID_ARGUMENT);
    clprim_tensor_free(x);
    clprim_tensor_free(y);
    clprim_tensor_free(small);
    clprim_tensor_free(text);
    clprim_session_free(session);
}

static void test_session_options(void)
{
    const char *path = "test_c_api.onnx", *trace = "test_c_api.json";
    const float values[] = {1, 2.5f, -3};
    const int64_t shape[] = {3};
    const clprim_size unknown = {"rows", 3};
    clprim_session_options options = {.profile = 1}, wrong = {.sizes = &unknown, .size_count = 1};
    clprim_session_options others = {.no_recording = 1, .high_priority = 1}, one = {.threads = 1},
                           nowhere = {.programs = "no_such_folder"};
    clprim_tensor* x = NULL;
    clprim_session* session = NULL;
    clprim_binding in = {"x", NULL}, out = {"y", NULL};
    clprim_session_options queue = {0}, level = {0};
    const char* const levels[] = {"none", "basic", "all"};
    size_t i;
    clprim_opencl opencl;
    const void* data = NULL;
    char text[16] = "";
    FILE* file = fopen(path, "wb");

    CHECK(file && fwrite(model, 1, sizeof model, file) == sizeof model && fclose(file) == 0);
    CHECK(clprim_session_create_with(path, NULL, &wrong, &session) == CLPRIM_INVALID_ARGUMENT);
    CHECK(session == NULL && strstr(clprim_last_error(), "rows"));
    CHECK(clprim_session_create_with(path, NULL, NULL, &session) == CLPRIM_OK);
    CHECK(clprim_session_trace(session, trace) == CLPRIM_INVALID_ARGUMENT);
    clprim_session_free(session);
    /* A driver that does not divide its devices says so. */
    if (clprim_session_create_with(path, NULL, &one, &session) != CLPRIM_NOT_SUPPORTED) {
        CHECK(clprim_tensor_create(CLPRIM_FLOAT32, shape, 1, values, &x) == CLPRIM_OK);
        in.tensor = x;
        CHECK(clprim_session_run(session, &in, 1, &out, 1) == CLPRIM_OK);
        CHECK(clprim_tensor_data(out.tensor, &data) == CLPRIM_OK && ((const float*)data)[2] == -6);
        clprim_tensor_free(out.tensor);
        clprim_tensor_free(x);
        clprim_session_free(session);
    }
    for (i = 0; i < sizeof levels / sizeof *levels; ++i) {
        level.optimization = levels[i];
        CHECK(clprim_session_create_with(path, NULL, &level, &session) == CLPRIM_OK);
        clprim_session_free(session);
    }
    level.no_optimization = 1; /* beside "all" */
    CHECK(clprim_session_create_with(path, NULL, &level, &session) == CLPRIM_INVALID_ARGUMENT);
    CHECK(strstr(clprim_last_error(), "no_optimization"));
    level.optimization = "none";
    CHECK(clprim_session_create_with(path, NULL, &level, &session) == CLPRIM_OK);
    clprim_session_free(session);
    level.optimization = "some";
    CHECK(clprim_session_create_with(path, NULL, &level, &session) == CLPRIM_INVALID_ARGUMENT);
    CHECK(strstr(clprim_last_error(), "'some'; expected none, basic or all"));
    CHECK(clprim_opencl_get(NULL, &opencl) == CLPRIM_OK);
    queue.opencl_queue = opencl.queue;
    CHECK(clprim_session_create_with(path, NULL, &queue, &session) == CLPRIM_OK);
    clprim_session_free(session);
    queue.threads = 1;
    CHECK(clprim_session_create_with(path, NULL, &queue, &session) == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_session_create_with(path, NULL, &options, &session) == CLPRIM_OK);
    CHECK(clprim_session_metadata(session, "author") == NULL);
    clprim_session_cancel(session); /* nothing is under way */
    CHECK(clprim_tensor_create(CLPRIM_FLOAT32, shape, 1, values, &x) == CLPRIM_OK);
    in.tensor = x;
    CHECK(clprim_session_run(session, &in, 1, &out, 1) == CLPRIM_OK);
    CHECK(clprim_session_trace(session, "no_such_folder/trace.json") == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_session_trace(session, trace) == CLPRIM_OK);
    file = fopen(trace, "rb");
    CHECK(file && fread(text, 1, 15, file) == 15 && text[0] == '{' && fclose(file) == 0);
    clprim_tensor_free(out.tensor);
    clprim_session_free(session);
    session = NULL;
    CHECK(clprim_session_create_with(path, NULL, &nowhere, &session) == CLPRIM_INVALID_ARGUMENT);
    CHECK(session == NULL && strstr(clprim_last_error(), "no_such_folder"));
    CHECK(clprim_session_create_with(path, NULL, &others, &session) == CLPRIM_OK);
    CHECK(clprim_session_save(session, "no_such_folder/model.onnx") == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_session_save(session, path) == CLPRIM_OK);
    clprim_session_free(session);
    CHECK(clprim_session_create(path, NULL, &session) == CLPRIM_OK);
    CHECK(clprim_session_run(session, &in, 1, &out, 1) == CLPRIM_OK);
    clprim_tensor_free(out.tensor);
    clprim_tensor_free(x);
    clprim_session_free(session);
    remove(path);
    remove(trace);
}

static void count_line(void* user, int level, const char* line) { *(int*)user += level > 0 && line != NULL; }

static void test_runtime(void)
{
    int lines = 0;
    CHECK(clprim_use_programs(NULL) == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_use_programs("no_such_folder") == CLPRIM_INVALID_ARGUMENT);
    CHECK(clprim_set_log(count_line, &lines) == CLPRIM_OK);
    CHECK(clprim_set_log(NULL, NULL) == CLPRIM_OK && lines == 0);
}

/* Results, also of replayed runs and of a queue of high priority, are read after their session is gone. */
static void test_results_after_their_session(void)
{
    const char* path = "test_c_api_after.onnx";
    const int64_t shape[] = {3};
    int high, i;
    FILE* file = fopen(path, "wb");
    CHECK(file && fwrite(model, 1, sizeof model, file) == sizeof model && fclose(file) == 0);
    for (high = 0; high < 2; ++high) {
        clprim_session_options options = {.high_priority = high};
        clprim_session* session = NULL;
        clprim_binding in = {"x", NULL}, out = {"y", NULL};
        clprim_tensor* results[6];
        CHECK(clprim_session_create_with(path, NULL, &options, &session) == CLPRIM_OK);
        for (i = 0; i < 6; ++i) {
            float values[3];
            values[0] = values[1] = values[2] = (float)i;
            CHECK(clprim_tensor_create(CLPRIM_FLOAT32, shape, 1, values, &in.tensor) == CLPRIM_OK);
            CHECK(clprim_session_run(session, &in, 1, &out, 1) == CLPRIM_OK);
            results[i] = out.tensor;
            clprim_tensor_free(in.tensor);
        }
        clprim_session_free(session);
        for (i = 0; i < 6; ++i) {
            const void* data = NULL;
            CHECK(clprim_tensor_data(results[i], &data) == CLPRIM_OK && ((const float*)data)[2] == (float)(2 * i));
            clprim_tensor_free(results[i]);
        }
    }
    remove(path);
}

int main(void)
{
    test_devices();
    test_tensors();
    test_session();
    test_run_into();
    test_session_options();
    test_runtime();
    test_results_after_their_session();
    return failures != 0;
}
