"""torch.compile on the device: what a process finds that others left, and what it imports."""
import os
import subprocess
import sys


def test_compiled_code_is_found_in_caches(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(
        "import torch\n"
        "from torch._dynamo.utils import counters\n"
        "x = torch.ones(100, device='ocl')\n"
        "y = torch.compile(lambda x: (x * 3).sin() + x.sum())(x)\n"
        "assert abs(y[0].item() - 100.14112) < 1e-3\n"
        "print(torch.ocl.program_builds(), counters['inductor']['fxgraph_cache_hit'])\n")
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"), "CLPRIM_CACHE_DIR": str(tmp_path / "clprim")}
    runs = [subprocess.run([sys.executable, str(script)], env=os.environ | environment, capture_output=True, text=True,
                           check=True).stdout.split()[-2:] for _ in range(2)]
    assert int(runs[0][0]) > 0 and runs[0][1] == "0"
    assert runs[1][0] == "0"


def test_nothing_of_the_compiler_is_imported_before_use():
    code = ("import sys, torch; torch.ocl.device_count(); compiler = ('torch._inductor', 'torch._dynamo', "
            "'torch_ocl.inductor'); print([m for m in sys.modules if m.startswith(compiler)])")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_a_frozen_model_compiled_first_keeps_its_layout():
    code = ("import torch; from torch._inductor import config\n"
            "model = torch.nn.Conv2d(16, 16, 3).eval().to('ocl')\n"
            "x = torch.ones(2, 16, 12, 12, device='ocl')\n"
            "with torch.no_grad(), config.patch(freezing=True, force_disable_caches=True):\n"
            "    compiled = torch.compile(model)\n"
            "    compiled(x)\n"
            "    before = torch.ocl.kernel_launches()\n"
            "    y = compiled(x)\n"
            "    print(y.is_contiguous(), model.weight.is_contiguous(), torch.ocl.kernel_launches() - before)")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    contiguous, kept, launches = out.split()[-3:]
    # On a CPU the convolution has channels innermost: the image is turned, and turned back; the weights never again.
    assert contiguous == kept == "True" and int(launches) <= 3
