"""python -m torch_ocl validate|warmup|tune|doctor ..."""
import importlib
import sys

COMMANDS = {
    "validate": "run models on an OpenCL device and compare them with the CPU",
    "warmup": "build the programs that models need ahead of their first use",
    "tune": "find the fastest kernels for models' problems on this device",
    "doctor": "show devices, drivers and versions, and what is missing",
    "run": "run a script that was written for cuda on an OpenCL device",
    "names": "show what torch.ocl makes of the names of torch.cuda, torch.xpu, torch.mps and torch.accelerator",
}

MODULES = {"names": "_names", "run": "as_cuda"}


def main(arguments):
    if not arguments or arguments[0] not in COMMANDS:
        print("usage: python -m torch_ocl COMMAND [--help]\n")
        for name, meaning in COMMANDS.items():
            print(f"  {name:10}{meaning}")
        return 0 if arguments in (["-h"], ["--help"]) else 2
    return importlib.import_module(f"torch_ocl.{MODULES.get(arguments[0], arguments[0])}").main(arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
