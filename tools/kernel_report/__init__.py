"""What the compilers of GPUs make of the library's kernels; `python tools/kernel_report --help`."""
