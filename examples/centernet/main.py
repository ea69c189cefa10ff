"""CenterNet with deformable convolution, trained on any device.

    python examples/centernet/main.py train --device ocl:0 --out runs/centernet
    python examples/centernet/main.py eval  --device cpu  --checkpoint runs/centernet/last.pth
    python examples/centernet/main.py demo  --device ocl:0 --checkpoint runs/centernet/last.pth [--picture photo.png]

The training data is made on the fly (data.py). `train` ends with the mean average precision at an overlap of 0.5 on
held-out scenes, writes checkpoints and resumes with --resume; `demo` writes an annotated PNG.
"""
import argparse
import pathlib
import sys
import time

import numpy as np
import torch
from tqdm import tqdm

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from data import CLASSES, Scenes, normalize  # noqa: E402
from detect import decode, loss_of, mean_average_precision  # noqa: E402
from model import BACKBONES, CenterNet  # noqa: E402


def to_device(images, target, options):
    images = normalize(images).to(options.device)
    if options.channels_last:
        images = images.contiguous(memory_format=torch.channels_last)
    return images, {name: value.to(options.device) for name, value in (target or {}).items()}


def make_model(options):
    model = CenterNet(options.arch, len(CLASSES)).to(options.device)
    return model.to(memory_format=torch.channels_last) if options.channels_last else model


