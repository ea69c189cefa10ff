"""The validation tool agrees with a right device and finds a wrong one."""
import json
import sys

import pytest
import torch

from torch_ocl import (doctor, validate, validate_compile, validate_compile_models, validate_timm,
                       validate_transformers)


def test_a_small_network_agrees(device):
    report = validate.validate("squeezenet1_0", device, size=64)
    assert report.misses(validate.LIMITS[torch.float32], allow_fallback=False) == []
    assert 0 < report.gradient < 1e-3 and report.worst_parameter


@pytest.mark.parametrize("part, name", [("outputs", "output"), ("input_gradient", "input_gradient"),
                                        ("gradients", "gradient"), ("evaluated", "evaluated")])
def test_a_wrong_device_is_found(device, monkeypatch, part, name):
    right = validate.training_step

    def wrong(model, image, labels, on, dtype):
        step = right(model, image, labels, torch.device("cpu"), dtype)
        if on == device:
            value = getattr(step, part)
            tensors = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else [value]
            for tensor in tensors:
                tensor.mul_(1.01)
        return step

    monkeypatch.setattr(validate, "training_step", wrong)
    report = validate.validate("squeezenet1_0", device, size=64)
    misses = report.misses(validate.LIMITS[torch.float32], allow_fallback=False)
    assert name in misses
    assert set(misses) <= {name, "parameter"}


def test_not_a_number_is_a_miss():
    report = validate.Report("x", output=float("nan"))
    assert report.misses(validate.LIMITS[torch.float32], allow_fallback=False) == ["output"]


def test_smooth_activations_replace_modules_and_functions():
    x = torch.linspace(-2, 2, 9)
    with validate.SmoothActivations():
        for kinked in (torch.nn.ReLU(), torch.nn.ReLU6(), torch.nn.Hardswish(), torch.relu, torch.nn.functional.relu):
            torch.testing.assert_close(kinked(x.clone()), torch.nn.functional.silu(x))
        torch.testing.assert_close(torch.nn.Hardsigmoid()(x), torch.sigmoid(x))


@pytest.mark.allow_fallback
def test_command_line(device, capsys):
    assert validate.main(["no_such_model"]) == 2
    assert "no_such_model" in capsys.readouterr().err
    code = validate.main(["squeezenet1_0", "--size", "64", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert code == (1 if rows[0]["missed"] else 0) and rows[0]["model"] == "squeezenet1_0"


@pytest.mark.allow_fallback
def test_doctor_finds_this_machine_well(capsys):
    assert doctor.main([]) == 0
    assert "ocl:0" in capsys.readouterr().out


@pytest.mark.parametrize("package", ["transformers", "timm"])
def test_a_missing_package_is_named(monkeypatch, capsys, package):
    monkeypatch.setitem(sys.modules, package, None)
    assert validate.main([f"--{package}"]) == 2
    assert f"pip install {package}" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["bert", "llama", "mixtral", "t5", "mamba", "vit"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_models_of_transformers_agree(device, name, attention):
    pytest.importorskip("transformers")
    report = validate_transformers.validate(name, attention, device)
    if report is None:
        pytest.skip(f"{name} has no attention {attention}")
    assert report.misses(validate_transformers.LIMITS[torch.float32]) == []
    assert 0 < report.gradient < 1e-4 and bool(report.texts) == validate_transformers.MODELS[name].writes


def test_a_wrong_model_of_transformers_is_found(device, monkeypatch):
    pytest.importorskip("transformers")
    right = validate_transformers.run

    def wrong(model, inputs, on, *options):
        outcome = right(model, inputs, torch.device("cpu"), *options)
        if on == device:
            outcome.texts["greedy"] += 1
            outcome.gradients[next(iter(outcome.gradients))].mul_(1.5)
        return outcome

    monkeypatch.setattr(validate_transformers, "run", wrong)
    report = validate_transformers.validate("gpt2", "eager", device)
    assert {"gradient", "parameter", "texts"} <= set(report.misses(validate_transformers.LIMITS[torch.float32]))


def test_a_model_of_timm_agrees(device):
    pytest.importorskip("timm")
    report = validate_timm.validate("test_vit", device)
    assert report.misses(validate.LIMITS[torch.float32], allow_fallback=False) == []


class SmallNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.linear = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Linear(4, 5)

    def forward(self, x):
        y = torch.nn.functional.relu(self.norm(self.conv(x)))
        return self.linear(torch.nn.functional.max_pool2d(y, 2).mean((2, 3)))


def small_case():
    torch.manual_seed(0)
    return validate_compile_models.Case(SmallNet(), lambda batch: validate_compile_models.images(12, batch))


def test_a_compiled_network_agrees(device):
    report = validate_compile.compare("small", small_case(), device)
    assert report.misses() == [] and validate_compile.row(report).endswith("ok")
    assert report.launches["compiled"][0] < report.launches["eager"][0]


def test_a_wrong_compiled_network_is_found(device, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda model, **options: lambda x: model(x) * (1.01 - (x.device.type == "cpu")
                                                                                         * 0.01))
    report = validate_compile.compare("small", small_case(), device)
    assert set(report.misses()) == {"forward", "dynamic forward", "outputs", "dynamic outputs", "dynamic gradient"}
    assert validate_compile.row(report).endswith("MISSED")


def test_a_compiled_model_that_fails_or_takes_too_long_is_named(monkeypatch, capfd):
    monkeypatch.setattr(validate_compile.subprocess, "run",
                        lambda command, timeout, **options: (_ for _ in ()).throw(
                            validate_compile.subprocess.TimeoutExpired(command, timeout)))
    assert validate.main(["--compile", "resnet18", "--time-limit", "5"]) == 1
    assert "not done after 5.0 s" in capfd.readouterr().out


def test_a_list_of_compiled_models_goes_on_where_it_ended(monkeypatch, capfd, tmp_path):
    ran = []

    def in_a_process(package, name, options):
        ran.append(name)
        return validate_compile.Report(name, launches={"eager": (2, 3), "compiled": (1, 2)},
                                       error="not done" if ran == ["alexnet", "vgg16"] else "")

    monkeypatch.setattr(validate_compile, "_in_a_process", in_a_process)
    command = ["--compile", "--results", str(tmp_path / "reports"), "alexnet", "vgg16"]
    for further, code, expected in (([], 1, ["alexnet", "vgg16"]), ([], 1, []), (["--missed"], 0, ["vgg16"])):
        before = len(ran)
        assert validate.main(command + further) == code
        assert ran[before:] == expected
    assert validate.main(command + ["resnet18", "--until", "0"]) == 0 and "resnet18" not in capfd.readouterr().out
