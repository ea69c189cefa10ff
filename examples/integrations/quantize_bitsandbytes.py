"""bitsandbytes on an OpenCL device: layers of 8 and 4 bits, against those of float32."""
import torch
import torch_ocl  # noqa: F401
import bitsandbytes


def layer(kind: str):
    if kind == "int8":
        return bitsandbytes.nn.Linear8bitLt(256, 128, has_fp16_weights=False)
    return bitsandbytes.nn.Linear4bit(256, 128, quant_type=kind, compute_dtype=torch.float32)


def main() -> None:
    x = torch.randn(8, 256, generator=torch.Generator().manual_seed(0))
    # How far results may lie from those of the float layer, of their norm.
    for kind, bound in (("int8", 0.02), ("nf4", 0.12), ("fp4", 0.15)):
        torch.manual_seed(1)
        quantized = layer(kind)
        expected = torch.nn.functional.linear(x, quantized.weight.data.float(), quantized.bias.data)
        quantized = quantized.to("ocl")
        given = x.to("ocl").requires_grad_()
        result = quantized(given)
        error = ((result.detach().cpu() - expected).norm() / expected.norm()).item()
        result.sum().backward()   # to what stands before it, as adapters (LoRA) need
        assert quantized.weight.dtype in (torch.int8, torch.uint8) and given.grad.abs().sum() > 0
        print(f"{kind} on {quantized.weight.device}: error {error:.4f} of the result")
        assert error < bound, kind
    # Its optimizers have kernels of CUDA's kind alone.
    parameter = torch.nn.Parameter(torch.ones(8192, device="ocl"))
    parameter.grad = torch.ones_like(parameter)
    torch.ocl.set_fallback_policy("error")
    try:
        bitsandbytes.optim.Adam8bit([parameter]).step()
    except NotImplementedError as error:
        assert "optimizer_update_8bit_blockwise has no kernel for the ocl device" in str(error)
        print("Adam8bit is refused:", str(error).partition(";")[0])


if __name__ == "__main__":
    main()
