"""The demo's picture: training curves of each run, and a grid of test images with predictions."""
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

from fashion_mnist_data import CLASSES  # noqa: E402

ROWS, COLUMNS = 4, 8
COLOURS = ("#0b6e99", "#e07a1f")


def draw_training(runs, test_set, path):
    """Writes a PNG and returns its path."""
    figure = pyplot.figure(figsize=(13, 9), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=(1, 1.7))
    _curves(top, runs)
    _grid(bottom, runs[0], test_set)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return path


def _curves(figure, runs):
    loss, accuracy = figure.subplots(1, 2)
    for run, colour, style in zip(runs, COLOURS, ("-", "--")):
        epochs = len(run.accuracies)
        steps = [epochs * (i + 1) / len(run.losses) for i in range(len(run.losses))]
        name = f"{run.device} ({run.seconds:.0f} s)"
        loss.plot(steps, run.losses, style, color=colour, label=name)
        accuracy.plot(range(1, epochs + 1), [100 * a for a in run.accuracies], style, color=colour, marker="o",
                      label=f"{name}: {run.accuracies[-1]:.2%}")
    loss.set(xlabel="epoch", ylabel="training loss", ylim=(0, None))
    accuracy.set(xlabel="epoch", ylabel="test accuracy, %", xticks=range(1, len(runs[0].accuracies) + 1))
    for axes in (loss, accuracy):
        axes.grid(alpha=0.3)
        axes.legend()


def _grid(figure, run, test_set):
    figure.suptitle(f"the first test images as {run.device} sees them (red: wrong, with the right class)")
    axes = figure.subplots(ROWS, COLUMNS).flat
    for index, axis in enumerate(axes):
        guess, truth = int(run.predictions[index]), int(test_set.labels[index])
        axis.imshow(test_set.images[index, 0], cmap="gray_r")
        axis.axis("off")
        right = guess == truth
        axis.set_title(CLASSES[guess] if right else f"{CLASSES[guess]} ({CLASSES[truth]})", fontsize=9,
                       color="#1a7f37" if right else "#c62828")
