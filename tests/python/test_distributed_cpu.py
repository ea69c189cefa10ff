"""Distributed scripts that use the CPU alone: they work as they do without this package."""
import os
import subprocess
import sys

from rank_pool import rendezvous

SCRIPT = """
import torch
import torch.distributed as dist

dist.init_process_group()
rank = dist.get_rank()
total = torch.full((5,), rank + 1.0)
dist.all_reduce(total)
assert total.tolist() == [3.0] * 5, total
group = dist.new_group([0, 1])
gathered = [torch.zeros(2) for _ in range(2)]
dist.all_gather(gathered, torch.full((2,), float(rank)), group=group)
assert [part[0].item() for part in gathered] == [0.0, 1.0]
objects = [None, None]
dist.all_gather_object(objects, {"rank": rank})
assert objects == [{"rank": 0}, {"rank": 1}]
dist.barrier()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2))
model(torch.ones(4, 3)).sum().backward()
dist.destroy_process_group()
print(f"rank {rank}: {dist.get_default_backend_for_device('cpu')} ocl={hasattr(torch, 'ocl')}")
"""


def test_scripts_for_the_cpu_need_no_change(tmp_path):
    script = tmp_path / "cpu.py"
    script.write_text(SCRIPT)
    store, meeting = rendezvous()   # served as long as it is referred to
    environment = {**os.environ, **meeting, "OMP_NUM_THREADS": "1", "WORLD_SIZE": "2"}
    ranks = [subprocess.Popen([sys.executable, str(script)], env={**environment, "RANK": str(rank)}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(2)]
    for rank, process in enumerate(ranks):
        output, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors[-4000:]
        assert output == f"rank {rank}: gloo ocl=True\n"
