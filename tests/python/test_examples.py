"""The demo's data: right bytes are taken, wrong ones refused with clear words."""
import gzip
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import fashion_mnist_data as data  # noqa: E402


def test_damaged_files_are_refused(tmp_path):
    name = "t10k-labels-idx1-ubyte"
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(bytes(data.FILES[name][0])))   # right size, wrong bytes
    with pytest.raises(data.DataNotFound, match="damaged"):
        data._read(tmp_path, name)
    (tmp_path / f"{name}.gz").write_bytes(b"not a gzip file")
    with pytest.raises(data.DataNotFound, match="damaged"):
        data._read(tmp_path, name)


def test_labels_and_images_of_debians_package():
    if not Path("/usr/share/datasets/fashion-mnist").exists():
        pytest.skip("dataset-fashion-mnist is not installed")
    test_set = data.FashionMNIST(train=False)
    image, label = test_set[0]
    assert len(test_set) == 10000 and image.shape == (1, 28, 28) and data.CLASSES[label] == "ankle boot"
    assert torch.equal(test_set.labels.bincount(), torch.full((10,), 1000))
