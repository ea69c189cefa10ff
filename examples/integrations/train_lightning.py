"""Lightning on OpenCL devices: accelerator="ocl"; "auto" and "gpu" choose it too.

    python examples/integrations/train_lightning.py
    torchrun --nproc-per-node 2 examples/integrations/train_lightning.py 2      # a process for each of two devices
"""
import sys

import torch

import torch_ocl.integrations  # noqa: F401 (registers the accelerator)
import lightning


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))

    def training_step(self, batch, _):
        assert batch.device.type == "ocl"
        loss = torch.nn.functional.mse_loss(self.layers(batch), batch.sum(1, keepdim=True))
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def main(devices: str = "1") -> None:
    lightning.seed_everything(0)
    loader = torch.utils.data.DataLoader(torch.randn(64, 4), batch_size=16)
    runs = [("ocl", "32-true", "auto"), ("auto", "16-mixed", "auto"), ("gpu", "bf16-mixed", "auto")]
    if int(devices) > 1:
        runs += [("ocl", "32-true", "fsdp"), ("ocl", "bf16-mixed", "fsdp")]
    for accelerator, precision, strategy in runs:
        trainer = lightning.Trainer(accelerator=accelerator, devices=int(devices), precision=precision,
                                    strategy=strategy, max_epochs=2, logger=False, enable_checkpointing=False,
                                    enable_progress_bar=False, enable_model_summary=False)
        trainer.fit(Regression(), loader)
        assert trainer.strategy.root_device.type == "ocl" and trainer.world_size == int(devices)
        print(f"Trainer({accelerator!r}) on {trainer.strategy.root_device}, {precision}, "
              f"{type(trainer.strategy).__name__}: "
              f"loss {float(trainer.callback_metrics['loss']):.4f}")
    fabric = lightning.Fabric(accelerator="ocl", devices=int(devices), precision="16-mixed")
    fabric.launch()
    model = torch.nn.Linear(4, 1)
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    fabric.backward(model(torch.randn(8, 4, device=fabric.device)).square().mean())
    optimizer.step()
    print("Fabric on", fabric.device)


if __name__ == "__main__":
    main(*sys.argv[1:])
