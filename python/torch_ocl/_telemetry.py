"""What a device is doing: OpenCL does not tell, so Linux is asked, where its driver keeps files for the device."""

from __future__ import annotations

import glob
import os
import time

from torch_ocl import _state, memory


def _folder(device) -> str | None:
    address = _state.c().pci_address(_state.index_of(device))
    folder = f"/sys/bus/pci/devices/{address}"
    return folder if address and os.path.isdir(folder) else None


def _is_cpu(device) -> bool:
    return _state.c().device_properties(_state.index_of(device))["kind"] == "cpu" and _folder(device) is None


def _read(device, *patterns: str) -> int | None:
    folder = _folder(device)
    for pattern in patterns if folder else ():
        for name in sorted(glob.glob(os.path.join(folder, pattern))):
            try:
                with open(name) as file:
                    return int(file.read())
            except (OSError, ValueError):
                continue
    return None


def _unknown(what: str, device, instead: str):
    raise NotImplementedError(f"the {what} of ocl:{_state.index_of(device)} is not known: OpenCL has no query for it, "
                              f"and the driver gives no file below /sys; {instead}")


def _processor_times() -> tuple[int, int]:
    with open("/proc/stat") as file:
        times = [int(n) for n in file.readline().split()[1:9]]
    return sum(times), times[3] + times[4]   # all, idle and waiting


def utilization(device=None) -> int:
    """Percent of the last moment in which the device worked. For a CPU device that is the load of the processors,
    over a tenth of a second."""
    value = _read(device, "gpu_busy_percent")
    if value is not None:
        return value
    if _is_cpu(device):
        total, idle = _processor_times()
        time.sleep(0.1)
        total_after, idle_after = _processor_times()
        return round(100 * (1 - (idle_after - idle) / max(1, total_after - total)))
    _unknown("utilization", device, "torch.ocl.profile_kernels() says how long kernels ran")


def memory_usage(device=None) -> int:
    """Percent of the last moment in which the device's memory was read or written."""
    value = _read(device, "mem_busy_percent")
    if value is not None:
        return value
    _unknown("memory's utilization", device, "torch.ocl.memory_allocated() says how much is held")


def temperature(device=None) -> int:
    """Degrees Celsius of the device's sensor."""
    value = _read(device, "hwmon/hwmon*/temp1_input")
    if value is not None:
        return round(value / 1000)
    _unknown("temperature", device, "ask the vendor's tool")


def power_draw(device=None) -> int:
    """Milliwatts that the device takes."""
    value = _read(device, "hwmon/hwmon*/power1_average", "hwmon/hwmon*/power1_input")
    if value is not None:
        return round(value / 1000)
    energy = _read(device, "hwmon/hwmon*/energy1_input")   # microjoules since start
    if energy is not None:
        time.sleep(0.1)
        return round((_read(device, "hwmon/hwmon*/energy1_input") - energy) / 100)
    _unknown("power draw", device, "ask the vendor's tool")


def device_memory_used(device=None) -> int:
    """Bytes of the device's memory in use, by all processes where the driver says so, otherwise by this one."""
    value = _read(device, "mem_info_vram_used")
    if value is not None:
        return value
    return memory.memory_reserved(device)
