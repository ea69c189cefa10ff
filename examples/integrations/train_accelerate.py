"""Training with accelerate on an OpenCL device: one import more than on CUDA."""
import sys

import torch

import torch_ocl.integrations  # noqa: F401 (makes accelerate know ocl)
from accelerate import Accelerator
from accelerate.utils import find_executable_batch_size


def main(mixed_precision: str = "no") -> None:
    accelerator = Accelerator(mixed_precision=mixed_precision)
    torch.manual_seed(0)

    @find_executable_batch_size(starting_batch_size=256)
    def train(batch_size: int) -> tuple[float, float]:
        if batch_size > 64:
            torch.empty(2**60, device=accelerator.device)   # stands for a model that needs too much at this size
        labels = torch.randint(0, 3, (256,))
        data = torch.randn(256, 8) + labels[:, None]
        model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(data, labels), batch_size=batch_size)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        losses = []
        for _ in range(5):
            for x, y in loader:
                loss = torch.nn.functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.item())
        return losses[0], losses[-1]

    first, last = train()
    assert last < first
    print(f"{accelerator.device}, {mixed_precision}: loss {first:.4f} -> {last:.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
