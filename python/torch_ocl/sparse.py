"""torch.ocl.sparse: empty, as torch.cuda.sparse is; sparse tensors are made with torch.sparse_coo_tensor and its like,
device="ocl"."""

_LEGACY = ("BFloat16Tensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor",
           "LongTensor", "ShortTensor")


def __getattr__(name: str):
    from torch_ocl._surface import Refused

    if name in _LEGACY:
        return Refused(f"sparse.{name}", "the constructors of sparse types from before dtypes take no device; use "
                                         "torch.sparse_coo_tensor(indices, values, size, device='ocl')")
    raise AttributeError(f"module 'torch.ocl.sparse' has no attribute '{name}'")
