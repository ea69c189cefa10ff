"""Losses, decoding and mean average precision."""
import numpy as np
import torch
import torch.nn.functional as F

from model import STRIDE


def focal_loss(logits, target):
    """Penalty-reduced focal loss of the heat map, per object."""
    p = torch.sigmoid(logits).clamp(1e-4, 1 - 1e-4)
    positive = target.eq(1).float()
    loss = positive * (1 - p) ** 2 * torch.log(p) + (1 - positive) * (1 - target) ** 4 * p ** 2 * torch.log(1 - p)
    return -loss.sum() / positive.sum().clamp(min=1)


def at_objects(maps, index):
    """Values [n, objects, channels] of maps [n, channels, h, w] at the objects' cells."""
    n, c = maps.shape[:2]
    flat = maps.permute(0, 2, 3, 1).reshape(n, -1, c)
    return flat.gather(1, index[..., None].expand(-1, -1, c))


def l1_loss(maps, index, target, valid):
    error = (at_objects(maps, index) - target).abs() * valid[..., None]
    return error.sum() / (valid.sum() * 2).clamp(min=1)


def loss_of(output, target):
    parts = {"heat": focal_loss(output["heat"], target["heat"]),
             "size": l1_loss(output["size"], target["index"], target["size"], target["valid"]),
             "offset": l1_loss(output["offset"], target["index"], target["offset"], target["valid"])}
    return parts["heat"] + 0.1 * parts["size"] + parts["offset"], parts


@torch.no_grad()
def decode(output, count=30):
    """The `count` best peaks of each picture: boxes [n, count, 4] in pixels, scores and classes [n, count]."""
    heat = torch.sigmoid(output["heat"])
    peaks = heat * (F.max_pool2d(heat, 3, 1, 1) == heat)
    n, classes, height, width = peaks.shape
    scores, flat = peaks.reshape(n, -1).topk(count)
    cell = flat % (height * width)
    size, offset = at_objects(output["size"], cell), at_objects(output["offset"], cell)
    centre = torch.stack((cell % width, cell.div(width, rounding_mode="floor")), -1).float() + offset
    boxes = torch.cat((centre - size / 2, centre + size / 2), -1) * STRIDE
    return boxes, scores, flat.div(height * width, rounding_mode="floor")


def overlap_matrix(a, b):
    """Intersection over union of every pair."""
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    inter = np.clip(high - low, 0, None).prod(-1)
    area = lambda r: (r[:, 2] - r[:, 0]) * (r[:, 3] - r[:, 1])
    return inter / (area(a)[:, None] + area(b)[None] - inter)


def average_precision(detections, truth, threshold=0.5):
    """Area under the precision envelope of one class. detections: (scene, score, box) list; truth: {scene: boxes}."""
    total = sum(len(boxes) for boxes in truth.values())
    if not total:
        return float("nan")
    taken = {scene: np.zeros(len(boxes), bool) for scene, boxes in truth.items()}
    hits = []
    for scene, _, box in sorted(detections, key=lambda d: -d[1]):
        overlaps = overlap_matrix(box[None], truth[scene])[0] if len(truth.get(scene, ())) else np.zeros(0)
        best = overlaps.argmax() if len(overlaps) else -1
        hit = best >= 0 and overlaps[best] >= threshold and not taken[scene][best]
        if hit:
            taken[scene][best] = True
        hits.append(hit)
    hits = np.cumsum(hits)
    recall, precision = hits / total, hits / np.arange(1, len(hits) + 1)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    return float(np.sum(np.diff(np.concatenate([[0], recall])) * envelope)) if len(hits) else 0.0


def mean_average_precision(results, scenes, classes):
    """results: per scene (boxes, scores, classes) arrays. Returns the mean and one value per class."""
    per_class = []
    for c in range(classes):
        truth = {i: scenes.boxes[i][scenes.classes[i] == c] for i in range(len(scenes))}
        detections = [(i, s, b) for i, (boxes, scores, labels) in enumerate(results)
                      for b, s, k in zip(boxes, scores, labels) if k == c]
        per_class.append(average_precision(detections, truth))
    return float(np.nanmean(per_class)), per_class
