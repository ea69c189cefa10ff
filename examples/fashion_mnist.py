"""Trains a small convolutional network on Fashion-MNIST: ordinary PyTorch, on any device.

    python examples/fashion_mnist.py --device ocl:0                 # train there
    python examples/fashion_mnist.py --device ocl:0 --compare cpu   # and again on the CPU, and compare the two

Draws the training curves and a grid of test images with the predictions into out/fashion_mnist.png.
"""
import argparse
import sys
import time
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.utils.data import DataLoader
from tqdm import tqdm

from fashion_mnist_data import CLASSES, DataNotFound, FashionMNIST


def make_model():
    def block(inputs, outputs):
        return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]

    return nn.Sequential(*block(1, 16), *block(16, 32), nn.Flatten(), nn.Dropout(0.25), nn.Linear(32 * 7 * 7, 128),
                         nn.ReLU(), nn.Dropout(0.25), nn.Linear(128, len(CLASSES)))


@dataclass
class Run:
    """What one training run leaves behind."""
    device: torch.device
    losses: list = field(default_factory=list)       # mean of every `LOG_EVERY` steps
    accuracies: list = field(default_factory=list)   # after each epoch, from 0 to 1
    predictions: torch.Tensor = None                 # of the test images
    seconds: float = 0.0


LOG_EVERY = 25   # steps between two reads of the loss: a read is the only time the host waits for the device


def train(device, train_set, test_set, options):
    """The same seed gives every device the same initial weights and the same batches."""
    torch.manual_seed(options.seed)
    model = make_model().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    criterion = nn.CrossEntropyLoss()
    batches = DataLoader(train_set, batch_size=options.batch, shuffle=True, drop_last=True,
                         generator=torch.Generator().manual_seed(options.seed))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs * len(batches))
    run = Run(device)

    start = time.perf_counter()
    for epoch in range(options.epochs):
        model.train()
        summed = torch.zeros((), device=device)
        progress = tqdm(batches, desc=f"{device} epoch {epoch + 1}/{options.epochs}", mininterval=0.5)
        for step, (images, labels) in enumerate(progress, 1):
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            loss = criterion(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            summed += loss.detach()
            if step % LOG_EVERY == 0:
                run.losses.append(summed.item() / LOG_EVERY)
                summed.zero_()
                progress.set_postfix(loss=f"{run.losses[-1]:.3f}", refresh=False)
        run.predictions = predict(model, test_set, device)
        run.accuracies.append((run.predictions == test_set.labels).float().mean().item())
        print(f"{device} epoch {epoch + 1}: loss {run.losses[-1]:.3f}, test accuracy {run.accuracies[-1]:.2%}")
    run.seconds = time.perf_counter() - start
    return run


@torch.no_grad()
def predict(model, dataset, device):
    model.eval()
    batches = dataset.images.split(500)
    return torch.cat([model(images.to(device)).argmax(1).cpu() for images in batches])


def compare(run, reference):
    """Fails loudly where the two devices do not tell the same story."""
    print(f"\n{'':10}{'final loss':>12}{'accuracy':>12}{'time':>10}")
    for r in (run, reference):
        print(f"{str(r.device):10}{r.losses[-1]:12.3f}{r.accuracies[-1]:12.2%}{r.seconds:9.1f}s")
    difference = abs(run.accuracies[-1] - reference.accuracies[-1])
    if difference > 0.01:
        sys.exit(f"FAILED: the test accuracies differ by {difference:.2%}; at most 1% is right")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="ocl:0", type=torch.device)
    parser.add_argument("--compare", metavar="DEVICE", type=torch.device, help="train there too and compare")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--picture", default="out/fashion_mnist.png")
    options = parser.parse_args()

    try:
        train_set, test_set = FashionMNIST(train=True), FashionMNIST(train=False)
    except DataNotFound as error:
        sys.exit(str(error))
    runs = [train(device, train_set, test_set, options)
            for device in (options.device, options.compare) if device is not None]

    from pictures import draw_training
    print("picture:", draw_training(runs, test_set, options.picture))
    if len(runs) == 2:
        compare(*runs)
    worst = min(run.accuracies[-1] for run in runs)
    if options.epochs >= 3 and worst < 0.88:
        sys.exit(f"FAILED: test accuracy {worst:.2%}; this training reaches 88% or more on a device that computes right")


if __name__ == "__main__":
    main()
