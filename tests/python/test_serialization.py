"""Saving, loading, pickling, copying; data loaders; processes."""

import copy
import io
import os
import pickle
import subprocess
import sys

import pytest
import torch

from comparison import device


def saved(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return buffer


@pytest.mark.parametrize("weights_only", [True, False])
def test_save_and_load(weights_only):
    x = torch.arange(6.0).to(device).view(2, 3)
    state = {"x": x, "view": x.t()[1:], "half": x.half(), "cpu": torch.ones(2), "epoch": 3}
    loaded = torch.load(saved(state), weights_only=weights_only)
    assert loaded["x"].device == torch.device(device) and torch.equal(loaded["x"].cpu(), x.cpu())
    assert torch.equal(loaded["view"].cpu(), x.t()[1:].cpu()) and loaded["view"].stride() == x.t()[1:].stride()
    loaded["x"][0, 1] = 100
    assert loaded["view"][0, 0].item() == 100      # shared storages stay shared
    assert loaded["cpu"].device.type == "cpu" and loaded["half"].dtype == torch.float16


def test_map_location_both_ways():
    x = torch.arange(4.0)
    for location in ("cpu", torch.device("cpu"), lambda storage, where: storage, {"ocl:0": "cpu"}):
        loaded = torch.load(saved(x.to(device)), map_location=location)
        assert loaded.device.type == "cpu" and torch.equal(loaded, x)
    for location in ("ocl", "ocl:0", torch.device("ocl", 0), {"cpu": "ocl:0"}):
        loaded = torch.load(saved(x), map_location=location)
        assert loaded.device == torch.device(device) and torch.equal(loaded.cpu(), x)


def test_state_dict_of_model_and_optimizer():
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(2, 4, device=device)).sum().backward()
    optimizer.step()
    state = torch.load(saved({"model": model.state_dict(), "optimizer": optimizer.state_dict()}), map_location="cpu")
    other = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)).to(device)
    other.load_state_dict(state["model"])
    other_optimizer = torch.optim.SGD(other.parameters(), lr=0.1, momentum=0.9)
    other_optimizer.load_state_dict(state["optimizer"])
    for p, q in zip(model.parameters(), other.parameters()):
        assert q.is_ocl and torch.equal(p.detach().cpu(), q.detach().cpu())
        assert other_optimizer.state[q]["momentum_buffer"].is_ocl


def test_pickle_and_deepcopy():
    x = torch.arange(6.0).to(device).view(2, 3).t()
    y = pickle.loads(pickle.dumps(x))
    assert y.device == x.device and torch.equal(x.cpu(), y.cpu())
    z = copy.deepcopy(x)
    assert z.data_ptr() != x.data_ptr() and z.stride() == x.stride() and torch.equal(z.cpu(), x.cpu())
    parameter = torch.nn.Parameter(x)
    assert isinstance(pickle.loads(pickle.dumps(parameter)), torch.nn.Parameter)
    generator = torch.Generator(device).manual_seed(5)
    assert generator.device == torch.device(device)


def test_numpy_needs_the_cpu():
    with pytest.raises(TypeError, match="ocl"):
        torch.ones(2, device=device).numpy()
    assert torch.ones(2, device=device).cpu().numpy().sum() == 2


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, i):
        return torch.full((3,), float(i * i)), i


@pytest.mark.parametrize("workers", [0, 2])
def test_data_loader_with_pinned_memory(workers):
    torch.ones(1, device=device)   # the device is in use when the workers are forked
    loader = torch.utils.data.DataLoader(Squares(), batch_size=5, num_workers=workers, pin_memory=True)
    total = 0
    for x, i in loader:
        assert x.is_pinned() and i.is_pinned()
        x = x.to(device, non_blocking=True)
        total += x.sum().item()
    assert total == 3 * sum(i * i for i in range(20))


FORK = """
import os, torch
torch.ones(3, device="ocl").cpu()
keep = torch.ones(1000, device="ocl")
child = os.fork()
if child == 0:
    assert torch.ones(3).sum() == 3
    assert torch.ocl._is_in_bad_fork()
    torch.manual_seed(0)
    try:
        torch.ones(1, device="ocl")
    except RuntimeError as error:
        ok = "spawn" in str(error)
    else:
        ok = False
    try:
        keep.cpu()
        ok = False
    except RuntimeError as error:
        ok = ok and "spawn" in str(error)
    del keep
    os._exit(0 if ok else 1)
_, status = os.waitpid(child, 0)
assert status == 0, status
assert keep.cpu().sum() == 1000
"""


def test_a_forked_child_gets_a_clear_error():
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=3000,
                          env={**os.environ, "TORCH_OCL_FALLBACK": "allow"})
    assert done.returncode == 0, done.stdout + done.stderr


SPAWN = """
import torch
import torch.multiprocessing as mp

def child(queue):
    queue.put(float((torch.ones(5, device="ocl") * 2).sum()))
    queue.put(torch.ocl.get_device_properties(0).platform_name)

if __name__ == "__main__":
    name = torch.ocl.get_device_properties(0).platform_name
    context = mp.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    assert queue.get(timeout=300) == 10
    assert queue.get(timeout=300) == name
    process.join()
    assert process.exitcode == 0
"""


def test_a_spawned_child_uses_the_same_device(tmp_path):
    script = tmp_path / "spawn.py"
    script.write_text(SPAWN)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stdout + done.stderr


def test_random_state():
    torch.manual_seed(7)
    assert torch.ocl.initial_seed() == 7
    generator = torch.Generator(device)
    generator.manual_seed(11)
    state = generator.get_state()
    assert state.dtype == torch.uint8 and state.device.type == "cpu"
    other = torch.Generator(device="ocl")
    other.set_state(state)
    assert other.initial_seed() == 11
    assert generator.clone_state().initial_seed() == 11 if hasattr(generator, "clone_state") else True
    with pytest.raises(RuntimeError, match="wrong size"):
        generator.set_state(torch.zeros(3, dtype=torch.uint8))
    before = torch.ocl.get_rng_state()
    torch.ocl.manual_seed(99)
    assert not torch.equal(before, torch.ocl.get_rng_state())
    torch.ocl.set_rng_state(before)
    assert torch.equal(before, torch.ocl.get_rng_state("ocl:0"))
    assert len(torch.ocl.get_rng_state_all()) == torch.ocl.device_count()
    torch.ocl.set_rng_state_all(torch.ocl.get_rng_state_all())
    torch.ocl.seed_all()
    torch.ocl.seed()
    assert torch.ocl.default_generators[0].device == torch.device(device)
    torch.ocl.manual_seed(2**63 + 5)
    assert torch.ocl.initial_seed() == 2**63 + 5
    torch.manual_seed(-1)
    torch.testing.assert_close(torch.ocl.initial_seed() % 2**64, 2**64 - 1)


def test_fork_rng_restores_the_state():
    torch.ocl.manual_seed(3)
    state = torch.ocl.get_rng_state()
    with torch.random.fork_rng(devices=[0], device_type="ocl"):
        torch.ocl.manual_seed(4)
        assert not torch.equal(state, torch.ocl.get_rng_state())
    assert torch.equal(state, torch.ocl.get_rng_state())