def save(path, model, optimizer, schedule, step, options):
    torch.save({"step": step, "arch": options.arch, "state_dict": {k: v.cpu() for k, v in model.state_dict().items()},
                "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}, path)


def train(options):
    torch.manual_seed(options.seed)
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    print("making scenes", flush=True)
    scenes = Scenes("train", options.scenes, options.size)
    model = make_model(options)
    # The convolutions that make offsets learn ten times slower, as in the paper: should they run away, all samples
    # fall outside of the small maps and the layer sees nothing any more.
    offsets = [p for name, p in model.named_parameters() if "conv_offset_mask" in name]
    others = [p for name, p in model.named_parameters() if "conv_offset_mask" not in name]
    rates = [options.lr, options.lr / 10]
    optimizer = torch.optim.Adam([{"params": others, "lr": rates[0]}, {"params": offsets, "lr": rates[1]}])
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rates, total_steps=options.steps, pct_start=0.15)
    first = 0
    if options.resume:
        checkpoint = torch.load(options.resume, map_location="cpu")
        model.load_state_dict(checkpoint["state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        schedule.load_state_dict(checkpoint["schedule"])
        first = checkpoint["step"]
    rng = np.random.default_rng(options.seed + first)
    model.train()
    times, average = [], None
    progress = tqdm(range(first, options.steps), mininterval=2, disable=options.quiet)
    for step in progress:
        begin = time.perf_counter()
        # The first part sees scenes of two thirds of the size, and twice as many for the same time.
        small = step < options.small * options.steps
        size, batch = (round(options.size / 48) * 32, 2 * options.batch) if small else (options.size, options.batch)
        images, target = to_device(*scenes.batch(rng.integers(len(scenes), size=batch), size), options)
        if rng.random() < 0.5:
            images, target = mirror(images, target)
        optimizer.zero_grad(set_to_none=True)
        loss, _ = loss_of(model(images), target)
        loss.backward()
        optimizer.step()
        schedule.step()
        value = loss.item()
        times.append(time.perf_counter() - begin)
        average = value if average is None else 0.95 * average + 0.05 * value
        progress.set_postfix(loss=f"{average:.3f}")
        if (step + 1) % options.save_every == 0 or step + 1 == options.steps:
            save(out / "last.pth", model, optimizer, schedule, step + 1, options)
            if options.quiet:
                print(f"step {step + 1}: loss {average:.3f}, {np.median(times) * 1e3:.0f} ms per step", flush=True)
    print(f"loss {average:.3f}, {np.median(times) * 1e3:.0f} ms per step (median) on {options.device}")
    evaluate(options, model)


def mirror(images, target):
    """Left and right exchanged."""
    cells = images.shape[-1] // 4
    flipped = dict(target)
    y, x = target["index"].div(cells, rounding_mode="floor"), target["index"] % cells
    flipped["heat"] = target["heat"].flip(-1)
    # A centre at x + offset goes to cells - (x + offset): cell cells - 1 - x, offset 1 - offset.
    flipped["index"] = torch.where(target["valid"] > 0, y * cells + cells - 1 - x, target["index"])
    flipped["offset"] = torch.stack((1 - target["offset"][..., 0], target["offset"][..., 1]), -1)
    return images.flip(-1), flipped


def evaluate(options, model=None):
    model = (model or load(options)).eval()
    scenes = Scenes("test", options.test_scenes, options.size)
    results = []
    with torch.no_grad():
        for i in tqdm(range(0, len(scenes), options.batch), disable=options.quiet):
            images, _ = to_device(torch.from_numpy(scenes.images[i:i + options.batch]), None, options)
            boxes, scores, classes = (t.cpu().numpy() for t in decode(model(images)))
            results += list(zip(boxes, scores, classes))
    value, per_class = mean_average_precision(results, scenes, len(CLASSES))
    print("  ".join(f"{name} {ap:.3f}" for name, ap in zip(CLASSES, per_class)))
    print(f"mAP@0.5 {value:.3f} on {len(scenes)} held-out scenes ({options.device})")
    return value


def load(options):
    checkpoint = torch.load(options.checkpoint, map_location="cpu")
    options.arch = checkpoint["arch"]
    model = make_model(options)
    model.load_state_dict(checkpoint["state_dict"])
    return model


def demo(options):
    from PIL import Image, ImageDraw
    model = load(options).eval()
    if options.picture:
        picture = Image.open(options.picture).convert("RGB")
        width, height = (max(32, round(side / 32) * 32) for side in picture.size)
        pixels = np.asarray(picture.resize((width, height)))
    else:
        pixels = Scenes("test", 1, options.size).images[0].transpose(1, 2, 0)
    images, _ = to_device(torch.from_numpy(pixels.transpose(2, 0, 1).copy())[None], None, options)
    boxes, scores, classes = (t[0].cpu().numpy() for t in decode(model(images)))
    zoom = max(1, 512 // max(pixels.shape[:2]))
    canvas = Image.fromarray(pixels).resize((pixels.shape[1] * zoom, pixels.shape[0] * zoom))
    draw = ImageDraw.Draw(canvas)
    for box, score, c in zip(boxes, scores, classes):
        if score < options.threshold:
            continue
        x1, y1, x2, y2 = box * zoom
        draw.rectangle((x1, y1, max(x1, x2), max(y1, y2)), outline=(255, 60, 60), width=2)
        draw.text((x1 + 3, y1 + 2), f"{CLASSES[c]} {score:.2f}", fill=(255, 255, 80))
        print(f"{CLASSES[c]:9} {score:.2f}  {[round(float(v), 1) for v in box]}")
    canvas.save(options.output)
    print(f"wrote {options.output}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["train", "eval", "demo"])
    parser.add_argument("--device", default="ocl:0")
    parser.add_argument("--arch", choices=list(BACKBONES), default="res18")
    parser.add_argument("--size", type=int, default=96, help="side of a scene in pixels, a multiple of 32")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=1400)
    parser.add_argument("--small", type=float, default=0.6,
                        help="share of the steps that see smaller scenes, but twice as many")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--scenes", type=int, default=8000, help="training scenes")
    parser.add_argument("--test-scenes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--out", default="runs/centernet")
    parser.add_argument("--save-every", type=int, default=100)
    parser.add_argument("--resume", help="checkpoint to go on from")
    parser.add_argument("--checkpoint", default="runs/centernet/last.pth")
    parser.add_argument("--picture", help="picture for demo; a held-out scene without it")
    parser.add_argument("--threshold", type=float, default=0.3)
    parser.add_argument("--output", default="centernet.png")
    parser.add_argument("--quiet", action="store_true", help="lines instead of progress bars")
    options = parser.parse_args()
    {"train": train, "eval": evaluate, "demo": demo}[options.command](options)


if __name__ == "__main__":
    main()
