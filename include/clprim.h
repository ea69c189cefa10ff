/* clprim for C and for whatever binds to C: devices, sessions of ONNX models, tensors.
 *
 *     clprim_session* session;
 *     if (clprim_session_create("model.onnx", NULL, &session) != CLPRIM_OK)
 *         fprintf(stderr, "%s\n", clprim_last_error());
 *     clprim_binding in = {"x", x}, out = {"y", NULL};
 *     clprim_session_run(session, &in, 1, &out, 1);
 *
 * A function that fails returns its status, leaves a message for clprim_last_error() that begins with the function's
 * name and says which argument was wrong and what was expected, and changes nothing else. Handles that a function gives
 * belong to the caller, who frees them; freeing NULL does nothing. Tensors outlive the session that made them.
 *
 * A session may run in several threads at once; tensors are immutable and may be used from several threads. Freeing a
 * session or a tensor must wait until no other thread uses it.
 *
 * NULL, numbers out of range, unknown names, types and shapes that do not fit are errors. What no library can tell from
 * a pointer is the caller's to keep to, and undefined otherwise, as in C itself: that a handle came from clprim, is of
 * the type that the function takes and was not freed; that an OpenCL handle is a live one of its kind; that texts end
 * with a zero byte; and that an array has as many elements as its count, shape or `bytes` says. */
#ifndef CLPRIM_H
#define CLPRIM_H

#include <stddef.h>
#include <stdint.h>

#include <clprim/version.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__) && !defined(_WIN32)
#pragma GCC visibility push(default)
#endif

typedef enum clprim_status {
    CLPRIM_OK = 0,
    CLPRIM_INVALID_ARGUMENT = 1, /* an argument breaks the function's contract */
    CLPRIM_NOT_SUPPORTED = 2,    /* meaningful, but not on this device or in this build */
    CLPRIM_INDEX_ERROR = 3,      /* an index lay outside its dimension */
    CLPRIM_OUT_OF_MEMORY = 4,
    CLPRIM_OPENCL_ERROR = 5,     /* an OpenCL call or a program's compilation failed */
    CLPRIM_INTERNAL_ERROR = 6,
    CLPRIM_CANCELLED = 7         /* clprim_session_cancel ended the run */
} clprim_status;

/* Numbers as in onnx.proto's TensorProto.DataType. Types below a byte and 8-bit floats take one byte an element. */
typedef enum clprim_type {
    CLPRIM_FLOAT32 = 1, CLPRIM_UINT8 = 2, CLPRIM_INT8 = 3, CLPRIM_UINT16 = 4, CLPRIM_INT16 = 5, CLPRIM_INT32 = 6,
    CLPRIM_INT64 = 7, CLPRIM_STRING = 8, CLPRIM_BOOL = 9, CLPRIM_FLOAT16 = 10, CLPRIM_FLOAT64 = 11, CLPRIM_UINT32 = 12,
    CLPRIM_UINT64 = 13, CLPRIM_COMPLEX64 = 14, CLPRIM_COMPLEX128 = 15, CLPRIM_BFLOAT16 = 16,
    CLPRIM_TYPE_LAST = 0x7fffffff /* none: a wrong number is an error, in C++ too, whose enums hold what they name */
} clprim_type;

typedef struct clprim_session clprim_session;
typedef struct clprim_tensor clprim_tensor;

const char* clprim_version(void);
/* Of the last function that failed in this thread; valid until the next call that fails. Never NULL. */
const char* clprim_last_error(void);

/* Devices. Texts live as long as the process. */
typedef struct clprim_device {
    const char* id; /* "0:1", for clprim_session_create */
    const char* name;
    const char* vendor;
    int is_cpu;
    size_t global_memory; /* bytes */
} clprim_device;
/* A folder that `clprim prepare` wrote: its programs are used and nothing is written there. They are machine code:
 * trust it as a library. */
clprim_status clprim_use_programs(const char* folder);
/* Lines that the library has to say (level 1: information, 2: a warning) go to `function`, from any thread, in place of
 * stderr; NULL: to stderr again. */
clprim_status clprim_set_log(void (*function)(void* user, int level, const char* line), void* user);
int clprim_device_count(void); /* 0 where there are none, or the drivers fail, which clprim_last_error() says */
clprim_status clprim_device_get(int index, clprim_device* device);

