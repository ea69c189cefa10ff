"""Fashion-MNIST from Debian's package or from torchvision's download, checked byte for byte."""
import gzip
import hashlib
import zlib
from pathlib import Path

import torch
from torch.utils.data import Dataset

CLASSES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")

# Of the unpacked files, since packers differ: size in bytes and SHA-256.
FILES = {
    "t10k-images-idx3-ubyte": (7840016, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"),
    "t10k-labels-idx1-ubyte": (10008, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"),
    "train-images-idx3-ubyte": (47040016, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"),
    "train-labels-idx1-ubyte": (60008, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"),
}


class DataNotFound(RuntimeError):
    pass


def _find_folder():
    candidates = [Path("/usr/share/datasets/fashion-mnist"), Path("data/FashionMNIST/raw")]
    for folder in candidates:
        if all((folder / f"{name}.gz").exists() for name in FILES):
            return folder
    try:
        from torchvision.datasets import FashionMNIST as Download

        Download("data", download=True)
    except Exception as error:
        raise DataNotFound(
            "Fashion-MNIST is not on this machine and could not be downloaded. On Debian and Ubuntu "
            "`sudo apt-get install dataset-fashion-mnist` brings it; elsewhere put its four .gz files into "
            f"data/FashionMNIST/raw. ({type(error).__name__}: {error})") from error
    return candidates[-1]


def _read(folder, name):
    path = folder / f"{name}.gz"
    size, checksum = FILES[name]
    try:
        data = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error):
        data = b""
    if len(data) != size or hashlib.sha256(data).hexdigest() != checksum:
        raise DataNotFound(f"{path} is damaged: {len(data)} bytes unpacked where {size} are expected, or a wrong "
                           "checksum. Remove it (or reinstall its package) and run again.")
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


class FashionMNIST(Dataset):
    """28x28 grey images as float tensors [1, 28, 28] of about unit variance, with labels 0 to 9."""

    def __init__(self, train):
        folder, prefix = _find_folder(), "train" if train else "t10k"
        images = _read(folder, f"{prefix}-images-idx3-ubyte")[16:].view(-1, 1, 28, 28)
        self.images = (images.float() / 255 - 0.286) / 0.353
        self.labels = _read(folder, f"{prefix}-labels-idx1-ubyte")[8:].long()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]
