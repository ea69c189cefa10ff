"""Damaged, hostile and misfit models and inputs: one clear error that names what is wrong, no crash, no flood of
memory."""
import contextlib
import os
import random
import resource
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import clprim

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import fuzz_parsers


def model(nodes, inputs, outputs, initializers=(), opset=17, **kwargs):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **kwargs)


def port(name, shape=None, element=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, element, shape)


def add_model():
    return model([helper.make_node("Add", ["x", "w"], ["y"], name="adder")], [port("x", ["n", 2])], [port("y")],
                 [numpy_helper.from_array(np.ones(2, np.float32), "w")])


def refuses(source, match, error=clprim.InvalidArgument):
    with pytest.raises(error, match=match):
        clprim.Session(source)


def test_truncated_at_every_byte():
    data = add_model().SerializeToString()
    clprim.Session(data)
    for length in range(len(data)):
        try:
            clprim.Session(data[:length])
        except clprim.Error:
            continue
        # Cut between two fields the rest is a model still: it lost its operator set.
        rest = onnx.load_from_string(data[:length])
        assert rest.graph == add_model().graph and not rest.opset_import, f"taken after {length} of {len(data)} bytes"


def test_no_model():
    refuses(b"", "the model has no graph")
    refuses(os.urandom(1000), "not an ONNX model")
    refuses("/no/such/file.onnx", "/no/such/file.onnx")
    refuses(b"\x14\0\0\0ORTM" + os.urandom(1000), "own format .*session.save_model_format = ONNX")
    with pytest.raises(TypeError, match="path, bytes"):
        clprim.Session(3)


def test_cycles_and_loose_ends():
    refuses(model([helper.make_node("Relu", ["b"], ["a"], name="one"),
                   helper.make_node("Relu", ["a"], ["b"], name="two")],
                  [], [port("a")]), "cycle.*|.*(one|two).*cycle")
    refuses(model([helper.make_node("Relu", ["nobody"], ["y"], name="loose")], [port("x", [1])], [port("y")]),
            "Relu 'loose'.*'nobody' is written by no node")
    refuses(model([helper.make_node("Relu", ["x"], ["y"])], [port("x", [1])], [port("z")]),
            "'z'.* is written by no node")
    refuses(model([helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["y"])], [port("x", [1])],
                  [port("y")]), "'y' is written twice")


def test_unknown_operators_are_named_all_at_once():
    nodes = [helper.make_node("NoSuchThing", ["x"], ["a"]), helper.make_node("NoSuchThing", ["a"], ["b"]),
             helper.make_node("Other", ["b"], ["y"], domain="my.domain")]
    bad = model(nodes, [port("x", [1])], [port("y")])
    assert clprim.OnnxModel(bad).unsupported == {"NoSuchThing": 2, "my.domain.Other": 1}
    with pytest.raises(NotImplementedError, match=r"NoSuchThing \(2\).*my.domain.Other \(1\)"):
        clprim.Session(bad)


def field(number, content):
    """A protobuf field of bytes."""
    def varint(value):
        return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)
    return varint(number << 3 | 2) + varint(len(content)) + content


def nested_ifs(depth):
    """Bytes of a model whose If nodes lie in each other's branches; written by hand as Python's protobuf refuses
    them."""
    y = field(12, field(1, b"y"))
    graph = field(1, field(1, b"x") + field(2, b"y") + field(4, b"Identity")) + y
    for _ in range(depth):
        branches = b"".join(field(5, field(1, name) + field(6, graph if name == b"then_branch" else
                                                            field(1, field(1,
                                                                           b"x") + field(2,
                                                                                         b"y") + field(4, b"Identity")) + y)
                                  + bytes([0xa0, 1, 5])) for name in (b"then_branch", b"else_branch"))
        graph = field(1, field(1, b"c") + field(2, b"y") + field(4, b"If") + branches) + y
    for name in (b"x", b"c"):
        graph += field(11, field(1, name))
    return bytes([8, 8]) + field(7, graph) + field(8, bytes([16, 17]))


def test_deep_nesting():
    clprim.Session(nested_ifs(20))
    for depth in (40, 100, 2000):
        refuses(nested_ifs(depth), "not an ONNX model|deep")


