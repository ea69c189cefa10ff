"""Tuning: what is found is right, kept, used by later processes, and goes to other machines."""
import json
import os
import subprocess
import sys

import pytest
import torch

TUNED = """
import sys
import torch
torch.manual_seed(0)
def few_bits(*shape):   # products and sums that float32 holds exactly, in whichever order an implementation adds
    return torch.randint(-8, 9, shape) / 8
a, b = few_bits(96, 200), few_bits(200, 72)
x, w = few_bits(2, 8, 12, 12), few_bits(16, 8, 3, 3)
if sys.argv[1] == "tune":
    torch.ocl.tunable.set_max_tuning_duration(300)
    torch.ocl.tunable.enable()
    assert torch.ocl.tunable.is_enabled() and torch.ocl.tunable.get_max_tuning_duration() == 300
torch.testing.assert_close((a.to("ocl") @ b.to("ocl")).cpu(), a @ b)
torch.testing.assert_close(torch.nn.functional.conv2d(x.to("ocl"), w.to("ocl")).cpu(), torch.nn.functional.conv2d(x, w))
torch.ocl.tunable.enable(False)
results = torch.ocl.tunable.get_results()
assert {family for family, _, _ in results} == {"gemm", "conv"}, results
assert any("m=96 n=72 k=200" in problem for _, problem, _ in results)
torch.ocl.tunable.write_file(sys.argv[2])
"""


# Results of its own: the programs of all points are those of other tests, too.
def run(results, *arguments, **environment):
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, "CLPRIM_TUNING_DIR": str(results), **environment})
    return done


def test_results_are_kept_used_and_carried(tmp_path):
    file, elsewhere = tmp_path / "results.json", tmp_path / "elsewhere.json"
    done = run(tmp_path / "results", "-c", TUNED, "tune", file, CLPRIM_PROGRESS="1")
    assert done.returncode == 0, done.stderr
    assert "clprim: tuned gemm float32" in done.stderr
    done = run(tmp_path / "results", "-c", TUNED, "use", tmp_path / "again.json", CLPRIM_VERBOSE="1")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("tuned before") == 2, done.stderr
    assert json.loads((tmp_path / "again.json").read_text()) == json.loads(file.read_text())
    take = f"import torch; torch.ocl.tunable.read_file({str(file)!r}); torch.ocl.tunable.write_file({str(elsewhere)!r})"
    done = run(tmp_path / "other", "-c", take)
    assert done.returncode == 0, done.stderr
    assert json.loads(elsewhere.read_text()) == json.loads(file.read_text())


COMPILED = """
import torch
torch.manual_seed(0)
x, w, v = torch.randn(2, 8, 12, 12), torch.randn(16, 8, 3, 3), torch.randn(100, 24)
def model(x, w, v):
    y = torch.relu(torch.nn.functional.conv2d(x, w))
    return torch.nn.functional.gelu(y.flatten(1).view(-1, 100) @ v)
torch.ocl.tunable.set_max_tuning_duration(300)
compiled = torch.compile(model, mode="max-autotune-no-cudagraphs", dynamic=DYNAMIC)
torch.testing.assert_close(compiled(x.to("ocl"), w.to("ocl"), v.to("ocl")).cpu(), model(x, w, v), atol=1e-4, rtol=1e-4)
results = torch.ocl.tunable.get_results()
assert {family for family, _, _ in results} == {"gemm", "conv"}, results
assert not torch.ocl.tunable.is_enabled()
"""


@pytest.mark.parametrize("dynamic", (False, True))
def test_max_autotune_tunes(tmp_path, dynamic):
    done = run(tmp_path / "results", "-c", COMPILED.replace("DYNAMIC", str(dynamic)), CLPRIM_PROGRESS="1",
               TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "graphs"))
    assert done.returncode == 0, done.stderr
    assert "clprim: tuned gemm float32" in done.stderr and "clprim: tuned conv" in done.stderr


def test_files_that_do_not_fit(tmp_path):
    file = tmp_path / "results.json"
    with pytest.raises(ValueError, match="cannot read .*results.json"):
        torch.ocl.tunable.read_file(str(file))
    file.write_text("[]")
    with pytest.raises(ValueError, match="results.json is not a file of them, or is damaged"):
        torch.ocl.tunable.read_file(str(file))
    properties = torch.ocl.get_device_properties(0)
    file.write_text(json.dumps({"format": "clprim tuning results", "version": 1, "results": [], "device": {
        "platform": properties.platform_name, "name": "another", "driver": "1", "kind": "gpu"}}))
    with pytest.raises(ValueError, match='was made on another device: its name is "another", here it is'):
        torch.ocl.tunable.read_file(str(file))
    with pytest.raises(RuntimeError, match="cannot write /nonexistent"):
        torch.ocl.tunable.write_file("/nonexistent/results.json")


def test_settings():
    tunable = torch.ocl.tunable
    with pytest.raises(ValueError, match="positive number of milliseconds"):
        tunable.set_max_tuning_duration(0)
    with pytest.raises(NotImplementedError, match="cuBLASLt is NVIDIA's"):
        tunable.set_cublaslt_requested_algo_count(1)
    before = tunable.get_filename()
    tunable.set_filename("results.json", insert_device_ordinal=True)
    assert tunable.get_filename() == "results0.json"
    tunable.set_filename(before)
    assert dict(tunable.get_validators())["name"] == torch.ocl.get_device_name(0)


def test_command(tmp_path):
    file = tmp_path / "results.json"
    done = run(tmp_path / "results", "-m", "torch_ocl", "tune", "squeezenet1_1", "--size", "32", "--batch", "1",
               "--seconds", "0.05", "--export", file)
    assert done.returncode == 0, done.stderr
    assert "results are known of" in done.stdout
    assert len(json.loads(file.read_text())["results"]) > 20
    done = run(tmp_path / "results", "-m", "torch_ocl", "tune", "no_such_model")
    assert done.returncode == 2 and "torchvision has no model no_such_model" in done.stderr
    done = run(tmp_path / "results", "-m", "torch_ocl", "tune", "--import", tmp_path / "nothing.json")
    assert done.returncode == 1 and "cannot read" in done.stderr
