"""Networks as MXNet's and TensorFlow's exporters write them, built by hand: small pictures, few channels, random
weights."""
import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper


class Builder:
    """Collects nodes; every method returns the name of the value it adds."""

    def __init__(self, shape, opset, seed=0):
        self.shape, self.opset = list(shape), opset
        self.nodes, self.initializers = [], []
        self.random = np.random.default_rng(seed)

    def constant(self, array):
        name = f"w{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def weights(self, *shape):
        fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else 1
        return self.constant((self.random.standard_normal(shape) * np.sqrt(2 / fan_in)).astype(np.float32))

    def vector(self, size, low=-0.5, high=0.5):
        return self.constant(self.random.uniform(low, high, size).astype(np.float32))

    def node(self, kind, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=f"{kind}_{len(self.nodes)}", **attributes))
        return name

    def conv(self, x, channels_in, channels_out, kernel, bias=False, group=1, **attributes):
        inputs = [x, self.weights(channels_out, channels_in // group, kernel, kernel)]
        if bias:
            inputs.append(self.vector(channels_out))
        return self.node("Conv", *inputs, kernel_shape=[kernel, kernel], group=group, **attributes)

    def batch_norm(self, x, channels, **attributes):
        return self.node("BatchNormalization", x, self.vector(channels, 0.5, 1.5), self.vector(channels),
                         self.vector(channels), self.vector(channels, 0.5, 1.5), epsilon=1e-3, **attributes)

    def reshape(self, x, *shape):
        return self.node("Reshape", x, self.constant(np.array(shape, np.int64)))

    def dense(self, x, inputs, outputs):
        return self.node("Gemm", x, self.weights(outputs, inputs), self.vector(outputs), transB=1)

    def model(self, output):
        graph = helper.make_graph(self.nodes, "graph",
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
                                  [helper.make_tensor_value_info(output, TensorProto.FLOAT, [None, 10])],
                                  self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        checker.check_model(model)
        return model


def vgg11_bn():
    """MXNet: separate Flatten and FullyConnected, Dropout with a ratio, BatchNormalization with `spatial`, operator set
    7."""
    b, x, channels = Builder([2, 3, 64, 64], 7), "x", 3
    for width in (16, "M", 32, "M", 64, 64, "M", 128, 128, "M", 128, 128, "M"):
        if width == "M":
            x = b.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 0, 0])
            continue
        x = b.conv(x, channels, width, 3, bias=True, pads=[1, 1, 1, 1], strides=[1, 1], dilations=[1, 1])
        x, channels = b.node("Relu", b.batch_norm(x, width, spatial=1, momentum=0.9)), width
    x = b.node("Flatten", x)
    for inputs, outputs in ((512, 64), (64, 64)):
        x = b.node("Dropout", b.node("Relu", b.dense(x, inputs, outputs)), ratio=0.5)
    return b.model(b.node("Softmax", b.dense(x, 64, 10), axis=1))


def mobilenet():
    """TensorFlow: pictures as NHWC between Transposes, padding SAME and separate Pad nodes, Clip as ReLU6."""
    b = Builder([1, 63, 65, 3], 11)
    low, high = b.constant(np.float32(0)), b.constant(np.float32(6))
    relu6 = lambda v: b.node("Clip", v, low, high)
    x = b.node("Transpose", "x", perm=[0, 3, 1, 2])
    x = relu6(b.batch_norm(b.conv(x, 3, 16, 3, auto_pad="SAME_UPPER", strides=[2, 2]), 16))
    channels = 16
    for i, (width, stride) in enumerate([(32, 1), (64, 2), (64, 1), (128, 2), (128, 1)]):
        if stride == 2 and i == 1:      # Keras pads by hand and convolves without
            x = b.node("Pad", x, b.constant(np.array([0, 0, 0, 0, 0, 0, 1, 1], np.int64)))
            x = b.conv(x, channels, channels, 3, group=channels, strides=[2, 2], auto_pad="VALID")
        elif stride == 2:
            x = b.conv(x, channels, channels, 3, group=channels, strides=[2, 2], pads=[0, 0, 1, 1])
        else:
            x = b.conv(x, channels, channels, 3, group=channels, auto_pad="SAME_LOWER")
        x = relu6(b.batch_norm(x, channels))
        x = b.node("Transpose", b.node("Transpose", x, perm=[0, 2, 3, 1]), perm=[0, 3, 1, 2])
        x, channels = relu6(b.batch_norm(b.conv(x, channels, width, 1), width)), width
    x = b.node("Transpose", x, perm=[0, 2, 3, 1])
    x = b.node("ReduceMean", x, axes=[1, 2], keepdims=0)
    x = b.node("MatMul", b.reshape(x, 0, -1), b.weights(128, 10))
    return b.model(b.node("Add", x, b.vector(10)))


def resnet50():
    """Bottlenecks with asymmetric paddings in convolution and pooling, a Pad node before the first, operator set 9."""
    b = Builder([1, 3, 64, 64], 9)
    x = b.node("Pad", "x", pads=[0, 0, 2, 2, 0, 0, 3, 3], mode="constant", value=0.0)
    x = b.node("Relu", b.batch_norm(b.conv(x, 3, 16, 7, strides=[2, 2]), 16))
    x = b.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1])
    channels = 16
    for stage, (width, blocks) in enumerate([(16, 3), (32, 4), (64, 6), (128, 3)]):
        for block in range(blocks):
            stride = 2 if block == 0 and stage else 1
            y = b.node("Relu", b.batch_norm(b.conv(x, channels, width, 1), width))
            pads = [0, 0, 1, 1] if stride == 2 else [1, 1, 1, 1]
            y = b.node("Relu", b.batch_norm(b.conv(y, width, width, 3, strides=[stride, stride], pads=pads), width))
            y = b.batch_norm(b.conv(y, width, 4 * width, 1), 4 * width)
            if block == 0:
                x = b.batch_norm(b.conv(x, channels, 4 * width, 1, strides=[stride, stride]), 4 * width)
            x, channels = b.node("Relu", b.node("Add", y, x)), 4 * width
    x = b.reshape(b.node("GlobalAveragePool", x), 0, -1)
    return b.model(b.dense(x, channels, 10))


def densenet121():
    """Concatenations of all that came before, AveragePool that counts its padding, operator set 8."""
    b = Builder([1, 3, 64, 64], 8)
    x = b.node("Relu", b.batch_norm(b.conv("x", 3, 16, 7, strides=[2, 2], pads=[3, 3, 3, 3]), 16))
    x = b.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels, growth = 16, 8
    for stage, layers in enumerate((6, 12, 24, 16)):
        for _ in range(layers):
            y = b.conv(b.node("Relu", b.batch_norm(x, channels)), channels, 4 * growth, 1)
            y = b.conv(b.node("Relu", b.batch_norm(y, 4 * growth)), 4 * growth, growth, 3, pads=[1, 1, 1, 1])
            x, channels = b.node("Concat", x, y, axis=1), channels + growth
        if stage < 3:
            x = b.conv(b.node("Relu", b.batch_norm(x, channels)), channels, channels // 2, 1)
            x, channels = b.node("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 1, 1],
                                 count_include_pad=1), channels // 2
    x = b.node("Relu", b.batch_norm(x, channels))
    x = b.node("AveragePool", x, kernel_shape=[2, 2], strides=[1, 1])
    return b.model(b.dense(b.node("Flatten", x, axis=1), channels, 10))


NETWORKS = {"vgg11_bn": vgg11_bn, "mobilenet": mobilenet, "resnet50": resnet50, "densenet121": densenet121}
