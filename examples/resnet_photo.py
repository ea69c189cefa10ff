"""A torchvision network looks at a photograph on two devices; both must see the same.

    python examples/resnet_photo.py --device ocl:0 --compare cpu

The weights are random (fixed seed): what is compared is the arithmetic, not the knowledge.
"""
import argparse
import sys
import time

import skimage.data
import torch
import torchvision

LIMIT = 1e-5


def photograph():
    """scikit-image's cat as a normalised [1, 3, 224, 224] tensor."""
    pixels = torch.from_numpy(skimage.data.chelsea().copy()).permute(2, 0, 1)
    resize = torchvision.transforms.Compose([
        torchvision.transforms.Resize(256, antialias=True), torchvision.transforms.CenterCrop(224),
        torchvision.transforms.ConvertImageDtype(torch.float32),
        torchvision.transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
    return resize(pixels).unsqueeze(0)


@torch.no_grad()
def run(name, image, device):
    """Output on the host and milliseconds of a run that follows a first one."""
    torch.manual_seed(0)
    model = torchvision.models.get_model(name, weights=None).eval().to(device)
    image = image.to(device)
    model(image).cpu()
    start = time.perf_counter()
    output = model(image).cpu()
    return output, 1e3 * (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="ocl:0", type=torch.device)
    parser.add_argument("--compare", default="cpu", metavar="DEVICE", type=torch.device)
    parser.add_argument("--model", default="resnet18")
    options = parser.parse_args()

    image = photograph()
    output, milliseconds = run(options.model, image, options.device)
    expected, reference_milliseconds = run(options.model, image, options.compare)
    difference = ((output - expected).abs().max() / expected.abs().max()).item()
    print(f"{options.model} on a photograph: {options.device} {milliseconds:.0f} ms, "
          f"{options.compare} {reference_milliseconds:.0f} ms, largest relative difference {difference:.1e}")
    if not difference < LIMIT:
        sys.exit(f"FAILED: the difference must be below {LIMIT:.0e}")


if __name__ == "__main__":
    main()