/* Builds the programs whose texts CLPRIM_DUMP_PROGRAMS left in `folder`, and keeps them in the cache on disk, the
 * longest first. Processes that are given the same folder share the work; `built` is this one's part. */
clprim_status clprim_build_programs(const char* device, const char* folder, size_t* built);

/* Tensors. `data` are the elements, row-major, and are copied; `shape` has `dims` sizes (NULL for none), at most 64. */
clprim_status clprim_tensor_create(clprim_type type, const int64_t* shape, size_t dims, const void* data,
                                   clprim_tensor** tensor);
clprim_status clprim_tensor_create_strings(const int64_t* shape, size_t dims, const char* const* strings,
                                           clprim_tensor** tensor);
void clprim_tensor_free(clprim_tensor* tensor);
int clprim_tensor_type(const clprim_tensor* tensor); /* a clprim_type, or another of ONNX's numbers; 0: no tensor */
size_t clprim_tensor_dims(const clprim_tensor* tensor);
const int64_t* clprim_tensor_shape(const clprim_tensor* tensor);
size_t clprim_tensor_bytes(const clprim_tensor* tensor); /* of all elements; 0 for strings */
/* Waits for the device. The elements, or the strings, live as long as the tensor. Strings have no data, numbers no
 * strings. */
clprim_status clprim_tensor_data(const clprim_tensor* tensor, const void** data);
clprim_status clprim_tensor_string(const clprim_tensor* tensor, size_t index, const char** text);

/* Sequences and maps, which outputs may be: ai.onnx.ml's ZipMap gives a sequence of maps. They have handles of the same
 * type, which functions for tensors refuse, and lead to new handles for what is in them, the caller's to free.
 *
 *     clprim_sequence_item(out.tensor, 0, &map);
 *     clprim_map_keys(map, &keys);
 *     clprim_map_values(map, &values);
 *     clprim_tensor_data(values, &data);
 *     for (size_t i = 0; i < clprim_map_size(map); ++i)
 *         if (clprim_tensor_string(keys, i, &name) == CLPRIM_OK)
 *             printf("%s: %f\n", name, ((const float*)data)[i]); */
typedef enum clprim_kind {
    CLPRIM_KIND_NONE = 0, CLPRIM_KIND_TENSOR = 1, CLPRIM_KIND_SEQUENCE = 2, CLPRIM_KIND_MAP = 3
} clprim_kind;
clprim_kind clprim_tensor_kind(const clprim_tensor* tensor); /* CLPRIM_KIND_NONE: absent, as an optional may be */
size_t clprim_sequence_size(const clprim_tensor* sequence); /* of items; 0 for what is no sequence */
clprim_status clprim_sequence_item(const clprim_tensor* sequence, size_t index, clprim_tensor** item);
size_t clprim_map_size(const clprim_tensor* map); /* of keys; 0 for what is no map */
/* Tensors of shape [size]: the keys, strings or int64, and in the same order their values. */
clprim_status clprim_map_keys(const clprim_tensor* map, clprim_tensor** keys);
clprim_status clprim_map_values(const clprim_tensor* map, clprim_tensor** values);

/* OpenCL's own objects, for programs that use OpenCL as well: a cl_context, cl_device_id, cl_command_queue (in order;
 * sessions enqueue there), as void* so that this header needs none of OpenCL's. They are clprim's: retain them to keep
 * them. */
typedef struct clprim_opencl {
    void *context, *device, *queue;
} clprim_opencl;
clprim_status clprim_opencl_get(const char* device, clprim_opencl* opencl);
/* Makes clprim use this cl_context for its devices. To be called before anything else of clprim uses them. */
clprim_status clprim_opencl_use_context(void* context);
/* Sessions on the device start what they are given from now on after a cl_event, of any driver. */
clprim_status clprim_opencl_wait_for(const char* device, void* event);
/* A tensor in a cl_mem of the device's cl_context, row-major from `offset` bytes on; the buffer is retained and its
 * bytes are shared, not copied: runs see what it holds then, clprim_tensor_data what it held at its first call. */
clprim_status clprim_tensor_adopt(clprim_type type, const int64_t* shape, size_t dims, void* buffer, size_t offset,
                                  const char* device, clprim_tensor** tensor);
/* The cl_mem that holds a tensor's elements row-major from `offset` bytes on, as long as the tensor lives; uploaded to
 * the device if they are on the host. It is to be read only, behind the device's queue. */
