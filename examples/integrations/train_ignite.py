"""ignite with torchmetrics on an OpenCL device: ignite.distributed.device() is ocl."""
import torch

import torch_ocl.integrations  # noqa: F401 (makes ignite know ocl)
import ignite.distributed as idist
import torchmetrics
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Accuracy, Loss


def main() -> None:
    torch.manual_seed(0)
    device = idist.device()
    assert device.type == "ocl"
    labels = torch.randint(0, 3, (96,))
    batches = list(zip((torch.randn(96, 6) + 2 * labels[:, None]).split(16), labels.split(16)))
    model = idist.auto_model(torch.nn.Sequential(torch.nn.Linear(6, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    criterion = torch.nn.CrossEntropyLoss()
    evaluator = create_supervised_evaluator(model, {"accuracy": Accuracy(device=device), "loss": Loss(criterion)},
                                            device=device)
    trainer = create_supervised_trainer(model, optimizer, criterion, device=device)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda _: evaluator.run(batches))
    trainer.run(batches, max_epochs=10)
    metric = torchmetrics.Accuracy(task="multiclass", num_classes=3).to(device)
    for x, y in batches:
        metric.update(model(x.to(device)), y.to(device))
    accuracy = evaluator.state.metrics["accuracy"]
    assert abs(metric.compute().item() - accuracy) < 1e-6 and accuracy > 0.5
    print(f"{device}: accuracy {accuracy:.3f}, loss {evaluator.state.metrics['loss']:.4f}")


if __name__ == "__main__":
    main()
