#!/usr/bin/env bash
# Runs kernels for GPUs in Oclgrind (package oclgrind), a simulator that finds accesses outside buffers, data races,
# uninitialised values and wrong calls of OpenCL, on a machine without a GPU.
#
#     tools/oclgrind.sh                                            # every family and generated kernel once: minutes
#     tools/oclgrind.sh build/tests/test_roi                       # a program: Oclgrind prints what it finds
#     tools/oclgrind.sh .venv/bin/python -m pytest tests/python/test_scan.py -k cumsum   # a finding fails its test
#     OCLGRIND_MAX_WGSIZE=64 OCLGRIND_LOCAL_MEM_SIZE=16384 tools/oclgrind.sh             # as on a small device
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
simulator=/usr/lib/oclgrind/liboclgrind-rt-icd.so
[ -e "$simulator" ] || { echo "Oclgrind is not installed: apt install oclgrind" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Oclgrind 21 remembers of a buffer only the last piece that the host has written or filled, and takes the rest for
# uninitialised: pieces are written with the whole buffer around them.
cat > "$work/writes.c" <<'C'
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size,
                            const void* data, cl_uint waits, const cl_event* wait_list, cl_event* event)
{
    cl_int (*write)(cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void*, cl_uint, const cl_event*,
                    cl_event*) = dlsym(RTLD_NEXT, "clEnqueueWriteBuffer");
    size_t whole = 0;
    if (clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof whole, &whole, NULL) != CL_SUCCESS || !data || size == whole ||
        offset > whole || size > whole - offset)   // whole, or wrong, which is Oclgrind's to say
        return write(queue, buffer, blocking, offset, size, data, waits, wait_list, event);
    char* bytes = malloc(whole);
    cl_int code = clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, whole, bytes, waits, wait_list, NULL);
    memcpy(bytes + offset, data, size);
    if (code == CL_SUCCESS)
        code = write(queue, buffer, CL_TRUE, 0, whole, bytes, 0, NULL, event);
    free(bytes);
    return code;
}
cl_int clEnqueueFillBuffer(cl_command_queue queue, cl_mem buffer, const void* pattern, size_t pattern_size,
                           size_t offset, size_t size, cl_uint waits, const cl_event* wait_list, cl_event* event)
{
    char* bytes = malloc(size);
    for (size_t i = 0; i < size; i += pattern_size)
        memcpy(bytes + i, pattern, pattern_size);
    const cl_int code = clEnqueueWriteBuffer(queue, buffer, CL_TRUE, offset, size, bytes, waits, wait_list, event);
    free(bytes);
    return code;
}
C
cc -shared -fPIC -O1 -o "$work/writes.so" "$work/writes.c" -lOpenCL -ldl

export CLPRIM_DEVICE_KIND=${CLPRIM_DEVICE_KIND:-gpu} CLPRIM_CACHE_DISABLE=1 CLPRIM_POISON=blocks CLPRIM_MEMORY_CACHING=0
export OCLGRIND_CHECK_API=1 OCLGRIND_DATA_RACES=1 OCLGRIND_UNINITIALIZED=1 OCLGRIND_NUM_THREADS=1
export OCLGRIND_COMPUTE_UNITS=16   # kernels take the large tiles of a device that few of them fill
# Its check of uninitialised values does not know all that LLVM's optimiser writes.
export OCLGRIND_BUILD_OPTIONS=-cl-opt-disable
if [ $# = 0 ]; then
    set -- "$root/.venv/bin/python" -m pytest -q --durations=10 "$root/tests/python/test_every_family.py" \
        "$root/tests/python/test_every_generated_kernel.py"
fi
case "$*" in
    *pytest*) export OCLGRIND_LOG=$work/findings ;;   # tests/python/conftest.py reads it after every test
esac
# As a driver of the loader, not preloaded as `oclgrind` does it: its LLVM must not meet that of other libraries.
OCL_ICD_VENDORS=$simulator LD_PRELOAD=$work/writes.so "$@"