clprim_status clprim_tensor_buffer(clprim_tensor* tensor, const char* device, void** buffer, size_t* offset);

/* Sessions. `device` is "0:1", "gpu", part of a name, or NULL for the default. */
clprim_status clprim_session_create(const char* path, const char* device, clprim_session** session);
/* `folder` is where external data lie, or NULL. */
clprim_status clprim_session_create_from_memory(const void* model, size_t bytes, const char* folder, const char* device,
                                                clprim_session** session);
/* A dynamic size that the model names, and its number. */
typedef struct clprim_size {
    const char* name;
    int64_t size;
} clprim_size;
/* What a session may be told; zeros, or a NULL pointer to it, are the defaults. */
typedef struct clprim_session_options {
    int no_optimization;         /* as optimization = "none" */
    int profile;                 /* times are kept, for clprim_session_trace */
    const clprim_size* sizes;    /* inputs must have them, and what follows from them is computed once; each once */
    size_t size_count;
    int no_recording;            /* every run goes node by node */
    int high_priority;           /* before sessions without, where the driver knows of priorities */
    const char* programs;        /* a folder of `clprim prepare`, as for clprim_use_programs; NULL: none */
    unsigned threads;            /* kernels run on at most so many compute units of a CPU; 0: all */
    void* opencl_queue;          /* an in-order cl_command_queue of the device's cl_context to enqueue to; NULL: ours */
    const char* optimization;    /* of nodes: "none", "basic" (constants folded, but ONNX's own operators), "all"; NULL:
                                  * all */
} clprim_session_options;
clprim_status clprim_session_create_with(const char* path, const char* device, const clprim_session_options* options,
                                         clprim_session** session);
void clprim_session_free(clprim_session* session);
size_t clprim_session_input_count(const clprim_session* session);
size_t clprim_session_output_count(const clprim_session* session);
const char* clprim_session_input_name(const clprim_session* session, size_t index);   /* NULL beyond the last */
const char* clprim_session_output_name(const clprim_session* session, size_t index);

/* A port as the model declares it. Texts and `shape` live as long as the session. */
typedef struct clprim_port {
    const char* name;
    int type;                    /* a clprim_type, or another of ONNX's numbers */
    int is_tensor;               /* else a sequence or optional of `type`, or of maps to it */
    int has_shape;
    size_t dims;
    const int64_t* shape;        /* -1: any size */
    const char* const* names;    /* of sizes that are -1; "" without one */
} clprim_port;
clprim_status clprim_session_input(const clprim_session* session, size_t index, clprim_port* port);
clprim_status clprim_session_output(const clprim_session* session, size_t index, clprim_port* port);

/* A name and its tensor: the caller's for an input, made by the run for an output. */
typedef struct clprim_binding {
    const char* name;
    clprim_tensor* tensor;
} clprim_binding;
/* Computes the outputs that are named, each once. Enqueues; clprim_tensor_data waits. */
clprim_status clprim_session_run(clprim_session* session, const clprim_binding* inputs, size_t input_count,
                                 clprim_binding* outputs, size_t output_count);

/* The same, and an output whose tensor is not NULL is written to that tensor's memory: one of the output's type and
 * shape that clprim_tensor_adopt, clprim_tensor_create or an earlier run made, each tensor once. What
 * clprim_tensor_data gave for it before is no longer valid. */
clprim_status clprim_session_run_into(clprim_session* session, const clprim_binding* inputs, size_t input_count,
                                      clprim_binding* outputs, size_t output_count);

/* Ends the runs that are under way in other threads before their next node: they return CLPRIM_CANCELLED. */
void clprim_session_cancel(clprim_session* session);
/* What the model's file says under `key`; NULL without it. Lives as long as the session. */
const char* clprim_session_metadata(const clprim_session* session, const char* key);
/* Writes the model as the session has it to a file: constants folded, batch norms within convolutions, in operators of
 * ONNX. */
clprim_status clprim_session_save(const clprim_session* session, const char* path);
/* Writes what the nodes and their kernels took so far to a file, as JSON for chrome://tracing and Perfetto. Waits for
 * what is enqueued. The session must have been made with `profile`. */
clprim_status clprim_session_trace(const clprim_session* session, const char* path);

#if defined(__GNUC__) && !defined(_WIN32)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
