#define CL_TARGET_OPENCL_VERSION 300
#include "fault_layer.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <CL/cl_icd.h>
#include <CL/cl_layer.h>

enum { no_fault = 1 }; /* no error of OpenCL's is positive */

static const cl_icd_dispatch* next;
static cl_icd_dispatch table;

static char armed_call[64];
static int armed_code;
static atomic_int armed;
static atomic_long countdown;
static atomic_ulong failures;

void fault_arm(const char* call, unsigned long nth, int code)
{
    atomic_store(&armed, 0);
    snprintf(armed_call, sizeof armed_call, "%s", call);
    armed_code = code;
    atomic_store(&countdown, (long)nth);
    atomic_store(&failures, 0);
    atomic_store(&armed, 1);
}

unsigned long fault_disarm(void)
{
    atomic_store(&armed, 0);
    return atomic_load(&failures);
}

int fault_layer_in_use(void) { return next != NULL; }

static cl_int fault_at(const char* call)
{
    if (!atomic_load(&armed) || (strcmp(armed_call, "*") != 0 && strcmp(armed_call, call) != 0))
        return no_fault;
    const long left = atomic_load(&countdown);
    if (left != 0 && atomic_fetch_sub(&countdown, 1) != 1)
        return no_fault;
    if (left != 0)
        atomic_store(&armed, 0);
    atomic_fetch_add(&failures, 1);
    return armed_code;
}

