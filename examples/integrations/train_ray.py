"""Ray Train on OpenCL devices: a worker for each of two devices, through DistributedDataParallel.

    python examples/integrations/train_ray.py [WORKERS]
"""
import os
import sys
import tempfile

import torch_ocl.integrations  # noqa: F401 (makes Ray Train know ocl)
import ray
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


def train(settings: dict) -> None:
    import ray.train.torch
    import torch

    torch.manual_seed(0)
    labels = torch.randint(0, 3, (128,))
    data = torch.randn(128, 8) + labels[:, None]
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(data, labels), batch_size=16)
    loader = ray.train.torch.prepare_data_loader(loader)
    model = ray.train.torch.prepare_model(torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(),
                                                              torch.nn.Linear(32, 3)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(settings["epochs"]):
        for x, y in loader:
            assert x.device.type == "ocl"
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    context = ray.train.get_context()
    with tempfile.TemporaryDirectory() as folder:
        torch.save(model.state_dict(), os.path.join(folder, "model.pt"))
        ray.train.report({"first": losses[0], "last": losses[-1], "device": str(x.device),
                          "model": type(model).__name__, "ranks": context.get_world_size()},
                         checkpoint=Checkpoint.from_directory(folder) if context.get_world_rank() == 0 else None)


def main(workers: str = "2") -> None:
    ray.init(num_cpus=int(workers), include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    with tempfile.TemporaryDirectory() as folder:
        result = TorchTrainer(train, train_loop_config={"epochs": 4}, run_config=RunConfig(storage_path=folder),
                              scaling_config=ScalingConfig(num_workers=int(workers), resources_per_worker={"CPU": 1}),
                              ).fit()
        seen = result.metrics
        assert seen["last"] < seen["first"] and seen["device"].startswith("ocl"), seen
        print(f"{seen['ranks']} workers, {seen['device']}, {seen['model']}: loss {seen['first']:.4f} -> "
              f"{seen['last']:.4f}")
    ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