def test_functions_that_call_themselves_or_explode():
    def function(name, calls):
        nodes = [helper.make_node(callee, ["a"], [f"t{i}"], domain="f") for i, callee in enumerate(calls)]
        nodes.append(helper.make_node("Identity", ["a"], ["b"]))
        return helper.make_function("f", name, ["a"], ["b"], nodes,
                                    [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)])

    def calling(functions):
        graph = helper.make_graph([helper.make_node("F0", ["x"], ["y"], domain="f")], "g", [port("x", [1])],
                                  [port("y")])
        return helper.make_model(graph, functions=functions, ir_version=8,
                                 opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("f", 1)])

    refuses(calling([function("F0", ["F0"])]), "deep")
    refuses(calling([function(f"F{i}", [f"F{i + 1}"] * 10 if i < 20 else []) for i in range(21)]), "nodes|deep")


@pytest.mark.parametrize("dims, match", [([1 << 40, 1 << 40], "large"), ([-1], "negative"), ([1 << 33], "needs"),
                                         ([(1 << 63) - 1, 2], "large"), ([3], "needs")])
def test_sizes_of_tensors(dims, match):
    bad = add_model()
    bad.graph.initializer[0].ClearField("dims")
    bad.graph.initializer[0].dims.extend(dims)
    refuses(bad, f"'w'.*{match}")


def test_tensors_of_unknown_types():
    bad = add_model()
    bad.graph.initializer[0].data_type = 99
    refuses(bad, "'w'.*type 99")


@pytest.mark.parametrize("location", ["../outside.bin", "/etc/hostname", "link.bin", "sub/../../outside.bin", "",
                                      "missing.bin",
                                      "short.bin", "."])
def test_external_data(tmp_path, location):
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "outside.bin").write_bytes(bytes(8))
    (folder / "link.bin").symlink_to(tmp_path / "outside.bin")
    (folder / "short.bin").write_bytes(bytes(7))
    (folder / "good.bin").write_bytes(np.array([5, 6], np.float32).tobytes())

    def write(where):
        external = add_model()
        tensor = external.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", where
        (folder / "m.onnx").write_bytes(external.SerializeToString())
        return str(folder / "m.onnx")

    x = np.zeros((1, 2), np.float32)
    assert clprim.Session(write("good.bin")).run({"x": x})["y"].tolist() == [[5, 6]]
    refuses(write(location), "'w'.*(outside|missing|needs|cannot be read)")


def test_wrong_inputs():
    session = clprim.Session(add_model())
    x = np.ones((3, 2), np.float32)
    for inputs, match in (({}, "'x'.*missing"), ({"x": x, "z": x}, "no input 'z'"),
                          ({"x": x.astype("d")}, "float32.*float64"),
                          ({"x": x[0]}, r"\[n, 2\].*\[2\]"), ({"x": x.T}, r"\[n, 2\].*\[2, 3\]"), ({"x": None}, "'x'"),
                          ({"x": np.array(["a", "b"])},
                           "float32.*string"), ({"x": object()}, "'x'"), ({"x": np.array([None, 1])}, "'x'.*strings")):
        with pytest.raises(ValueError, match=match):
            session.run(inputs)
    with pytest.raises(ValueError, match="no output 'q'"):
        session.run({"x": x}, ["q"])
    assert session.run({"x": x}, ["y"])["y"].tolist() == [[2, 2]] * 3      # and it works on


def test_errors_while_running_name_the_node():
    session = clprim.Session(model([helper.make_node("Reshape", ["x", "s"], ["y"], name="shaper")],
                                   [port("x", ["n"]), port("s", [2], TensorProto.INT64)], [port("y")]))
    with pytest.raises(ValueError, match="Reshape 'shaper'"):
        session.run({"x": np.ones(6, np.float32), "s": np.array([4, 4])})
    assert session.run({"x": np.ones(6, np.float32), "s": np.array([2, 3])})["y"].shape == (2, 3)


