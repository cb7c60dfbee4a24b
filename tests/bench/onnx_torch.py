"""Runs and trains an ONNX file in PyTorch: a small interpreter of the operators that the benchmark's and the light models use.

Float initializers and Constant tensors with more than one element become parameters, running statistics become buffers, and every node is one
torch.nn.functional call. So PyTorch trains the very file that the engine trains: the peer of tests/bench/compare.py, and an oracle for whole models.

  model = OnnxModule("model.onnx")                  y = model(x)            (all outputs as a list where there are several)
  model = OnnxModule("model.onnx", classes=10)      the last dense layer replaced by a new one, its softmax dropped: logits
An operator that is missing here is refused by name when the file is loaded; add a function to OPS.
"""
import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import nn
from torch.nn import functional as F


def attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def text(value, fallback):
    return (value if value is not None else fallback).decode() if isinstance(value, bytes) else (value or fallback)


def padded(x, kernel, a, value=0.0):
    """x with ONNX's pads or auto_pad applied."""
    rank, mode = len(kernel), text(a.get("auto_pad"), "NOTSET")
    strides, dilations = a.get("strides", [1] * rank), a.get("dilations", [1] * rank)
    pads = list(a.get("pads", [0] * 2 * rank))
    if mode.startswith("SAME"):
        for i in range(rank):
            size, window = x.shape[2 + i], (kernel[i] - 1) * dilations[i] + 1
            total = max(0, (-(-size // strides[i]) - 1) * strides[i] + window - size)
            small = total // 2
            pads[i], pads[rank + i] = (small, total - small) if mode == "SAME_UPPER" else (total - small, small)
    if not any(pads):
        return x
    return F.pad(x, [p for i in reversed(range(rank)) for p in (pads[i], pads[rank + i])], value=value)


def conv(m, n, a, x, w, b=None):
    f = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[w.dim() - 2]
    pads = a.get("pads")
    half = w.dim() - 2
    if pads and list(pads[:half]) == list(pads[half:]) and text(a.get("auto_pad"), "NOTSET") == "NOTSET":
        padding = tuple(pads[:half])
    else:
        x, padding = padded(x, w.shape[2:], a), 0
    return f(x, w, b, tuple(a.get("strides", [1] * half)), padding, tuple(a.get("dilations", [1] * half)), a.get("group", 1))


def max_pool(m, n, a, x):
    k = a["kernel_shape"]
    f = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[len(k)]
    x = padded(x, k, a, -float("inf"))
    return f(x, tuple(k), tuple(a.get("strides", [1] * len(k))), 0, tuple(a.get("dilations", [1] * len(k))), bool(a.get("ceil_mode", 0)))


def average_pool(m, n, a, x):
    k = a["kernel_shape"]
    strides = tuple(a.get("strides", [1] * len(k)))
    f = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[len(k)]
    pads = list(a.get("pads", [0] * 2 * len(k)))
    if not any(pads) and text(a.get("auto_pad"), "NOTSET") == "NOTSET":
        return f(x, tuple(k), strides, 0, bool(a.get("ceil_mode", 0)))
    if a.get("count_include_pad", 0):
        return f(padded(x, k, a), tuple(k), strides, 0, bool(a.get("ceil_mode", 0)))
    total = f(padded(x, k, a), tuple(k), strides)
    return total / f(padded(torch.ones_like(x[:1, :1]), k, a), tuple(k), strides)


def batch_norm(m, n, a, x, scale, bias, mean, variance):
    return F.batch_norm(x, mean, variance, scale, bias, m.training, 1 - a.get("momentum", 0.9), a.get("epsilon", 1e-5))


def gemm(m, n, a, x, w, c=None):
    y = (x.T if a.get("transA", 0) else x) @ (w.T if a.get("transB", 0) else w)
    y = y * a.get("alpha", 1.0) if a.get("alpha", 1.0) != 1 else y
    return y if c is None else y + (c * a.get("beta", 1.0) if a.get("beta", 1.0) != 1 else c)


def ints(x):
    return [int(v) for v in x.flatten().tolist()]


def reshape(m, n, a, x, shape=None):
    wanted = list(a["shape"]) if shape is None else ints(shape)
    return x.reshape(tuple(x.shape[i] if d == 0 and not a.get("allowzero", 0) else d for i, d in enumerate(wanted)))


def slice_(m, n, a, x, starts=None, ends=None, axes=None, steps=None):
    starts, ends = (ints(starts), ints(ends)) if starts is not None else (list(a["starts"]), list(a["ends"]))
    axes = ints(axes) if axes is not None else list(a.get("axes", range(len(starts))))
    steps = ints(steps) if steps is not None else [1] * len(starts)
    index = [slice(None)] * x.dim()
    for s, e, ax, st in zip(starts, ends, axes, steps):
        if st < 0:
            raise NotImplementedError("Slice with a negative step")
        index[ax] = slice(s, e, st)
    return x[tuple(index)]


def axes_of(a, axes, x):
    return ints(axes) if axes is not None else list(a.get("axes", range(x.dim())))


def squeeze(m, n, a, x, axes=None):
    drop = axes_of(a, axes, x) if axes is not None or "axes" in a else [i for i, d in enumerate(x.shape) if d == 1]
    drop = {d % x.dim() for d in drop}
    return x.reshape(tuple(d for i, d in enumerate(x.shape) if i not in drop))


def unsqueeze(m, n, a, x, axes=None):
    axes = axes_of(a, axes, x)
    rank = x.dim() + len(axes)
    for d in sorted(d % rank for d in axes):
        x = x.unsqueeze(d)
    return x


def split(m, n, a, x, sizes=None):
    sizes = ints(sizes) if sizes is not None else list(a.get("split", []))
    axis = a.get("axis", 0)
    sizes = sizes or [x.shape[axis] // len(n.output)] * len(n.output)
    return list(torch.split(x, sizes, axis))


def pad(m, n, a, x, pads=None, value=None, axes=None):
    pads = ints(pads) if pads is not None else list(a["pads"])
    half = len(pads) // 2
    order = [p for i in reversed(range(half)) for p in (pads[i], pads[half + i])]
    mode = {"constant": "constant", "edge": "replicate", "reflect": "reflect"}[text(a.get("mode"), "constant")]
    if mode == "constant":
        return F.pad(x, order, value=float(value) if value is not None else a.get("value", 0.0))
    while len(order) > 2 and order[-2:] == [0, 0]:
        order = order[:-2]
    return F.pad(x, order, mode=mode)


def reduce(f):
    def run(m, n, a, x, axes=None):
        return f(x, axes_of(a, axes, x), bool(a.get("keepdims", 1)))
    return run


def lrn(m, n, a, x):
    return F.local_response_norm(x, a["size"], a.get("alpha", 1e-4), a.get("beta", 0.75), a.get("bias", 1.0))


def lstm(m, n, a, x, w, r, b=None, lens=None, h=None, c=None, p=None):
    """One direction, ONNX's gates i, o, f, c; x [steps, batch, features]."""
    if text(a.get("direction"), "forward") != "forward" or p is not None or lens is not None:
        raise NotImplementedError("LSTM: only one forward direction without peepholes and lengths")
    size, batch = a["hidden_size"], x.shape[1]
    bias = 0 if b is None else b[0, :4 * size] + b[0, 4 * size:]
    h = x.new_zeros(batch, size) if h is None else h[0]
    c = x.new_zeros(batch, size) if c is None else c[0]
    ahead, out = x @ w[0].T + bias, []
    for t in range(x.shape[0]):
        i, o, f, g = (ahead[t] + h @ r[0].T).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        out.append(h)
    return [torch.stack(out).unsqueeze(1), h.unsqueeze(0), c.unsqueeze(0)]


TYPES = {1: torch.float32, 2: torch.uint8, 3: torch.int8, 6: torch.int32, 7: torch.int64, 9: torch.bool, 10: torch.float16, 11: torch.float64}


def gather(m, n, a, x, index):
    axis = a.get("axis", 0) % x.dim()
    index = index.long()
    flat = x.index_select(axis, torch.where(index < 0, index + x.shape[axis], index).flatten())
    return flat.reshape((*x.shape[:axis], *index.shape, *x.shape[axis + 1:]))


def clip(m, n, a, x, low=None, high=None):
    low = a.get("min") if low is None else float(low)
    high = a.get("max") if high is None else float(high)
    return torch.clamp(x, low, high)


def flatten(m, n, a, x):
    axis = a.get("axis", 1)
    return x.reshape(int(np.prod(x.shape[:axis])), -1)


def constant_of_shape(m, n, a, shape):
    value = torch.from_numpy(numpy_helper.to_array(a["value"]).copy()) if "value" in a else torch.zeros(1)
    return value.reshape(()).expand(ints(shape)).clone()


def softmax(f):
    def run(m, n, a, x):
        if m.opset >= 13:
            return f(x, a.get("axis", -1))
        axis = a.get("axis", 1) % x.dim()  # before opset 13 everything from the axis on is one group
        return f(x.reshape(int(np.prod(x.shape[:axis])), -1), 1).reshape(x.shape)
    return run


def simple(f):
    return lambda m, n, a, *x: f(*x)


def fold(f):
    def run(m, n, a, *xs):
        out = xs[0]
        for x in xs[1:]:
            out = f(out, x)
        return out
    return run


OPS = {
    "Conv": conv, "MaxPool": max_pool, "AveragePool": average_pool, "BatchNormalization": batch_norm, "Gemm": gemm, "MatMul": simple(torch.matmul),
    "GlobalAveragePool": simple(lambda x: x.mean(tuple(range(2, x.dim())), keepdim=True)), "LRN": lrn, "LSTM": lstm,
    "GlobalMaxPool": simple(lambda x: x.amax(tuple(range(2, x.dim())), keepdim=True)),
    "Relu": simple(torch.relu), "Sigmoid": simple(torch.sigmoid), "Tanh": simple(torch.tanh), "HardSwish": simple(F.hardswish), "Erf": simple(torch.erf),
    "HardSigmoid": lambda m, n, a, x: torch.clamp(a.get("alpha", 0.2) * x + a.get("beta", 0.5), 0, 1), "Clip": clip,
    "LeakyRelu": lambda m, n, a, x: F.leaky_relu(x, a.get("alpha", 0.01)), "Softmax": softmax(torch.softmax), "LogSoftmax": softmax(torch.log_softmax),
    "Add": simple(torch.add), "Sub": simple(torch.sub), "Mul": simple(torch.mul), "Div": simple(lambda x, y: x / y if x.is_floating_point() else x // y),
    "Pow": simple(torch.pow), "Sqrt": simple(torch.sqrt), "Exp": simple(torch.exp), "Log": simple(torch.log), "Neg": simple(torch.neg),
    "Abs": simple(torch.abs), "Sum": fold(torch.add), "Max": fold(torch.maximum), "Min": fold(torch.minimum),
    "Concat": lambda m, n, a, *x: torch.cat(x, a["axis"]), "Flatten": flatten, "Reshape": reshape, "Slice": slice_, "Split": split, "Pad": pad,
    "Squeeze": squeeze, "Unsqueeze": unsqueeze, "Gather": gather, "Transpose": lambda m, n, a, x: x.permute(tuple(a.get("perm", range(x.dim())[::-1]))),
    "Shape": simple(lambda x: torch.tensor(list(x.shape))), "Identity": simple(lambda x: x), "Cast": lambda m, n, a, x: x.to(TYPES[a["to"]]),
    "ConstantOfShape": constant_of_shape, "Expand": simple(lambda x, s: x.expand(torch.broadcast_shapes(x.shape, ints(s)))),
    "Dropout": lambda m, n, a, x, ratio=None, mode=None: F.dropout(x, float(ratio) if ratio is not None else a.get("ratio", 0.5), m.training),
    "ReduceMean": reduce(lambda x, d, k: x.mean(d, k)), "ReduceSum": reduce(lambda x, d, k: x.sum(d, k)), "ReduceMax": reduce(lambda x, d, k: x.amax(d, k)),
}


class OnnxModule(nn.Module):
    def __init__(self, path, classes=None):
        super().__init__()
        model = onnx.load(path)
        graph = model.graph
        self.opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
        missing = sorted({n.op_type for n in graph.node if n.op_type not in OPS and n.op_type != "Constant"})
        if missing:
            raise NotImplementedError(f"{path}: operators that tests/bench/onnx_torch.py lacks: {', '.join(missing)}")
        tensors = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        for n in graph.node:
            if n.op_type == "Constant":
                tensors[n.output[0]] = numpy_helper.to_array(attributes(n)["value"])
            elif n.op_type == "ConstantOfShape" and n.input[0] in tensors:  # the light models' weights
                fill = attributes(n).get("value")
                fill = numpy_helper.to_array(fill).reshape(()) if fill is not None else np.float32(0)
                tensors[n.output[0]] = np.full(tensors[n.input[0]], fill)
        self.nodes = [(n, attributes(n)) for n in graph.node if n.output[0] not in tensors]
        self.inputs = [i.name for i in graph.input if i.name not in tensors]
        self.outputs = [o.name for o in graph.output]
        statistics = {name for n, _ in self.nodes if n.op_type == "BatchNormalization" for name in n.input[3:5]}
        # Dimensions, ratios, ...: integers and single numbers stay constants.
        self.names, self.fixed = {}, {}
        for i, (name, value) in enumerate(tensors.items()):
            t = torch.from_numpy(np.array(value))
            if name in statistics:
                self.register_buffer(f"t{i}", t)
            elif t.is_floating_point() and t.numel() > 1:
                self.register_parameter(f"t{i}", nn.Parameter(t))
            else:
                self.fixed[name] = t
                continue
            self.names[name] = f"t{i}"
        self.head = None
        if classes is not None:
            self.replace_head(classes)

    def named_weights(self):
        """Initializer name -> parameter."""
        return {name: getattr(self, key) for name, key in self.names.items() if isinstance(getattr(self, key), nn.Parameter)}

    def replace_head(self, classes):
        last = next(i for i in reversed(range(len(self.nodes))) if self.nodes[i][0].op_type in ("MatMul", "Gemm"))
        node, a = self.nodes[last]
        weight = getattr(self, self.names[node.input[1]])
        self.head = nn.Linear(weight.shape[1] if a.get("transB", 0) else weight.shape[0], classes)
        nn.init.xavier_uniform_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.outputs = [node.input[0]]
        self.nodes = self.nodes[:last]
        used = {name for n, _ in self.nodes for name in n.input}
        for name, key in list(self.names.items()):
            if name not in used:
                delattr(self, key)
                del self.names[name]

    def forward(self, *xs):
        values = dict(self.fixed)
        values.update({name: getattr(self, key) for name, key in self.names.items()})
        values.update(zip(self.inputs, xs))
        for node, a in self.nodes:
            out = OPS[node.op_type](self, node, a, *[values[i] if i else None for i in node.input])
            for name, value in zip(node.output, out if isinstance(out, list) else [out]):
                values[name] = value
        results = [values[name] for name in self.outputs]
        if self.head is not None:
            return self.head(results[0])
        return results[0] if len(results) == 1 else results
