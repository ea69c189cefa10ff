/* A program of OpenCL's own that has a model run in the middle of its work, without a copy and without a wait:
 *
 *     its kernel writes x -> y = x + x by clprim -> its queue reads y
 *
 * clprim takes the program's cl_context; events order the two queues. Here the model is written out by hand;
 * clprim_session_create takes a file. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <clprim.h>

#include <stdio.h>
#include <stdlib.h>

#define COUNT 1000

static void require(int holds, const char* what)
{
    if (!holds) {
        fprintf(stderr, "%s failed: %s\n", what, clprim_last_error());
        exit(1);
    }
}

/* ModelProto: ir_version 8; opset_import {version 17}; graph { Add(x, x) -> y; float x [n]; float y [n] }. */
static const unsigned char model[] = {
    0x08, 8, 0x42, 2, 0x10, 17, 0x3a, 53,
    0x0a, 14, 0x0a, 1, 'x', 0x0a, 1, 'x', 0x12, 1, 'y', 0x22, 3, 'A', 'd', 'd',
    0x12, 1, 'g',
    0x5a, 15, 0x0a, 1, 'x', 0x12, 10, 0x0a, 8, 0x08, 1, 0x12, 4, 0x0a, 2, 0x12, 0,
    0x62, 15, 0x0a, 1, 'y', 0x12, 10, 0x0a, 8, 0x08, 1, 0x12, 4, 0x0a, 2, 0x12, 0};

static const char* source = "__kernel void count(__global float* x) { x[get_global_id(0)] = (float)get_global_id(0); }";

/* A context of the program's own, on the first device that clprim takes too. */
static cl_context create_context(cl_device_id* device)
{
    cl_platform_id platforms[16];
    cl_device_id devices[16];
    cl_uint platform_count = 0, device_count = 0;
    cl_int code = CL_SUCCESS;
    clGetPlatformIDs(16, platforms, &platform_count);
    for (cl_uint p = 0; p < platform_count && p < 16; ++p) {
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 16, devices, &device_count) != CL_SUCCESS)
            continue;
        for (cl_uint d = 0; d < device_count && d < 16; ++d) {
            cl_context context = clCreateContext(NULL, 1, &devices[d], NULL, NULL, &code);
            if (code == CL_SUCCESS && clprim_opencl_use_context(context) == CLPRIM_OK) {
                *device = devices[d];
                return context;
            }
            if (code == CL_SUCCESS)
                clReleaseContext(context);
        }
    }
    return NULL;
}

/* What clprim calls a device. */
static clprim_device describe(cl_device_id wanted)
{
    clprim_device device;
    for (int i = 0; i < clprim_device_count(); ++i) {
        clprim_opencl opencl;
        require(clprim_device_get(i, &device) == CLPRIM_OK, "clprim_device_get");
        if (clprim_opencl_get(device.id, &opencl) == CLPRIM_OK && opencl.device == wanted)
            return device;
    }
    require(0, "finding the device");
    return device;
}

int main(void)
{
    cl_int code = CL_SUCCESS;
    cl_device_id id = NULL;
    cl_context context = create_context(&id);
    require(context != NULL, "clprim_opencl_use_context");
    const clprim_device device = describe(id);
    clprim_opencl opencl;
    require(clprim_opencl_get(device.id, &opencl) == CLPRIM_OK && opencl.context == context, "clprim_opencl_get");

    /* The program's own work. */
    cl_command_queue queue = clCreateCommandQueue(context, id, 0, &code);
    require(code == CL_SUCCESS, "clCreateCommandQueue");
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, COUNT * sizeof(float), NULL, &code);
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, NULL);
    require(clBuildProgram(program, 1, &id, "", NULL, NULL) == CL_SUCCESS, "clBuildProgram");
    cl_kernel kernel = clCreateKernel(program, "count", &code);
    const size_t count = COUNT;
    cl_event written, done;
    clSetKernelArg(kernel, 0, sizeof buffer, &buffer);
    require(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &count, NULL, 0, NULL, &written) == CL_SUCCESS,
            "clEnqueueNDRangeKernel");
    clFlush(queue);

    /* clprim's, behind it. */
    const int64_t shape[] = {COUNT};
    clprim_session* session = NULL;
    clprim_binding x = {"x", NULL}, y = {"y", NULL};
    require(clprim_session_create_from_memory(model, sizeof model, NULL, device.id, &session) == CLPRIM_OK, "session");
    require(clprim_tensor_adopt(CLPRIM_FLOAT32, shape, 1, buffer, 0, device.id, &x.tensor) == CLPRIM_OK, "adopt");
    require(clprim_opencl_wait_for(device.id, written) == CLPRIM_OK, "clprim_opencl_wait_for");
    require(clprim_session_run(session, &x, 1, &y, 1) == CLPRIM_OK, "clprim_session_run");
    void* result = NULL;
    size_t offset = 0;
    require(clprim_tensor_buffer(y.tensor, device.id, &result, &offset) == CLPRIM_OK, "clprim_tensor_buffer");
    require(clEnqueueMarkerWithWaitList(opencl.queue, 0, NULL, &done) == CL_SUCCESS, "clEnqueueMarkerWithWaitList");
    clFlush(opencl.queue);

    /* And the program's again. */
    float values[COUNT];
    require(clEnqueueReadBuffer(queue, result, CL_TRUE, offset, sizeof values, values, 1, &done, NULL) == CL_SUCCESS,
            "clEnqueueReadBuffer");
    for (int i = 0; i < COUNT; ++i)
        require(values[i] == 2.0f * (float)i, "y = x + x");
    printf("%d values on %s, without a copy through the host\n", COUNT, device.name);

    clprim_tensor_free(x.tensor);
    clprim_tensor_free(y.tensor);
    clprim_session_free(session);
    clReleaseEvent(written);
    clReleaseEvent(done);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    clReleaseMemObject(buffer);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    return 0;
}
