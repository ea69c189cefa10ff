"""What tools/fuzz_parsers.py feeds to the readers: valid files of every format, and how they are damaged."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import tempfile
import warnings
from pathlib import Path

import numpy as np

EXTREMES = [0, 1, -1, 2, -2, 3, 7, 127, 255, 1 << 15, (1 << 31) - 1, -(1 << 31), 1 << 32, 1 << 40,
            1 << 61, 1 << 62, -(1 << 62), (1 << 62) + 1, (1 << 63) - 1, -(1 << 63)]


def flip_bytes(data, rng):
    """Bits flipped, ends cut off, pieces moved, doubled or overwritten with extreme numbers."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        if not data:
            break
        at, kind = rng.randrange(len(data)), rng.randrange(6)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.randrange(256)
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            data[at:at + 8] = (rng.choice(EXTREMES) & (2**64 - 1)).to_bytes(8, "little")
        elif kind == 4:
            piece = data[at:at + rng.randrange(1, 64)]
            data[rng.randrange(len(data)):0] = piece
        else:
            del data[at:at + rng.randrange(1, 16)]
    return bytes(data)


def mutate_json(tree, rng):
    """Values of a parsed document replaced by others, moved or nested, and written again."""
    def walk(tree, found):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            found.append((tree, key))
            if isinstance(value, (dict, list)):
                walk(value, found)
        return found

    tree = json.loads(json.dumps(tree))
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = walk(tree, [])
        if not places:
            break
        (parent, key), (other, its) = rng.choice(places), rng.choice(places)
        kind = rng.randrange(6)
        if kind == 0:
            parent[key] = json.loads(json.dumps(other[its]))
        elif kind == 1:
            del parent[key]
        elif kind == 2 and isinstance(parent, dict):
            parent[str(its)] = parent.pop(key)
        else:
            parent[key] = rng.choice([*EXTREMES, 1.5, 1e300, None, True, "", "data", "x" * 300, [], {}, [1, -1], [[]],
                                      [1 << 40] * 3, [0], 2**64 - 1])
    text = json.dumps(tree)
    return ("[" * rng.choice((100, 100_000)) + text if rng.random() < 0.01 else text).encode()


# --- ONNX

def graphs_of(graph):
    """A graph and all below it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs_of(attribute.g)


def mutate_model(model, others, rng):
    """Fields of an onnx.ModelProto changed: sizes, types, names, attributes, operators, order, subgraphs. `others` are
    models that nodes are taken from."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        graph = rng.choice(list(graphs_of(copy.graph)))
        rng.choice(MODEL_MUTATIONS)(copy, graph, others, rng)
    return copy


def some_attribute(model, graph, others, rng):
    attributes = [attribute for node in graph.node for attribute in node.attribute]
    if attributes:
        mutate_attribute(rng.choice(attributes), rng)


def mutate_attribute(attribute, rng):
    if attribute.ints and rng.random() < 0.8:
        attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(EXTREMES)
    elif attribute.ints:
        attribute.ints.append(rng.choice(EXTREMES)) if rng.random() < 0.5 else attribute.ints.pop()
    elif attribute.floats:
        attribute.floats[rng.randrange(len(attribute.floats))] = rng.choice([0.0, -1.0, 1e30, float("nan")])
        if rng.random() < 0.3:
            attribute.floats.pop()
    elif attribute.strings:
        attribute.strings[rng.randrange(len(attribute.strings))] = rng.choice([b"", b"LEAF", b"\xff\xfe", b"x" * 100])
        if rng.random() < 0.3:
            attribute.strings.pop()
    elif attribute.type == attribute.INT:
        attribute.i = rng.choice(EXTREMES)
    elif attribute.type == attribute.FLOAT:
        attribute.f = rng.choice([0.0, -1.0, 1e30, float("nan"), float("inf")])
    elif attribute.type == attribute.STRING:
        attribute.s = rng.choice([b"", b"linear", b"cubic", b"\xff", b"SAME_UPPER", b"x" * 100, b"ij,jk->",
                                  b"(((a*)*)*)*b"])
    elif rng.random() < 0.3:
        attribute.type = rng.randrange(0, 14)