#define CALL(name, parameters, arguments)                                                                              \
    static cl_int CL_API_CALL faulty_##name parameters                                                                 \
    {                                                                                                                  \
        const cl_int code = fault_at(#name);                                                                           \
        return code == no_fault ? next->name arguments : code;                                                         \
    }

#define CREATE(type, name, parameters, arguments)                                                                      \
    static type CL_API_CALL faulty_##name parameters                                                                   \
    {                                                                                                                  \
        const cl_int code = fault_at(#name);                                                                           \
        if (code == no_fault)                                                                                          \
            return next->name arguments;                                                                               \
        if (error)                                                                                                     \
            *error = code;                                                                                             \
        return NULL;                                                                                                   \
    }

/* A command which is said to be enqueued must give its event. */
#define COMMAND(name, parameters, arguments)                                                                           \
    static cl_int CL_API_CALL faulty_##name parameters                                                                 \
    {                                                                                                                  \
        const cl_int code = fault_at(#name);                                                                           \
        if (code == no_fault)                                                                                          \
            return next->name arguments;                                                                               \
        return code == CL_SUCCESS ? next->clEnqueueMarkerWithWaitList(queue, count, list, event) : code;               \
    }

#define WAITS cl_uint count, const cl_event *list, cl_event *event

CREATE(cl_context, clCreateContext,
       (const cl_context_properties* properties, cl_uint count, const cl_device_id* devices,
        void(CL_CALLBACK* notify)(const char*, const void*, size_t, void*), void* data, cl_int* error),
       (properties, count, devices, notify, data, error))
CREATE(cl_command_queue, clCreateCommandQueue,
       (cl_context context, cl_device_id device, cl_command_queue_properties properties, cl_int* error),
       (context, device, properties, error))
CREATE(cl_mem, clCreateBuffer, (cl_context context, cl_mem_flags flags, size_t size, void* host, cl_int* error),
       (context, flags, size, host, error))
CREATE(cl_program, clCreateProgramWithSource,
       (cl_context context, cl_uint count, const char** strings, const size_t* lengths, cl_int* error),
       (context, count, strings, lengths, error))
CREATE(cl_program, clCreateProgramWithBinary,
       (cl_context context, cl_uint count, const cl_device_id* devices, const size_t* lengths,
        const unsigned char** binaries, cl_int* states, cl_int* error),
       (context, count, devices, lengths, binaries, states, error))
CREATE(cl_kernel, clCreateKernel, (cl_program program, const char* name, cl_int* error), (program, name, error))
CREATE(cl_event, clCreateUserEvent, (cl_context context, cl_int* error), (context, error))
CALL(clBuildProgram,
     (cl_program program, cl_uint count, const cl_device_id* devices, const char* options,
      void(CL_CALLBACK* notify)(cl_program, void*), void* data),
     (program, count, devices, options, notify, data))
CALL(clGetProgramInfo, (cl_program program, cl_program_info name, size_t size, void* value, size_t* size_ret),
     (program, name, size, value, size_ret))
CALL(clGetKernelInfo, (cl_kernel kernel, cl_kernel_info name, size_t size, void* value, size_t* size_ret),
     (kernel, name, size, value, size_ret))
CALL(clGetKernelWorkGroupInfo,
     (cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info name, size_t size, void* value,
      size_t* size_ret),
     (kernel, device, name, size, value, size_ret))
CALL(clSetKernelArg, (cl_kernel kernel, cl_uint index, size_t size, const void* value), (kernel, index, size, value))
CALL(clGetEventInfo, (cl_event event, cl_event_info name, size_t size, void* value, size_t* size_ret),
     (event, name, size, value, size_ret))
CALL(clGetEventProfilingInfo, (cl_event event, cl_profiling_info name, size_t size, void* value, size_t* size_ret),
     (event, name, size, value, size_ret))
CALL(clSetEventCallback,
     (cl_event event, cl_int status, void(CL_CALLBACK* notify)(cl_event, cl_int, void*), void* data),
     (event, status, notify, data))
CALL(clWaitForEvents, (cl_uint count, const cl_event* list), (count, list))
CALL(clFlush, (cl_command_queue queue), (queue))
CALL(clFinish, (cl_command_queue queue), (queue))
COMMAND(clEnqueueNDRangeKernel,
        (cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t* offset, const size_t* global,
         const size_t* local, WAITS),
        (queue, kernel, dims, offset, global, local, count, list, event))
COMMAND(clEnqueueReadBuffer,
        (cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size, void* target, WAITS),
        (queue, buffer, blocking, offset, size, target, count, list, event))
COMMAND(clEnqueueWriteBuffer,
        (cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size, const void* source,
         WAITS),
        (queue, buffer, blocking, offset, size, source, count, list, event))
COMMAND(clEnqueueCopyBuffer,
        (cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset, size_t size, WAITS),
        (queue, from, to, from_offset, to_offset, size, count, list, event))
COMMAND(clEnqueueFillBuffer,
        (cl_command_queue queue, cl_mem buffer, const void* pattern, size_t pattern_size, size_t offset, size_t size,
         WAITS),
        (queue, buffer, pattern, pattern_size, offset, size, count, list, event))
COMMAND(clEnqueueMarkerWithWaitList, (cl_command_queue queue, WAITS), (queue, count, list, event))
COMMAND(clEnqueueBarrierWithWaitList, (cl_command_queue queue, WAITS), (queue, count, list, event))

static void* CL_API_CALL faulty_clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                                   cl_map_flags flags, size_t offset, size_t size, WAITS, cl_int* error)
{
    const cl_int code = fault_at("clEnqueueMapBuffer");
    if (code == no_fault)
        return next->clEnqueueMapBuffer(queue, buffer, blocking, flags, offset, size, count, list, event, error);
    if (error)
        *error = code;
    return NULL;
}

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info name, size_t size, void* value, size_t* size_ret)
{
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    if (name != CL_LAYER_API_VERSION || (value && size < sizeof version))
        return CL_INVALID_VALUE;
    if (value)
        memcpy(value, &version, sizeof version);
    if (size_ret)
        *size_ret = sizeof version;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint entries, const cl_icd_dispatch* target, cl_uint* entries_ret,
                                            const cl_icd_dispatch** layer)
{
    if (!target || !entries_ret || !layer || entries < sizeof table / sizeof(void*))
        return CL_INVALID_VALUE;
    next = target;
    table = *target;
#define REPLACE(name) table.name = faulty_##name
    REPLACE(clCreateContext);
    REPLACE(clCreateCommandQueue);
    REPLACE(clCreateBuffer);
    REPLACE(clCreateProgramWithSource);
    REPLACE(clCreateProgramWithBinary);
    REPLACE(clCreateKernel);
    REPLACE(clCreateUserEvent);
    REPLACE(clBuildProgram);
    REPLACE(clGetProgramInfo);
    REPLACE(clGetKernelInfo);
    REPLACE(clGetKernelWorkGroupInfo);
    REPLACE(clSetKernelArg);
    REPLACE(clGetEventInfo);
    REPLACE(clGetEventProfilingInfo);
    REPLACE(clSetEventCallback);
    REPLACE(clWaitForEvents);
    REPLACE(clFlush);
    REPLACE(clFinish);
    REPLACE(clEnqueueNDRangeKernel);
    REPLACE(clEnqueueReadBuffer);
    REPLACE(clEnqueueWriteBuffer);
    REPLACE(clEnqueueCopyBuffer);
    REPLACE(clEnqueueFillBuffer);
    REPLACE(clEnqueueMarkerWithWaitList);
    REPLACE(clEnqueueBarrierWithWaitList);
    REPLACE(clEnqueueMapBuffer);
    const char* from_start = getenv("FAULT_LAYER");
    const char* equals = from_start ? strchr(from_start, '=') : NULL;
    if (equals) {
        char call[sizeof armed_call];
        snprintf(call, sizeof call, "%.*s", (int)(equals - from_start), from_start);
        fault_arm(call, 0, atoi(equals + 1));
    }
    *entries_ret = sizeof table / sizeof(void*);
    *layer = &table;
    return CL_SUCCESS;
}

/* Loaders since 2025 ask for these two. */
CL_API_ENTRY cl_int CL_API_CALL clInitLayerWithProperties(cl_uint entries, const cl_icd_dispatch* target,
                                                          cl_uint* entries_ret, const cl_icd_dispatch** layer,
                                                          const void* properties)
{
    (void)properties;
    return clInitLayer(entries, target, entries_ret, layer);
}

CL_API_ENTRY cl_int CL_API_CALL clDeinitLayer(void) { return CL_SUCCESS; }
