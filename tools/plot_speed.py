#!/usr/bin/env python3
"""Draws the tables of measured speed in README.md and docs/onnx.md as docs/images/speed.png: how many times as fast as
the other engine each row is. Run it when a table has changed.

    tools/plot_speed.py
"""
import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
TABLES = {   # title: file, words of the table's head
    "against PyTorch's CPU, AVX-512 and AMX": ("README.md", "| | Intel's runtime | PyTorch CPU |"),
    "against ONNX Runtime, AVX-512 and AMX": ("docs/onnx.md", "| model | batch | ONNX Runtime | clprim |"),
    "against the better of ONNX Runtime and OpenVINO, AVX-512": ("docs/onnx.md", "| model | batch | clprim |"),
    "the same on one core with AVX2": ("docs/onnx.md", "| model | clprim | ONNX Runtime |"),
}


def rows(file, head):
    """(name, ratio) of each row of the table that begins so."""
    lines = (ROOT / file).read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(head))
    columns = [cell.strip() for cell in lines[start].strip("|").split("|")]
    for line in lines[start + 2:]:
        if not line.startswith("|"):
            return
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        name = re.sub(r"\s*\(.*?\)|;.*|,? (of|float32).*", "", cells[0])
        if "batch" in columns:
            name += f", batch {cells[columns.index('batch')]}"
        yield name, float(cells[columns.index("ratio")])


def main():
    tables = {title: list(rows(*place)) for title, place in TABLES.items()}
    heights = [len(table) for table in tables.values()]
    figure, axes = plt.subplots(len(tables), 1, figsize=(8, 0.24 * sum(heights) + 3), sharex=True,
                                gridspec_kw={"height_ratios": heights})
    for axis, (title, table) in zip(axes, tables.items()):
        names, ratios = zip(*reversed(table))
        bars = axis.barh(names, ratios, color=["#2a7" if ratio >= 1 else "#c84" for ratio in ratios])
        axis.bar_label(bars, [f"{ratio:g}" for ratio in ratios], padding=3, fontsize=8)
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set_title(title, fontsize=10, loc="left")
        axis.set_xscale("log")
        axis.set_xlim(0.5, 40)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xticks([0.5, 1, 2, 5, 10, 20, 40], ["0.5", "1", "2", "5", "10", "20", "40"])
    axes[-1].set_xticks([], minor=True)
    axes[-1].set_xlabel("times as fast (above 1: clprim is faster)", fontsize=9)
    figure.tight_layout()
    figure.savefig(ROOT / "docs/images/speed.png", dpi=100, metadata={"Software": None})


if __name__ == "__main__":
    main()