def some_tensor(model, graph, others, rng):
    tensors = list(graph.initializer) + [a.t for n in graph.node for a in n.attribute if a.type == a.TENSOR]
    if not tensors:
        return
    tensor = rng.choice(tensors)
    if rng.random() < 0.3:
        tensor.data_type = rng.randrange(-1, 30)
    elif tensor.dims and rng.random() < 0.5:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(EXTREMES)
    elif tensor.int64_data:
        tensor.int64_data[rng.randrange(len(tensor.int64_data))] = rng.choice(EXTREMES)
    elif tensor.raw_data and len(tensor.raw_data) % 8 == 0:
        at, number = 8 * rng.randrange(len(tensor.raw_data) // 8), rng.choice(EXTREMES)
        tensor.raw_data = tensor.raw_data[:at] + (number & (2**64 - 1)).to_bytes(8, "little") + tensor.raw_data[at + 8:]
    elif tensor.raw_data:
        tensor.raw_data = flip_bytes(tensor.raw_data, rng)


def some_operator(model, graph, others, rng):
    if graph.node:
        rng.choice(list(graph.node)).op_type = rng.choice(rng.choice(others).graph.node).op_type


def some_input(model, graph, others, rng):
    nodes = [node for node in graph.node if node.input]
    if nodes:
        node = rng.choice(nodes)
        names = [n for x in graph.node for n in (*x.input, *x.output)] + [p.name for p in model.graph.input] + [""]
        node.input[rng.randrange(len(node.input))] = rng.choice(names)


def some_node(model, graph, others, rng):
    if not graph.node:
        return
    node = rng.choice(list(graph.node))
    rng.choice((lambda: graph.node.remove(node), lambda: graph.node.add().CopyFrom(node),
                lambda: node.input.append(node.input[0]) if node.input else None,
                lambda: node.output.append("extra"), lambda: node.input.pop() if node.input else None,
                lambda: node.output.pop() if node.output else None, lambda: node.ClearField("attribute")))()


def more_nodes(model, graph, others, rng):
    """A node of another model behind some value of this one; its result becomes an output."""
    node = graph.node.add()
    node.CopyFrom(rng.choice(rng.choice(others).graph.node))
    names = [n for x in graph.node for n in x.output if n] + [port.name for port in graph.input]
    for i in range(len(node.input)):
        node.input[i] = rng.choice(names)
    for i in range(len(node.output)):
        node.output[i] = f"new{len(graph.node)}.{i}"
    if node.output:
        graph.output.add().name = node.output[0]


def into_subgraph(model, graph, others, rng):
    """A subgraph replaced by that of another node, or this graph's nodes behind an If."""
    import onnx

    inner = [a for n in graph.node for a in n.attribute if a.HasField("g")]
    outer = [a for m in others for n in m.graph.node for a in n.attribute if a.HasField("g")]
    if inner and rng.random() < 0.5:
        rng.choice(inner).g.CopyFrom(rng.choice(rng.choice((inner, outer))).g)
        return
    body = onnx.GraphProto()
    body.node.extend(graph.node)
    body.output.extend(graph.output)
    del graph.node[:]
    taken = onnx.helper.make_tensor("c", onnx.TensorProto.BOOL, [], [rng.random() < 0.5])
    condition = onnx.helper.make_node("Constant", [], ["c"], value=taken)
    names = [port.name for port in graph.output]
    graph.node.extend([condition, onnx.helper.make_node("If", ["c"], names, then_branch=body, else_branch=body)])


def some_opset(model, graph, others, rng):
    if model.opset_import:
        rng.choice(list(model.opset_import)).version = rng.choice([1, 6, 7, 8, 9, 11, 13, 17, 18, 21, 23, 24, 99, -1])


def some_port(model, graph, others, rng):
    ports = list(graph.input)
    if not ports:
        return
    port = rng.choice(ports)
    if rng.random() < 0.2:
        port.type.tensor_type.elem_type = rng.randrange(0, 30)
    elif port.type.tensor_type.shape.dim:
        rng.choice(list(port.type.tensor_type.shape.dim)).dim_value = rng.choice(EXTREMES)


MODEL_MUTATIONS = [*[some_attribute] * 4, *[some_tensor] * 2, some_operator, some_input, some_node, more_nodes,
                   into_subgraph, some_opset, some_port]


def mutate_arrays(model, arrays, rng):
    """Inputs of other sizes, contents and types, and ports that take them."""
    def other(array):
        kind = rng.randrange(5)
        if kind == 0:
            return np.resize(array, [rng.choice((0, 1, 2, 3, 5)) for _ in array.shape])
        if kind == 1:
            return np.resize(array, [rng.choice((0, 1, 2, 4)) for _ in range(rng.randrange(6))])
        if kind == 2 and array.dtype.kind in "iu":
            return np.full_like(array, np.array(rng.choice(EXTREMES)).astype(array.dtype))
        if kind == 3 and array.dtype.kind == "f":
            return np.full_like(array, rng.choice([0.0, -1.0, 1e30, np.nan, np.inf]))
        return array.astype(rng.choice("?bBhHiIlLefd")) if array.dtype.kind in "iufb" else array

    result = list(arrays)
    for i in range(len(result)):
        if isinstance(result[i], np.ndarray) and rng.random() < 0.5:
            with np.errstate(all="ignore"):
                result[i] = other(result[i])
            if i < len(model.graph.input):
                model.graph.input[i].type.tensor_type.ClearField("shape")
                model.graph.input[i].type.tensor_type.elem_type = 0
    return result


def onnx_corpus(more_models=()):
    """Small models with inputs from onnx's own tests, and exported ones from files with inputs made up."""
    import onnx
    from onnx.backend.test.loader import load_model_tests

    cases = []
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        for case in load_model_tests(kind="node"):
            if case.model.ByteSize() < 20_000 and case.data_sets:
                cases.append((case.model, list(case.data_sets[0][0])))
    for path in more_models:
        model = onnx.load(path)
        inputs = []
        for port in model.graph.input:
            shape = [size.dim_value or 2 for size in port.type.tensor_type.shape.dim]
            inputs.append(np.ones(shape, onnx.helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type)))
        cases += [(model, inputs)] * 20      # they are large, and few beside the others
    return cases


