"""Loads the programs of a folder of clprim's cache by OpenCL alone, without the library's own objects: what a driver
takes for them is what any program of OpenCL's that had these kernels would pay."""
import ctypes
import struct
from pathlib import Path

import clprim       # whose import finds the driver and its loader

HEADER = struct.Struct("<8sQQQ")        # src/core/disk_cache.cpp


def binaries(folder):
    """The machine code of each entry; other files are left out."""
    for path in sorted(Path(folder).iterdir()):
        data = path.read_bytes() if path.is_file() else b""
        if len(data) < HEADER.size:
            continue
        magic, key, size, _ = HEADER.unpack_from(data)
        if magic == b"CLPRIM01" and len(data) == HEADER.size + key + size:
            yield data[HEADER.size + key:]


def load(folder):
    """Contexts, queues, programs and kernels, which are kept as long as the process lives."""
    cl = ctypes.CDLL("libOpenCL.so.1")
    pointer, error = ctypes.c_void_p, ctypes.c_int()
    cl.clCreateContext.restype = cl.clCreateCommandQueue.restype = cl.clCreateProgramWithBinary.restype = pointer
    device = (pointer * 1)(find(cl, clprim.devices()[0].name))
    context = pointer(cl.clCreateContext(None, 1, device, None, None, ctypes.byref(error)))
    queue = pointer(cl.clCreateCommandQueue(context, device[0] and pointer(device[0]), ctypes.c_uint64(2),
                                            ctypes.byref(error)))
    kept = [context, queue]
    for binary in binaries(folder):
        status, size = ctypes.c_int(), ctypes.c_size_t(len(binary))
        text = ctypes.c_char_p(binary)
        program = pointer(cl.clCreateProgramWithBinary(context, 1, device, ctypes.byref(size), ctypes.byref(text),
                                                       ctypes.byref(status), ctypes.byref(error)))
        if error.value or cl.clBuildProgram(program, 1, device, None, None, None):
            continue                    # results of tuning and probes lie there, too
        count = ctypes.c_uint()
        cl.clCreateKernelsInProgram(program, 0, None, ctypes.byref(count))
        kernels = (pointer * count.value)()
        cl.clCreateKernelsInProgram(program, count, kernels, None)
        kept += [program, *kernels]
    return kept


def find(cl, name):
    pointer, count = ctypes.c_void_p, ctypes.c_uint()
    platforms, devices = (pointer * 16)(), (pointer * 16)()
    cl.clGetPlatformIDs(16, platforms, ctypes.byref(count))
    for platform in platforms[:count.value]:
        count_here = ctypes.c_uint()
        if cl.clGetDeviceIDs(pointer(platform), ctypes.c_uint64(0xFFFFFFFF), 16, devices, ctypes.byref(count_here)):
            continue
        for device in devices[:count_here.value]:
            text = ctypes.create_string_buffer(1024)
            cl.clGetDeviceInfo(pointer(device), 0x102B, ctypes.c_size_t(1024), text, None)
            if text.value.decode().strip() == name.strip():
                return device
    raise RuntimeError(f"no OpenCL device is called {name}")
