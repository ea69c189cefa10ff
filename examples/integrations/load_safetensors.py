"""safetensors straight onto an OpenCL device: device="ocl"."""
import tempfile
from pathlib import Path

import torch

import torch_ocl.integrations  # noqa: F401 (makes safetensors know ocl)
from safetensors import safe_open
from safetensors.torch import load_file, load_model, save_file, save_model


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.safetensors"
        save_file({"weight": torch.arange(6.0, device="ocl").view(2, 3)}, path)
        for device in ("ocl", "ocl:0", torch.device("ocl")):
            weight = load_file(path, device=device)["weight"]
            assert weight.device.type == "ocl" and weight.sum().item() == 15
        assert load_file(path)["weight"].device.type == "cpu"
        with safe_open(path, "pt", device="ocl") as file:
            assert file.get_slice("weight")[:, 1].tolist() == [1.0, 4.0]
        model = torch.nn.Linear(3, 2).to("ocl")
        save_model(model, str(path))
        load_model(model, path, device="ocl")
        print("loaded onto", weight.device)


if __name__ == "__main__":
    main()
