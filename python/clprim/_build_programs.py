"""Builds programs in a process of its own: python _build_programs.py LIBRARY DEVICE FOLDER.

Several of them share a folder that CLPRIM_DUMP_PROGRAMS has filled. It imports nothing but the standard library, since
processes are started that do only this.
"""
import ctypes
import sys


def main(library, device, folder):
    clprim = ctypes.CDLL(library)
    clprim.clprim_last_error.restype = ctypes.c_char_p
    built = ctypes.c_size_t()
    if clprim.clprim_build_programs(device.encode(), folder.encode(), ctypes.byref(built)):
        print(clprim.clprim_last_error().decode(errors="replace"), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
