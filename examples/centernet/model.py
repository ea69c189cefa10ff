"""CenterNet (Zhou, Wang, Krähenbühl, "Objects as Points", 2019): a backbone, up-sampling with deformable convolution to
a quarter of the picture's size, and three heads: class heat map, size and offset of the object centred there.

Two backbones: ResNet-18 with a chain of deformable and transposed convolutions and lateral connections, and DLA-34 (Yu
et al., "Deep Layer Aggregation", 2018) with its iterative deep aggregation made of deformable convolutions.
"""
import math

import torch
from torch import nn

from torch_ocl.dcn_v2 import DCN

STRIDE = 4   # of the output


def conv_bn(c_in, c_out, kernel, stride=1):
    return nn.Sequential(nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(c_out))


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, c_in, c_out, stride=1):
        super().__init__()
        self.conv1 = conv_bn(c_in, c_out, 3, stride)
        self.conv2 = conv_bn(c_out, c_out, 3)
        self.relu = nn.ReLU(inplace=True)
        self.project = conv_bn(c_in, c_out, 1, stride) if stride != 1 or c_in != c_out else None

    def forward(self, x, residual=None):
        if residual is None:
            residual = x if self.project is None else self.project(x)
        out = self.conv2(self.relu(self.conv1(x)))
        out += residual
        return self.relu(out)


class DeformBlock(nn.Sequential):
    """Deformable convolution, batch norm, ReLU."""

    def __init__(self, c_in, c_out):
        super().__init__(DCN(c_in, c_out, 3, stride=1, padding=1), nn.BatchNorm2d(c_out), nn.ReLU(inplace=True))


