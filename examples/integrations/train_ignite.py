"""ignite with torchmetrics on OpenCL devices: ignite.distributed.device() is ocl.

    python examples/integrations/train_ignite.py
    torchrun --nproc-per-node 2 examples/integrations/train_ignite.py        # a process for each device
"""
import os

import torch

import torch_ocl.integrations  # noqa: F401 (makes ignite know ocl)
import ignite.distributed as idist
import torchmetrics
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Accuracy, Loss


def train(_: int) -> None:
    torch.manual_seed(0)
    device, rank, ranks = idist.device(), idist.get_rank(), idist.get_world_size()
    assert device.type == "ocl"
    labels = torch.randint(0, 3, (96,))
    data = torch.randn(96, 6) + 2 * labels[:, None]
    batches = list(zip(data.chunk(ranks)[rank].split(16), labels.chunk(ranks)[rank].split(16)))
    model = idist.auto_model(torch.nn.Sequential(torch.nn.Linear(6, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3)))
    assert ranks == 1 or isinstance(model, torch.nn.parallel.DistributedDataParallel)
    optimizer = idist.auto_optim(torch.optim.Adam(model.parameters(), lr=1e-2))
    criterion = torch.nn.CrossEntropyLoss()
    evaluator = create_supervised_evaluator(model, {"accuracy": Accuracy(device=device), "loss": Loss(criterion)},
                                            device=device)
    trainer = create_supervised_trainer(model, optimizer, criterion, device=device)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda _: evaluator.run(batches))
    trainer.run(batches, max_epochs=10)
    # Metrics of several processes are those of all data, in ignite and in torchmetrics.
    metric = torchmetrics.Accuracy(task="multiclass", num_classes=3).to(device)
    for x, y in batches:
        metric.update(model(x.to(device)), y.to(device))
    with torch.no_grad():
        whole = (model(data.to(device)).argmax(1).cpu() == labels).float().mean().item()
    accuracy = evaluator.state.metrics["accuracy"]
    assert abs(metric.compute().item() - accuracy) < 1e-6 and abs(whole - accuracy) < 1e-6 and accuracy > 0.5
    print(f"{device}, rank {rank} of {ranks}, {type(model).__name__}: accuracy {accuracy:.3f}, "
          f"loss {evaluator.state.metrics['loss']:.4f}")


if __name__ == "__main__":
    with idist.Parallel(backend="occl" if "WORLD_SIZE" in os.environ else None) as parallel:
        parallel.run(train)
