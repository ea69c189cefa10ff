"""ONNX export: the standard DeformConv, checked by onnx and computed by onnx's own reference evaluator."""
import io

import pytest
import torch
from torchvision.ops import DeformConv2d

from torch_ocl import dcn_v2

onnx = pytest.importorskip("onnx")
from onnx.reference import ReferenceEvaluator  # noqa: E402


def drop_in():
    module = dcn_v2.DCN(4, 3, 3, stride=2, padding=1, deformable_groups=2)
    torch.nn.init.normal_(module.conv_offset_mask.weight, std=0.2)
    return module, (torch.randn(2, 4, 6, 5),)


def torchvision_layer(mask, bias):
    module = DeformConv2d(4, 6, (3, 2), stride=(1, 2), padding=(2, 1), dilation=(2, 1), groups=2, bias=bias)
    x, offset = torch.randn(2, 4, 6, 5), torch.randn(2, 2 * 2 * 6, 6, 3)
    return module, (x, offset, torch.rand(2, 2 * 6, 6, 3)) if mask else (x, offset)


CASES = {"DCN": drop_in, "torchvision": lambda: torchvision_layer(True, True),
         "torchvision v1": lambda: torchvision_layer(False, False)}


def check(model, module, arguments):
    onnx.checker.check_model(model, full_check=True)
    assert [o.version for o in model.opset_import if o.domain == ""] == [19]
    (node,) = [n for n in model.graph.node if n.op_type == "DeformConv"]
    assert node.domain == "" and all(n.domain == "" for n in model.graph.node)
    feeds = {i.name: t.numpy() for i, t in zip(model.graph.input, arguments, strict=True)}
    (output,) = ReferenceEvaluator(model).run(None, feeds)
    torch.testing.assert_close(torch.from_numpy(output), module(*arguments).detach())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore")
def test_exporter_that_traces(case):
    dcn_v2.register_onnx()
    module, arguments = CASES[case]()
    file = io.BytesIO()
    torch.onnx.export(module, arguments, file, opset_version=19, dynamo=False)
    check(onnx.load_from_string(file.getvalue()), module, arguments)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore")
def test_exporter_that_captures(case):
    pytest.importorskip("onnxscript")
    module, arguments = CASES[case]()
    program = torch.onnx.export(module, arguments, opset_version=19, dynamo=True, verbose=False,
                                custom_translation_table=dcn_v2.onnx_translations())
    check(program.model_proto, module, arguments)
