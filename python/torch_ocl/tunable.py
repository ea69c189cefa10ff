"""torch.ocl.tunable: finding the fastest kernels for a program's own problems, by the names of torch.cuda.tunable.

Products, convolutions and attention have several kernels, and those have parameters (tile sizes, how sums are split).
While tuning is enabled each new problem tries them at its first use, which waits for the device. What is found is kept
on disk, and every later process on this device uses it: nothing needs to be enabled for that.
"""

from __future__ import annotations

import torch

from torch_ocl import _state
from torch_ocl._surface import Refused

__all__ = ["enable", "get_filename", "get_max_tuning_duration", "get_results", "get_validators", "is_enabled",
           "read_file", "set_filename", "set_max_tuning_duration", "tuning_enable", "tuning_is_enabled", "write_file"]

_REFUSED = {
    "record_untuned_enable": "problems are tuned where they are met; run the program with tuning enabled",
    "record_untuned_is_enabled": "problems are tuned where they are met; run the program with tuning enabled",
    "tune_gemm_in_file": "problems are tuned where they are met; run the program with tuning enabled",
    "mgpu_tune_gemm_in_file": "problems are tuned where they are met; run the program with tuning enabled",
    "set_max_tuning_iterations": "a kernel is timed five times; set_max_tuning_duration limits the whole search",
    "get_max_tuning_iterations": "a kernel is timed five times; set_max_tuning_duration limits the whole search",
    "set_rotating_buffer_size": "kernels are timed on the program's own tensors",
    "get_rotating_buffer_size": "kernels are timed on the program's own tensors",
    "set_cublaslt_requested_algo_count": "cuBLASLt is NVIDIA's",
    "get_cublaslt_requested_algo_count": "cuBLASLt is NVIDIA's",
    "set_numerical_check_tolerances": "every kernel and every value of its parameters is tested with the package",
}
_filename = "clprim_tuning.json"


def __getattr__(name: str):
    if name in _REFUSED:
        return Refused(f"tunable.{name}", _REFUSED[name])
    raise AttributeError(f"module 'torch.ocl.tunable' has no attribute '{name}'")


def enable(val: bool = True) -> None:
    """Tunes problems that are new from here on, on every ocl device; False: no more. As CLPRIM_TUNE=1."""
    _state.c().tune_choices(bool(val))


def is_enabled() -> bool:
    return _state.c().choices_are_tuned()


# torch.cuda can use results without finding new ones; here results are used in any case.
tuning_enable = enable
tuning_is_enabled = is_enabled


def set_max_tuning_duration(duration: int) -> None:
    """The most that the search for one problem takes, in milliseconds (10,000 unless CLPRIM_TUNE_SECONDS says
    otherwise), beyond the first look at each kernel."""
    if not duration > 0:
        raise ValueError(f"set_max_tuning_duration: expected a positive number of milliseconds, got {duration}")
    _state.c().limit_tuning(duration / 1000)


def get_max_tuning_duration() -> int:
    return round(1000 * _state.c().tuning_limit())


def set_filename(filename: str, insert_device_ordinal: bool = False) -> None:
    """The file that read_file and write_file take where none is given, with the current device's number ahead of its
    ending where that is asked for."""
    global _filename
    if insert_device_ordinal:
        stem, dot, ending = filename.rpartition(".")
        number = str(torch.ocl.current_device())
        filename = f"{stem}{number}.{ending}" if dot else filename + number
    _filename = filename


def get_filename() -> str:
    return _filename


def write_file(filename: str | None = None, device=None) -> bool:
    """Writes all results of a device (default: the current one) for read_file on another machine."""
    _state.c().export_tuning(_index(device), filename or _filename)
    return True


def read_file(filename: str | None = None, device=None) -> bool:
    """Takes results of a device of the same platform, name and kind. Raises ValueError, with the reason, for others and
    for damaged files."""
    _state.c().import_tuning(_index(device), filename or _filename)
    return True


def get_results(device=None) -> tuple[tuple[str, str, str], ...]:
    """(family, problem, choice) of everything known of a device: ("gemm", "float32 batch=1 m=512 ...",
    "gpu_tiled:tile=64:slab=16:splits=2"). Problems that begin with "~" are classes, for sizes of the same power of
    two."""
    return tuple(_state.c().tuning_results(_index(device)))


def get_validators() -> tuple[tuple[str, str], ...]:
    """What results hold for, of the current device."""
    properties = torch.ocl.get_device_properties(torch.ocl.current_device())
    return (("platform", properties.platform_name), ("name", properties.name), ("driver", properties.driver_version))


def _index(device) -> int:
    return torch.ocl.current_device() if device is None else torch.device(device).index or 0
