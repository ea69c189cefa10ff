/* A whole OpenCL driver, for OCL_ICD_VENDORS, whose GPU looks well and whose compiler compiles nothing: buffers, queues
 * and programs can be made, and every build fails. The rest is not there. With BROKEN_DRIVER_DEVICES=0 it finds no
 * device. */
#define CL_TARGET_OPENCL_VERSION 120
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <CL/cl_icd.h>

/* Every handle of OpenCL. A loader wants the table first. */
struct object {
    const cl_icd_dispatch* dispatch;
    atomic_int references;
    size_t size;
    void* memory;
};

static cl_icd_dispatch table;
static struct object platform = {&table, 1, 0, NULL}, gpu = {&table, 1, 0, NULL};

static void* create(size_t size, cl_int* error)
{
    struct object* made = calloc(1, sizeof *made);
    made->dispatch = &table;
    made->references = 1;
    made->size = size;
    made->memory = size ? calloc(1, size) : NULL;
    if (error)
        *error = CL_SUCCESS;
    return made;
}

static cl_int CL_API_CALL retain(struct object* object)
{
    atomic_fetch_add(&object->references, 1);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release(struct object* object)
{
    if (atomic_fetch_sub(&object->references, 1) == 1 && object != &gpu) {
        free(object->memory);
        free(object);
    }
    return CL_SUCCESS;
}

static cl_int CL_API_CALL missing(void) { return CL_INVALID_OPERATION; }

static cl_int answer(const void* data, size_t bytes, size_t size, void* value, size_t* size_ret)
{
    if (value && size < bytes)
        return CL_INVALID_VALUE;
    if (value)
        memcpy(value, data, bytes);
    if (size_ret)
        *size_ret = bytes;
    return CL_SUCCESS;
}

static cl_int say(const char* text, size_t size, void* value, size_t* size_ret)
{
    return answer(text, strlen(text) + 1, size, value, size_ret);
}

static cl_int CL_API_CALL platform_info(cl_platform_id id, cl_platform_info name, size_t size, void* value,
                                        size_t* size_ret)
{
    (void)id;
    switch (name) {
    case CL_PLATFORM_PROFILE: return say("FULL_PROFILE", size, value, size_ret);
    case CL_PLATFORM_VERSION: return say("OpenCL 1.2 broken", size, value, size_ret);
    case CL_PLATFORM_NAME:    return say("Broken OpenCL", size, value, size_ret);
    case CL_PLATFORM_VENDOR:  return say("Nobody", size, value, size_ret);
    case CL_PLATFORM_EXTENSIONS: return say("cl_khr_icd", size, value, size_ret);
    case CL_PLATFORM_ICD_SUFFIX_KHR: return say("BROKEN", size, value, size_ret);
    default: return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL device_ids(cl_platform_id id, cl_device_type type, cl_uint entries, cl_device_id* devices,
                                     cl_uint* count)
{
    (void)id;
    const char* wanted = getenv("BROKEN_DRIVER_DEVICES");
    if ((wanted && atoi(wanted) == 0) || !(type & (CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT)))
        return CL_DEVICE_NOT_FOUND;
    if (devices && entries)
        devices[0] = (cl_device_id)&gpu;
    if (count)
        *count = 1;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL device_info(cl_device_id id, cl_device_info name, size_t size, void* value, size_t* size_ret)
{
    (void)id;
    const cl_platform_id of = (cl_platform_id)&platform;
    const cl_device_type type = CL_DEVICE_TYPE_GPU;
    const cl_uint units = 8;
    const cl_bool yes = CL_TRUE, no = CL_FALSE;
    const cl_ulong bytes = (cl_ulong)1 << 30, local_bytes = 65536, none = 0;
    const size_t group = 256;
#define GIVE(what) answer(&(what), sizeof(what), size, value, size_ret)
    switch (name) {
    case CL_DEVICE_NAME: return say("Broken GPU", size, value, size_ret);
    case CL_DEVICE_VENDOR: return say("Nobody", size, value, size_ret);
    case CL_DRIVER_VERSION: return say("0.1", size, value, size_ret);
    case CL_DEVICE_PROFILE: return say("FULL_PROFILE", size, value, size_ret);
    case CL_DEVICE_VERSION: return say("OpenCL 1.2 broken", size, value, size_ret);
    case CL_DEVICE_OPENCL_C_VERSION: return say("OpenCL C 1.2", size, value, size_ret);
    case CL_DEVICE_EXTENSIONS: return say("", size, value, size_ret);
    case CL_DEVICE_PLATFORM: return GIVE(of);
    case CL_DEVICE_TYPE: return GIVE(type);
    case CL_DEVICE_AVAILABLE:
    case CL_DEVICE_COMPILER_AVAILABLE:
    case CL_DEVICE_ENDIAN_LITTLE: return GIVE(yes);
    case CL_DEVICE_HOST_UNIFIED_MEMORY: return GIVE(no);
    case CL_DEVICE_DOUBLE_FP_CONFIG: return GIVE(none);
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
    case CL_DEVICE_MAX_COMPUTE_UNITS: return GIVE(units);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE: return GIVE(bytes);
    case CL_DEVICE_LOCAL_MEM_SIZE:
    case CL_DEVICE_GLOBAL_MEM_CACHE_SIZE: return GIVE(local_bytes);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE: return GIVE(group);
    default: return CL_INVALID_VALUE;
    }
}

static cl_context CL_API_CALL create_context(const cl_context_properties* properties, cl_uint count,
                                             const cl_device_id* devices,
                                             void(CL_CALLBACK* notify)(const char*, const void*, size_t, void*),
                                             void* data, cl_int* error)
{
    (void)properties, (void)count, (void)devices, (void)notify, (void)data;
    return create(0, error);
}

static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id device,
                                                 cl_command_queue_properties properties, cl_int* error)
{
    (void)context, (void)device, (void)properties;
    return create(0, error);
}

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t size, void* host, cl_int* error)
{
    (void)context, (void)flags, (void)host;
    return create(size, error);
}

static cl_program CL_API_CALL create_program(cl_context context, cl_uint count, const char** strings,
                                             const size_t* lengths, cl_int* error)
{
    (void)context, (void)count, (void)strings, (void)lengths;
    return create(0, error);
}

static cl_int CL_API_CALL build(cl_program program, cl_uint count, const cl_device_id* devices, const char* options,
                                void(CL_CALLBACK* notify)(cl_program, void*), void* data)
{
    (void)program, (void)count, (void)devices, (void)options, (void)notify, (void)data;
    return CL_BUILD_PROGRAM_FAILURE;
}

static cl_int CL_API_CALL build_info(cl_program program, cl_device_id device, cl_program_build_info name, size_t size,
                                     void* value, size_t* size_ret)
{
    (void)program, (void)device;
    const cl_build_status status = CL_BUILD_ERROR;
    if (name == CL_PROGRAM_BUILD_STATUS)
        return GIVE(status);
    return say(name == CL_PROGRAM_BUILD_LOG ? "error: the compiler's library is missing" : "", size, value, size_ret);
}

static cl_int CL_API_CALL fill(cl_command_queue queue, cl_mem buffer, const void* pattern, size_t pattern_size,
                               size_t offset, size_t size, cl_uint count, const cl_event* list, cl_event* event)
{
    (void)queue, (void)count, (void)list;
    for (size_t at = 0; at < size; at += pattern_size)
        memcpy((char*)((struct object*)buffer)->memory + offset + at, pattern, pattern_size);
    if (event)
        *event = create(0, NULL);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL finish(cl_command_queue queue)
{
    (void)queue;
    return CL_SUCCESS;
}

static void prepare(void)
{
    void** entries = (void**)&table;
    for (size_t i = 0; i < sizeof table / sizeof *entries; ++i)
        entries[i] = (void*)missing;
#define IS(name, function) table.name = (void*)function
    IS(clGetPlatformInfo, platform_info);
    IS(clGetDeviceIDs, device_ids);
    IS(clGetDeviceInfo, device_info);
    IS(clCreateContext, create_context);
    IS(clCreateCommandQueue, create_queue);
    IS(clCreateBuffer, create_buffer);
    IS(clCreateProgramWithSource, create_program);
    IS(clBuildProgram, build);
    IS(clGetProgramBuildInfo, build_info);
    IS(clEnqueueFillBuffer, fill);
    IS(clFlush, finish);
    IS(clFinish, finish);
    IS(clRetainDevice, retain), IS(clReleaseDevice, release);
    IS(clRetainContext, retain), IS(clReleaseContext, release);
    IS(clRetainCommandQueue, retain), IS(clReleaseCommandQueue, release);
    IS(clRetainMemObject, retain), IS(clReleaseMemObject, release);
    IS(clRetainProgram, retain), IS(clReleaseProgram, release);
    IS(clRetainEvent, retain), IS(clReleaseEvent, release);
}

CL_API_ENTRY cl_int CL_API_CALL clIcdGetPlatformIDsKHR(cl_uint entries, cl_platform_id* platforms, cl_uint* count)
{
    prepare();
    if (platforms && entries)
        platforms[0] = (cl_platform_id)&platform;
    if (count)
        *count = 1;
    return CL_SUCCESS;
}

CL_API_ENTRY void* CL_API_CALL clGetExtensionFunctionAddress(const char* name)
{
    return strcmp(name, "clIcdGetPlatformIDsKHR") == 0 ? (void*)clIcdGetPlatformIDsKHR : NULL;
}
/* Loaders ask the driver itself, before they have its table. */
CL_API_ENTRY cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id id, cl_platform_info name, size_t size, void* value,
                                                  size_t* size_ret)
{
    return platform_info(id, name, size, value, size_ret);
}
