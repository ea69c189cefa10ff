"""ultralytics on OpenCL devices: device="ocl". A network of random weights learns squares that are drawn here.

    python examples/integrations/train_ultralytics.py
    python examples/integrations/train_ultralytics.py ocl:0,1       # a process for each of two devices
"""
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("YOLO_OFFLINE", "True")

import cv2  # noqa: E402
import numpy  # noqa: E402

import torch_ocl.integrations  # noqa: E402, F401 (makes ultralytics know ocl)
from ultralytics import YOLO  # noqa: E402


def draw(folder: Path) -> Path:
    for part in ("train", "val"):
        for kind in ("images", "labels"):
            (folder / kind / part).mkdir(parents=True)
        for i in range(4):
            picture = numpy.zeros((64, 64, 3), numpy.uint8)
            picture[10:40, 10:40] = 255
            cv2.imwrite(str(folder / "images" / part / f"{i}.png"), picture)
            (folder / "labels" / part / f"{i}.txt").write_text("0 0.39 0.39 0.47 0.47\n")
    data = folder / "data.yaml"
    data.write_text(f"path: {folder}\ntrain: images/train\nval: images/val\nnames: [square]\n")
    return data


def main(device: str = "ocl") -> None:
    model = YOLO("yolov8n.yaml")
    found = model.predict(numpy.zeros((64, 64, 3), numpy.uint8), device="ocl:0", imgsz=64, verbose=False)
    assert found[0].boxes.data.device.type == "ocl"
    with tempfile.TemporaryDirectory() as folder:
        model.train(data=str(draw(Path(folder))), epochs=1, imgsz=64, batch=2, device=device, workers=0, plots=False,
                    verbose=False, project=folder, amp=False, optimizer="SGD")
        assert model.trainer.device.type == "ocl"
        results = next(Path(folder).rglob("results.csv")).read_text().splitlines()
        print("trained on", device, "losses", dict(zip(*(line.replace(" ", "").split(",")[2:5] for line in results))))


if __name__ == "__main__":
    main(*sys.argv[1:])