def make_onnx(run):
    def build(more_models=()):
        cases = onnx_corpus(more_models)
        others = [model for model, _ in cases if model.ByteSize() < 20_000 and model.graph.node]

        def produce(rng):
            model, inputs = rng.choice(cases)
            if not run and rng.random() < 0.5:
                return pickle.dumps((flip_bytes(model.SerializeToString(), rng), None))
            model = mutate_model(model, others, rng)
            if run and rng.random() < 0.4:
                inputs = mutate_arrays(model, inputs, rng)
            return pickle.dumps((model.SerializeToString(), inputs if run else None))
        return produce
    return build


# --- weights

def saved_weights(extension):
    import clprim

    rng = np.random.default_rng(0)
    arrays = {"a": rng.standard_normal((3, 5)).astype("f"), "scalar": np.float32(2), "empty": np.zeros((0, 4), "f"),
              "long.name.of.a.weight": rng.standard_normal((2, 2, 2, 2)).astype("f")}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"w.{extension}"
        clprim.save_weights(str(path), arrays)
        return path.read_bytes()


def build_weights(extension, prefix=0, order="little", number=0):
    """Bytes changed; in formats with a JSON header, after `prefix` bytes and its length, values of the header too."""
    def build(more_models=()):
        valid = saved_weights(extension)

        def produce(rng):
            if not number or rng.random() < 0.4:
                return flip_bytes(valid, rng)
            begin = prefix + number
            length = int.from_bytes(valid[prefix:begin], order)
            header = mutate_json(json.loads(valid[begin:begin + length]), rng)
            claimed = rng.choice(EXTREMES) % 256**number if rng.random() < 0.05 else len(header)
            return valid[:prefix] + claimed.to_bytes(number, order) + header + valid[begin + length:]
        return produce
    return build


def build_npy(more_models=()):
    def produce(rng):
        buffer = io.BytesIO()
        np.save(buffer, np.arange(12).reshape(3, 4).astype(rng.choice(["f4", "i8", "?", ">f4"])))
        return flip_bytes(buffer.getvalue(), rng)
    return produce


# --- nets

IMAGE, LABEL = {"shape": [2, 4, 8, 8]}, {"shape": [2], "dtype": "int"}
CONVOLUTION = {"channels_out": 4, "kernel": [3], "pad": 1, "pad_end": 1, "stride": 2, "dilate": 1, "groups": 2,
               "bias": True, "activation": "relu"}
