"""Detection data made of real images: Fashion-MNIST garments, tinted and scaled, placed on photographs.

A scene is a function of its number: the same on every machine and in every run. Training and held-out scenes share
neither garments (the two splits of Fashion-MNIST) nor photographs.
"""
import pathlib
import sys

import numpy as np
import torch
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from fashion_mnist_data import FashionMNIST  # noqa: E402

CLASSES = ("top", "trousers", "dress", "shoe", "bag")
_CLASS_OF_LABEL = (0, 1, 0, 2, 0, 3, 0, 3, 4,
                   3)   # T-shirt, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, boot
_PHOTOGRAPHS = {"train": ("astronaut", "coffee", "rocket", "grass", "brick", "coins", "hubble_deep_field", "moon",
                          "page",
                          "immunohistochemistry", "retina"),
                "test": ("chelsea", "gravel", "camera")}
MAX_OBJECTS = 8


def load_garments(split):
    garments = FashionMNIST(train=split == "train")
    pixels = (garments.images[:, 0] * 0.353 + 0.286) * 255   # undo the normalization
    return pixels.round().to(torch.uint8).numpy(), garments.labels.numpy()


def load_photographs(split):
    import skimage.data
    photographs = []
    for name in _PHOTOGRAPHS[split]:
        picture = getattr(skimage.data, name)()
        photographs.append(picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, 2))
    return photographs


def _resize(image, height, width):
    """Bilinear, of uint8 [h, w] or [h, w, 3]; averages when it shrinks."""
    return np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR), np.float32)


class Scenes:
    """`count` scenes of size x size pixels: images [count, 3, size, size] uint8 and, per scene, boxes and classes."""

    def __init__(self, split, count, size=128):
        self.garments, self.labels = load_garments(split)
        self.photographs = load_photographs(split)
        self.seed = 0 if split == "train" else 1
        self.size = size
        self.images = np.empty((count, 3, size, size), np.uint8)
        self.boxes, self.classes = [], []
        for i in range(count):
            self.images[i], boxes, classes = self.make(i)
            self.boxes.append(boxes)
            self.classes.append(classes)

    def __len__(self):
        return len(self.images)

    def _background(self, rng):
        photograph = self.photographs[rng.integers(len(self.photographs))]
        side = int(rng.integers(self.size, min(photograph.shape[:2]) + 1))
        y, x = rng.integers(photograph.shape[0] - side + 1), rng.integers(photograph.shape[1] - side + 1)
        crop = photograph[y:y + side, x:x + side]
        picture = _resize(crop, self.size, self.size)
        return picture[:, ::-1] if rng.random() < 0.5 else picture

    def make(self, number):
        rng = np.random.default_rng((self.seed, number))
        picture = self._background(rng).copy()
        boxes, classes = [], []
        for _ in range(rng.integers(1, 6)):
            which = rng.integers(len(self.garments))
            side = int(rng.integers(self.size // 5, self.size // 2))
            garment = _resize(self.garments[which], side, side) / 255
            alpha = np.clip(_resize(np.uint8(255) * (self.garments[which] > 8), side, side) / 127.5 - 0.5, 0, 1)
            rows, columns = np.flatnonzero((alpha > 0.5).any(1)), np.flatnonzero((alpha > 0.5).any(0))
            if len(rows) < 4 or len(columns) < 4:
                continue
            y, x = rng.integers(self.size - side + 1), rng.integers(self.size - side + 1)
            box = np.array([x + columns[0], y + rows[0], x + columns[-1] + 1, y + rows[-1] + 1], np.float32)
            if any(_overlap(box, other) > 0.15 for other in boxes):
                continue
            tint = rng.uniform(0.35, 1, 3)
            shade = (40 + 215 * garment)[..., None] * tint
            patch = picture[y:y + side, x:x + side]
            patch[...] = alpha[..., None] * shade + (1 - alpha[..., None]) * patch
            boxes.append(box)
            classes.append(_CLASS_OF_LABEL[self.labels[which]])
        picture = np.clip(picture + rng.normal(0, 4, picture.shape), 0, 255).astype(np.uint8)
        return (picture.transpose(2, 0, 1), np.array(boxes, np.float32).reshape(-1, 4), np.array(classes, np.int64))

    def batch(self, numbers, size=None):
        """Images and CenterNet's targets for scenes of these numbers, shrunk to `size`."""
        size = size or self.size
        images = torch.from_numpy(self.images[numbers])
        if size != self.size:
            images = torch.nn.functional.interpolate(images, (size, size), mode="bilinear", antialias=True)
        return images, targets([self.boxes[i] * (size / self.size) for i in numbers],
                               [self.classes[i] for i in numbers],
                               size // 4)


def _overlap(a, b):
    """Intersection over the smaller area."""
    w = min(a[2], b[2]) - max(a[0], b[0])
    h = min(a[3], b[3]) - max(a[1], b[1])
    area = lambda r: (r[2] - r[0]) * (r[3] - r[1])
    return max(w, 0) * max(h, 0) / min(area(a), area(b))


def normalize(images):
    """uint8 pictures to what the network sees."""
    return (images.float() - 118.0) / 60.0


def _radius(height, width, overlap=0.7):
    """How far a corner pair may move so that the box still overlaps: the smallest of the three cases' roots."""
    s, p = height + width, height * width
    roots = [(1, -s, p * (1 - overlap) / (1 + overlap)), (4, -2 * s, (1 - overlap) * p), (4 * overlap, 2 * overlap * s,
                                                                                         (overlap - 1) * p)]
    radii = [(-b + sign * np.sqrt(max(b * b - 4 * a * c, 0))) / (2 * a) for (a, b, c), sign in zip(roots, (-1, -1, 1))]
    return max(0, int(min(radii)))


def targets(boxes, classes, cells):
    """Heat maps with a Gaussian per object, and per object: index of its cell, size and offset (in cells), valid."""
    n = len(boxes)
    heat = np.zeros((n, len(CLASSES), cells, cells), np.float32)
    index = np.zeros((n, MAX_OBJECTS), np.int64)
    size, offset = np.zeros((n, MAX_OBJECTS, 2), np.float32), np.zeros((n, MAX_OBJECTS, 2), np.float32)
    valid = np.zeros((n, MAX_OBJECTS), np.float32)
    grid = np.arange(cells)
    for i in range(n):
        for k, (box, c) in enumerate(zip(boxes[i] / 4, classes[i])):
            centre = (box[:2] + box[2:]) / 2
            x, y = centre.astype(int)
            w, h = box[2:] - box[:2]
            sigma = (2 * _radius(h, w) + 1) / 6
            gaussian = np.exp(-((grid - x) ** 2 + (grid[:, None] - y) ** 2) / (2 * sigma ** 2))
            np.maximum(heat[i, c], gaussian, out=heat[i, c])
            index[i, k], size[i, k], offset[i, k], valid[i, k] = y * cells + x, (w, h), centre - (x, y), 1
    return {name: torch.from_numpy(value) for name, value in
            dict(heat=heat, index=index, size=size, offset=offset, valid=valid).items()}
