"""A training script as people write them for CUDA: nothing here knows of ocl. test_as_cuda.py runs it."""
import argparse
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.cuda.amp import GradScaler as OldScaler
from torch.cuda.amp import autocast as old_autocast
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()

assert torch.cuda.is_available(), "CUDA is not available"
torch.manual_seed(0)
torch.cuda.manual_seed_all(0)
torch.backends.cudnn.benchmark = True
torch.backends.cuda.matmul.allow_tf32 = True
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
torch.cuda.set_device(device)
print("device:", torch.cuda.get_device_name(0), torch.cuda.device_count(), torch.cuda.get_device_capability())
properties = torch.cuda.get_device_properties(device)
print("memory:", properties.total_memory // 2**20, "MB,", properties.multi_processor_count, "multiprocessors")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8 * 8 * 8, 4, device="cuda")
        self.register_buffer("scale", torch.ones((), device="cuda"))

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return self.fc(x.flatten(1)) * self.scale


generator = torch.Generator().manual_seed(1)
labels = torch.randint(0, 4, (128,), generator=generator)
images = torch.randn(128, 1, 16, 16, generator=generator) * 0.1 + labels.view(-1, 1, 1, 1).float()
loader = DataLoader(TensorDataset(images, labels), batch_size=32, shuffle=True, pin_memory=True)

model = Net().cuda()
assert next(model.parameters()).is_cuda and isinstance(device, torch.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cuda")
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
torch.cuda.reset_peak_memory_stats()
start.record()
first = last = None
for epoch in range(args.epochs):
    for x, y in loader:
        x, y = x.cuda(non_blocking=True), y.to("cuda", non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16):
            logits = model(x)
            loss = F.cross_entropy(logits, y)
        assert logits.dtype == torch.float16
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        first = loss.item() if first is None else first
        last = loss.item()
end.record()
torch.cuda.synchronize()
assert start.elapsed_time(end) > 0
assert torch.cuda.max_memory_allocated() > 0 and torch.cuda.memory_allocated(device) > 0

with old_autocast(), torch.no_grad():
    assert model(images[:2].cuda()).dtype == torch.float16
assert OldScaler().is_enabled()

stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    noise = torch.randn(4, 4, device="cuda", generator=torch.Generator(device="cuda").manual_seed(3))
torch.cuda.current_stream().wait_stream(stream)
assert torch.zeros_like(noise, device="cuda").type() == "torch.cuda.FloatTensor"
assert torch.cuda.FloatTensor([1.0]).is_cuda and noise.type("torch.cuda.HalfTensor").dtype == torch.float16

static = torch.zeros(4, device="cuda")
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    static += 1
graph.replay()
assert static.tolist() == [1.0] * 4

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "model.pt")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    state = torch.load(path, map_location="cuda:0", weights_only=True)
    model.load_state_dict(state["model"])
    assert torch.load(path, map_location=lambda storage, place: storage)["model"]["fc.weight"].device.type == "cpu"
    assert torch.load(path, map_location={"cuda:0": "cpu"})["model"]["fc.weight"].device.type == "cpu"

with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU,
                                        torch.profiler.ProfilerActivity.CUDA]) as profile:
    model(images[:2].cuda())
    torch.cuda.synchronize()
assert any(event.self_device_time_total > 0 for event in profile.key_averages())
torch.cuda.empty_cache()
print(torch.cuda.memory_summary(abbreviated=True).splitlines()[1])
assert last < first, (first, last)
print(f"loss {first:.4f} -> {last:.4f}")