def bilinear_upsample(channels, factor):
    """Transposed convolution per channel that starts as bilinear interpolation."""
    up = nn.ConvTranspose2d(channels, channels, 2 * factor, factor, factor // 2, groups=channels, bias=False)
    with torch.no_grad():
        distance = (torch.arange(2 * factor) + 0.5) / factor - 1
        line = 1 - distance.abs()
        up.weight.copy_((line[:, None] * line).expand_as(up.weight))
    return up


# ---- ResNet-18 ------------------------------------------------------------------------------------------------------

class ResNet18(nn.Module):
    """The residual network without its classifier, then three steps of up-sampling by two. The original has no way
    around its smallest map, which holds 1/32 of the resolution; here each step also sees the stage of its own size."""

    channels = 64

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(conv_bn(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        widths = (64, 64, 128, 256, 512)
        self.stages = nn.Sequential(*[nn.Sequential(Block(widths[i], widths[i + 1], 1 if i == 0 else 2),
                                                    Block(widths[i + 1], widths[i + 1])) for i in range(4)])
        steps, laterals, c_in = [], [], 512
        for c_out in (256, 128, 64):
            up = nn.ConvTranspose2d(c_out, c_out, 4, 2, 1, bias=False)
            with torch.no_grad():   # bilinear, each channel by itself
                up.weight.zero_()
                kernel = bilinear_upsample(1, 2).weight[0, 0]
                up.weight[range(c_out), range(c_out)] = kernel
            steps.append(nn.Sequential(DeformBlock(c_in, c_out), up, nn.BatchNorm2d(c_out)))
            laterals.append(conv_bn(c_out, c_out, 1))
            c_in = c_out
        self.up, self.laterals = nn.ModuleList(steps), nn.ModuleList(laterals)

    def forward(self, x):
        maps = [self.stem(x)]
        for stage in self.stages:
            maps.append(stage(maps[-1]))
        x = maps.pop()
        for up, lateral in zip(self.up, self.laterals):
            x = torch.relu(up(x) + lateral(maps.pop()))
        return x


# ---- DLA-34 ---------------------------------------------------------------------------------------------------------

class Tree(nn.Module):
    """Hierarchical aggregation: a binary tree of blocks whose root sees the outputs of its children."""

    def __init__(self, levels, c_in, c_out, stride=1, level_root=False, root_width=0):
        super().__init__()
        root_width = (root_width or 2 * c_out) + (c_in if level_root else 0)
        self.level_root = level_root
        self.levels = levels
        if levels == 1:
            self.left, self.right = Block(c_in, c_out, stride), Block(c_out, c_out)
            self.left.project = None   # the shortcut is made here, for the whole tree
            self.root = nn.Sequential(conv_bn(root_width, c_out, 1), nn.ReLU(inplace=True))
        else:
            self.left = Tree(levels - 1, c_in, c_out, stride)
            self.right = Tree(levels - 1, c_out, c_out, root_width=root_width + c_out)
        self.shrink = nn.MaxPool2d(stride, stride) if stride > 1 else nn.Identity()
        self.project = conv_bn(c_in, c_out, 1) if levels == 1 and c_in != c_out else nn.Identity()

    def forward(self, x, children=()):
        bottom = self.shrink(x)
        children = [*children, bottom] if self.level_root else list(children)
        if self.levels == 1:
            left = self.left(x, self.project(bottom))
            return self.root(torch.cat([self.right(left), left, *children], 1))
        left = self.left(x)
        return self.right(left, [*children, left])


class Aggregate(nn.Module):
    """Brings deeper maps to the size and width of the first, adding them up one after the other."""

    def __init__(self, c_out, widths, factors):
        super().__init__()
        self.project = nn.ModuleList(DeformBlock(c, c_out) for c in widths)
        self.up = nn.ModuleList(bilinear_upsample(c_out, f) for f in factors)
        self.node = nn.ModuleList(DeformBlock(c_out, c_out) for _ in widths)

    def forward(self, first, deeper):
        outputs = [first]
        for x, project, up, node in zip(deeper, self.project, self.up, self.node):
            outputs.append(node(up(project(x)) + outputs[-1]))
        return outputs


class DLA34(nn.Module):
    channels = 64

    def __init__(self):
        super().__init__()
        self.base = nn.Sequential(conv_bn(3, 16, 7), nn.ReLU(inplace=True), conv_bn(16, 16, 3), nn.ReLU(inplace=True),
                                  conv_bn(16, 32, 3, 2), nn.ReLU(inplace=True))
        self.levels = nn.ModuleList([Tree(1, 32, 64, 2), Tree(2, 64, 128, 2, True), Tree(2, 128, 256, 2, True),
                                     Tree(1, 256, 512, 2, True)])
        # Deepest first: every pass rebuilds the maps below it at twice the size.
        self.aggregate = nn.ModuleList([Aggregate(256, [512], [2]), Aggregate(128, [256, 256], [2, 2]),
                                        Aggregate(64, [128, 128, 128], [2, 2, 2])])
        self.final = Aggregate(64, [128, 256], [2, 4])

    def forward(self, x):
        x = self.base(x)
        maps = []
        for level in self.levels:
            x = level(x)
            maps.append(x)                       # strides 4, 8, 16, 32
        rebuilt = [maps[-1]]                     # finest first, one map per level done
        deeper = [maps[-1]]
        for level, aggregate in zip((2, 1, 0), self.aggregate):
            outputs = aggregate(maps[level], deeper)
            deeper = outputs                     # the same size, one more each time
            rebuilt.insert(0, outputs[-1])
        return self.final(rebuilt[0], rebuilt[1:3])[-1]


BACKBONES = {"res18": ResNet18, "dla34": DLA34}


class CenterNet(nn.Module):
    def __init__(self, backbone, classes, head_width=64):
        super().__init__()
        self.backbone = BACKBONES[backbone]()
        width = self.backbone.channels

        def head(outputs):
            return nn.Sequential(nn.Conv2d(width, head_width, 3, padding=1), nn.ReLU(inplace=True),
                                 nn.Conv2d(head_width, outputs, 1))

        self.heat, self.size, self.offset = head(classes), head(2), head(2)
        nn.init.constant_(self.heat[-1].bias, -math.log((1 - 0.1) / 0.1))   # start with rare objects

    def forward(self, images):
        features = self.backbone(images)
        return {"heat": self.heat(features), "size": self.size(features), "offset": self.offset(features)}
