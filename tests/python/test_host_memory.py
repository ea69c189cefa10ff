"""What a process keeps of the programs that it has met: released ones work again, and do not add up."""
import os
import subprocess
import sys

CHILD = """
import itertools
import torch

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

numbers = [torch.arange(1, 7).reshape(2, 3).to(dtype) for dtype in (torch.float32, torch.int32, torch.int16)]
calls = [(op, a, b) for op in (torch.add, torch.maximum, torch.eq) for a, b in itertools.product(numbers, numbers)]
sizes, builds = [], []
for _ in range(5):
    for op, a, b in calls:
        torch.testing.assert_close(op(a.to("ocl"), b.to("ocl")).cpu(), op(a, b))
    torch.ocl.synchronize()
    sizes.append(resident())
    builds.append(torch.ocl.program_builds())
print(builds[-1] - builds[0], sizes[-1] - sizes[1])
"""


def passes(**environment):
    result = subprocess.run([sys.executable, "-c", CHILD], check=True, capture_output=True, text=True,
                            env={**os.environ, "CLPRIM_LOADED_PROGRAMS": "2", "CLPRIM_KEEP_BINARIES": "1",
                                 **environment})
    return [int(word) for word in result.stdout.split()]


def test_released_programs_come_from_disk_and_give_their_memory_back(tmp_path):
    built, grown = passes(CLPRIM_CACHE_DIR=str(tmp_path))
    assert built == 0
    # 81 loads; one that is not given back costs half a megabyte and more.
    assert grown < 20 << 20


def test_released_programs_come_back_without_a_cache_on_disk():
    built, grown = passes(CLPRIM_CACHE_DISABLE="1")
    assert built == 0
    assert grown < 20 << 20