def test_outputs_that_no_memory_holds():
    # In a process of its own: PyTorch's device, where loaded, puts its own error in this one's place.
    code = "import sys, clprim, numpy as np\n" \
           "try: clprim.Session(sys.stdin.buffer.read()).run({'s': np.array([1 << 30, 1 << 20])})\n" \
           "except clprim.Error as error: print('refused')"
    data = model([helper.make_node("ConstantOfShape", ["s"], ["y"])], [port("s", [2], TensorProto.INT64)], [port("y")])
    result = subprocess.run([sys.executable, "-c", code], input=data.SerializeToString(), capture_output=True)
    assert result.stdout.strip() == b"refused", result.stderr


def test_many_threads():
    session, failures = clprim.Session(add_model()), []

    def work(seed):
        x = np.random.default_rng(seed).standard_normal((50 + seed, 2)).astype("f")
        for _ in range(20):
            if not np.array_equal(session.run({"x": x})["y"], x + 1):
                failures.append(seed)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("parser", fuzz_parsers.PARSERS)
def test_mutated_files(parser):
    """A few hundred of what tools/fuzz_parsers.py does for minutes."""
    produce, rng = fuzz_parsers.PARSERS[parser][0](), random.Random(1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(100 if parser in ("onnx-run", "json") else 300):
        complaint = fuzz_parsers.judge(parser, produce(rng))
        assert complaint is None, f"input {number}: {complaint}"
    with contextlib.suppress(clprim.Error, IndexError):
        clprim.Context().synchronize()      # a bad index that nothing has waited for yet
    if parser not in ("onnx-run", "json"):
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20      # KiB


def test_nodes_with_too_few_inputs_are_not_fused():
    weight = numpy_helper.from_array(np.ones((2, 2, 1, 1), np.float32), "w")
    matrix = numpy_helper.from_array(np.ones((2, 2), np.float32), "m")
    vector = numpy_helper.from_array(np.ones(2, np.float32), "v")
    image = [port("x", [1, 2, 3, 3])]
    for nodes, ports, match in [
            ([helper.make_node("Conv", ["x"], ["y"], name="short")], image, "Conv 'short'.*input 1 is missing"),
            ([helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Add", ["c"], ["y"], name="short")], image,
             "Add 'short'.*takes 2 inputs, has 1"),
            ([helper.make_node("MatMul", ["x", "m"], ["c"]), helper.make_node("Add", ["c"], ["y"], name="short")],
             [port("x", [2, 2])], "Add 'short'.*takes 2 inputs, has 1"),
            ([helper.make_node("MatMul", ["x"], ["y"], name="short")], [port("x", [2, 2])],
             "MatMul 'short'.*input 1 is missing"),
            ([helper.make_node("Relu", ["x"], ["c"]), helper.make_node("Mul", ["c"], ["y"], name="short")], image,
             "Mul 'short'.*takes 2 inputs, has 1"),
            ([helper.make_node("Conv", ["x", "v"], ["c"], name="flat"), helper.make_node("Relu", ["c"], ["y"])], image,
             "Conv 'flat'")]:
        session = clprim.Session(model(nodes, ports, [port("y")], [weight, matrix, vector]))
        with pytest.raises(clprim.InvalidArgument, match=match):
            session.run({"x": np.ones(ports[0].type.tensor_type.shape.dim and
                                      [size.dim_value for size in ports[0].type.tensor_type.shape.dim], np.float32)})


def test_attributes_of_the_wrong_type():
    weight = numpy_helper.from_array(np.ones((2, 2, 1, 1), np.float32), "w")
    bad = model([helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("LeakyRelu", ["c"], ["y"], name="leaky",
                                                                               alpha=1)],
                [port("x", [1, 2, 3, 3])], [port("y")], [weight])
    refuses(bad, "LeakyRelu 'leaky': attribute alpha has the wrong type", clprim.InvalidArgument)
    bad = model([helper.make_node("Relu", ["x"], ["c"]), helper.make_node("Elu", ["c"], ["y"], name="elu", alpha=1)],
                [port("x", [2])], [port("y")])
    with pytest.raises(clprim.InvalidArgument, match="Elu 'elu'.*alpha has the wrong type"):
        clprim.Session(bad).run({"x": np.ones(2, np.float32)})


def test_nodes_without_outputs_have_no_effect():
    x = np.ones((2, 3), np.float32)
    for node in (helper.make_node("Shape", ["x"], []), helper.make_node("Size", ["x"], []),
                 helper.make_node("Shape", ["x"], [""]), helper.make_node("Relu", ["x"], [])):
        with_it = model([node, helper.make_node("Relu", ["x"], ["y"])], [port("x", [2, 3])], [port("y")])
        assert (np.asarray(clprim.Session(with_it).run({"x": x})["y"]) == x).all()
    wrong = model([helper.make_node("Shape", ["x"], ["y"], name="shape", start=1.5)], [port("x", [2, 3])],
                  [port("y", [1], TensorProto.INT64)])
    with pytest.raises(clprim.InvalidArgument, match="Shape 'shape'.*start has the wrong type"):
        clprim.Session(wrong).run({"x": x})


def test_subgraphs_with_too_few_outputs():
    branch = helper.make_graph([helper.make_node("Identity", ["x"], ["a"])], "branch", [], [port("a", [2])])
    node = helper.make_node("If", ["c"], ["y", "z"], name="choice", then_branch=branch, else_branch=branch)
    session = clprim.Session(model([node], [port("x", [2]), port("c", [], TensorProto.BOOL)], [port("y"), port("z")]))
    with pytest.raises(clprim.InvalidArgument, match="If 'choice'.*has 1 outputs, 2 are asked for"):
        session.run({"x": np.ones(2, np.float32), "c": np.array(True)})

    body = helper.make_graph([helper.make_node("Identity", ["s"], ["t"]),
                              helper.make_node("Identity", ["e"], ["f"])], "body", [port("s"), port("e")],
                             [port("t"), port("f")])
    node = helper.make_node("Scan", ["x", "x", "x"], ["y"], name="scan", body=body, num_scan_inputs=1)
    session = clprim.Session(model([node], [port("x", [2])], [port("y")]))
    with pytest.raises(clprim.InvalidArgument, match="Scan 'scan'.*the body returns 2 values"):
        session.run({"x": np.ones(2, np.float32)})


@pytest.mark.parametrize("shape", [[1 << 32, 1 << 32], [1 << 62, 2, 2], [3, (1 << 63) - 1]])
def test_sizes_whose_product_wraps(shape):
    node = helper.make_node("ConstantOfShape", ["s"], ["y"], name="huge")
    with pytest.raises((clprim.OutOfMemory, clprim.InvalidArgument)):
        clprim.Session(model([node], [port("s", [len(shape)], TensorProto.INT64)],
                             [port("y")])).run({"s": np.array(shape)})


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("pad", [1 << 39, (1 << 63) - 1, -(1 << 63)])
def test_absurd_pads(mode, pad):
    node = helper.make_node("Pad", ["x", "p"], ["y"], name="border", mode=mode)
    session = clprim.Session(model([node], [port("x", [4]), port("p", [2], TensorProto.INT64)], [port("y")]))
    with pytest.raises((clprim.OutOfMemory, clprim.InvalidArgument)):
        session.run({"x": np.ones(4, np.float32), "p": np.array([0, pad])})


@pytest.mark.parametrize("op", ["DepthToSpace", "SpaceToDepth"])
@pytest.mark.parametrize("size", [0, -2, 1 << 32, (1 << 63) - 1])
def test_absurd_blocks(op, size):
    node = helper.make_node(op, ["x"], ["y"], name="blocks", blocksize=size)
    with pytest.raises(clprim.InvalidArgument, match=f"{op} 'blocks'.*blocksize is {size}"):
        clprim.Session(model([node], [port("x", [1, 8, 2, 4])],
                             [port("y")])).run({"x": np.ones((1, 8, 2, 4), np.float32)})


def test_ragged_lists():
    with pytest.raises(clprim.InvalidArgument, match="input 'x'.*no array can be made of it"):
        clprim.Session(add_model()).run({"x": [[1, 2], [3]]})


HUGE = [1 << 61, 1 << 62, (1 << 62) + 1, (1 << 63) - 1, -(1 << 62), -(1 << 63)]
REFUSALS = (clprim.OutOfMemory, clprim.InvalidArgument, clprim.NotSupported)


@pytest.mark.parametrize("on_host", [False, True])
@pytest.mark.parametrize("size", HUGE)
@pytest.mark.parametrize("op", ["Expand", "Tile", "ConstantOfShape", "Reshape"])
def test_sizes_beyond_memory(op, size, on_host):
    """Nothing wraps, so that nothing is written behind a small tensor."""
    x = np.ones((2, 3), np.int64 if on_host else np.float32)
    inputs = ["s"] if op == "ConstantOfShape" else ["x", "s"]
    after = helper.make_node("Neg" if not on_host else "Add", ["y"] if not on_host else ["y", "y"], ["z"])
    ports = [port("x", [2, 3], TensorProto.INT64 if on_host else TensorProto.FLOAT), port("s", [3], TensorProto.INT64)]
    session = clprim.Session(model([helper.make_node(op, inputs, ["y"], name="huge"), after], ports, [port("z")]))
    for sizes in ([size, 2, 3], [2, size, 3], [size, size, 3], [4, 1 << 62, 3]):
        with pytest.raises(REFUSALS):
            session.run({"x": x, "s": np.array(sizes)})


@pytest.mark.parametrize("size", HUGE)
def test_resize_range_and_eye_of_absurd_sizes(size):
    ports = [port("x", [1, 1, 2, 2]), port("s", [4], TensorProto.INT64)]
    for policy in ("stretch", "not_larger", "not_smaller"):
        node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode="nearest", keep_aspect_ratio_policy=policy)
        with pytest.raises(REFUSALS):
            clprim.Session(model([node], ports, [port("y")])).run(
                {"x": np.ones((1, 1, 2, 2), np.float32), "s": np.array([1, 1, size, size])})
    ranges = clprim.Session(model([helper.make_node("Range", ["a", "b", "d"], ["y"])],
                                  [port(name, [], TensorProto.INT64) for name in "abd"], [port("y")]))
    with contextlib.suppress(*REFUSALS):
        assert ranges.run({"a": np.array(size), "b": np.array(0), "d": np.array(1)})["y"].size <= 1 << 20
    with contextlib.suppress(*REFUSALS):
        ranges.run({"a": np.array(0), "b": np.array(100), "d": np.array(size)})
    eye = clprim.Session(model([helper.make_node("EyeLike", ["x"], ["y"], k=size)], [port("x", [3, 4])], [port("y")]))
    assert not eye.run({"x": np.ones((3, 4), np.float32)})["y"].any()


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("cache, update, begin", [((2, 4, 0, 0), (2, 1, 2, 5), 1), ((2, 4, 0, 5), (2, 4, 2, 5), 0),
                                                  ((2, 1, 4, 5), (2, 5), 0), ((2, 1, 4, 5), (2, 1, 2, 5), -1)])
def test_caches_that_do_not_fit(mode, cache, update, begin):
    node = helper.make_node("TensorScatter", ["cache", "update", "begin"], ["y"], name="scatter", mode=mode)
    session = clprim.Session(model([node], [port("cache"), port("update"), port("begin", None, TensorProto.INT64)],
                                   [port("y")], opset=24))
    inputs = {"cache": np.zeros(cache, "f"), "update": np.ones(update, "f"), "begin": np.full(2, begin)}
    with pytest.raises(clprim.InvalidArgument, match="TensorScatter 'scatter'"):
        session.run(inputs)


def test_positions_of_a_cache_that_wrap():
    node = helper.make_node("TensorScatter", ["cache", "update", "begin"], ["y"], mode="circular")
    session = clprim.Session(model([node], [port("cache"), port("update"), port("begin", None, TensorProto.INT64)],
                                   [port("y")], opset=24))
    largest = np.iinfo(np.int64).max                  # 7 more than a multiple of 8
    y = session.run({"cache": np.zeros((1, 1, 8, 1), "f"), "update": np.ones((1, 1, 2, 1), "f"),
                     "begin": np.array([largest])})["y"]
    np.testing.assert_array_equal(y.ravel(), [1, 0, 0, 0, 0, 0, 0, 1])


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_pads_of_nothing(mode):
    node = helper.make_node("Pad", ["x", "pads"], ["y"], mode=mode)
    session = clprim.Session(model([node], [port("x"), port("pads", None, TensorProto.INT64)], [port("y")]))
    with pytest.raises(clprim.InvalidArgument):
        session.run({"x": np.zeros((0, 3), "f"), "pads": np.array([2, 0, 2, 0])})