# Type, inputs, options: every operator of a net with the options that change what it does.
NET_OPERATORS = [
    ("Convolution2D", [IMAGE], CONVOLUTION),
    ("Convolution1D", [{"shape": [2, 4, 8]}], {"channels_out": 4, "kernel": 3, "stride": 2, "auto_pad": "same_upper"}),
    ("Convolution3D", [{"shape": [1, 4, 4, 4, 4]}], CONVOLUTION),
    ("TransposedConvolution2D", [IMAGE], {**CONVOLUTION, "output_pad": 1}),
    ("Pooling2D", [IMAGE], {"mode": "max", "kernel": 2, "stride": 2, "pad": 1, "dilate": 1, "ceil_mode": True}),
    ("Pooling3D", [{"shape": [1, 2, 4, 4, 4]}],
     {"mode": "avg", "kernel": 2, "stride": 2, "pad": 1, "count_include_pad": True}),
    ("GlobalPooling", [IMAGE], {"mode": "avg"}),
    ("InnerProduct", [{"shape": [2, 6]}], {"outputs": 3, "inputs": 6, "bias": True, "activation": "tanh"}),
    ("BatchNorm", [IMAGE], {"features": 4, "eps": 1e-5, "momentum": 0.1, "affine": True, "use_global_stats": False}),
    ("Softmax", [{"shape": [2, 6]}], {"axis": 1, "log": True}),
    ("SoftmaxWithLoss", [{"shape": [2, 6]}, LABEL], {}),
    ("NLLLoss", [{"shape": [2, 6]}, LABEL], {"reduce": "none"}),
    ("MSELoss", [IMAGE, IMAGE], {"reduce": "sum"}),
    ("Activation", [IMAGE], {"activation": "relu6"}),
    ("Elementwise", [IMAGE, {"shape": [4, 1, 8]}],
     {"operation": "prod", "coef1": 2, "coef2": 0.5, "activation": "sigmoid"}),
    ("Pointwise", [IMAGE], {"function": "leaky_relu", "values": [0.1]}),
    ("Threshold", [IMAGE], {"threshold": 0.5}),
    ("Hardtanh", [IMAGE], {"min_val": -1, "max_val": 1}),
    ("Abs", [IMAGE], {}),
    ("Dropout", [IMAGE], {"p": 0.5}),
    ("Concat", [IMAGE, IMAGE], {"dim": 1}),
    ("Slice", [IMAGE], {"dim": 1, "begin": 1, "end": 3}),
    ("Flatten", [IMAGE], {}),
    ("Squeeze", [{"shape": [2, 1, 3, 1]}], {"dims": [1], "all": False}),
    ("Reshape", [IMAGE], {"dims": [0, -1, 16]}),
    ("Parameter", [], {"shape": [2, 3], "dtype": "float", "is_trainable": True}),
    ("Reduction", [IMAGE], {"method": "sumsq", "keep_dim": False, "output_scale": 2, "dims": [0, 2]}),
    ("Interpolation", [IMAGE], {"method": "bilinear", "out_h": 5, "out_w": 7, "scale_y": -1, "align_corners": True}),
    ("DeformConv2D", [IMAGE, {"shape": [2, 18, 8, 8]}, {"shape": [2, 9, 8, 8]}],
     {"channels_out": 4, "kernel": 3, "stride": 1, "pad": 1, "dilate": 1, "groups": 1, "offset_groups": 1,
      "bias": True}),
    ("DeformPSROIPooling", [{"shape": [2, 8, 8, 8]}, {"shape": [3, 5]}, {"shape": [3, 2, 2, 2]}],
     {"no_trans": False, "spatial_scale": 0.5, "trans_std": 0.1, "output_dim": 2, "group_size": 2, "pooled_size": 2,
      "part_size": 2, "sample_per_part": 2}),
]
WHOLE_NET = {
    "inputs": [{"name": "data", "shape": [2, 3, 8, 8]}, {"name": "label", "shape": [2], "dtype": "int"}],
    "outputs": ["prob", {"name": "loss", "loss_weight": 0.5}],
    "operators": [
        {"name": "c", "type": "Convolution2D", "inputs": ["data"], "outputs": ["c"],
         "options": {**CONVOLUTION, "groups": 1}},
        {"name": "b", "type": "BatchNorm", "inputs": ["c"], "outputs": ["c"], "frozen": True},
        {"name": "p", "type": "Pooling2D", "inputs": ["c"], "outputs": ["p"], "options": {"mode": "max", "kernel": 2}},
        {"name": "r", "type": "Flatten", "inputs": ["p"], "outputs": ["r"]},
        {"name": "k", "type": "Concat", "inputs": ["r", "r"], "outputs": ["k"], "options": {"dim": 1}},
        {"name": "f", "type": "InnerProduct", "inputs": ["k"], "outputs": ["f"], "params": ["w", "b"],
         "options": {"outputs": 5}},
        {"name": "prob", "type": "Softmax", "inputs": ["f"], "outputs": ["prob"], "options": {"axis": 1}},
        {"name": "loss", "type": "SoftmaxWithLoss", "inputs": ["f", "label"], "outputs": ["loss"]}]}


def net_of(kind, inputs, options):
    names = [f"x{i}" for i in range(len(inputs))]
    return {"inputs": [{"name": name, **port} for name, port in zip(names, inputs)], "outputs": ["y"],
            "operators": [{"name": "o", "type": kind, "inputs": names, "outputs": ["y"], "options": options}]}


def build_nets(more_models=()):
    nets = [net_of(*operator) for operator in NET_OPERATORS] + [WHOLE_NET] * 5

    def produce(rng):
        net = rng.choice(nets)
        return mutate_json(net, rng) if rng.random() < 0.8 else flip_bytes(json.dumps(net).encode(), rng)
    return produce
