"""Writes ONNX's own test cases as files: python generate.py OUT   (needs the onnx package and numpy)

  OUT/node/<case>/      the node tests, which the package builds in memory (1,884 with onnx 1.23.2)
  OUT/models/<case>/    the sets that it ships as files: simple, pytorch-converted, pytorch-operator; and the "light" networks, whose
                        input is made here as the package's own runner makes it
Each case is model.onnx and test_data_set_<i>/{input,output}_<j>.pb; node/cases.json and models/cases.json list name, operators, opsets
and tolerances. The same bytes on every run. tests/conformance/node_test_runner.cpp runs them.
"""
import glob
import json
import os
import shutil
import sys

import numpy
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_node_model_tests


def serialized(value, type_proto):
    """The bytes of one input or output: a tensor, or what the type says."""
    if type_proto.HasField("sequence_type"):
        return numpy_helper.from_list(value, "").SerializeToString()
    if type_proto.HasField("optional_type"):
        return numpy_helper.from_optional(value, "").SerializeToString()
    if hasattr(value, "SerializeToString"):
        return value.SerializeToString()
    return numpy_helper.from_array(value, "").SerializeToString()


def save(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)


def describe(name, model, rtol, atol):
    operators = {f"{n.domain}::{n.op_type}" if n.domain else n.op_type for n in model.graph.node}
    return {"name": name, "ops": sorted(operators), "opsets": {o.domain: o.version for o in model.opset_import}, "rtol": rtol, "atol": atol}


def write_node_tests(out):
    rows = []
    for case in load_node_model_tests():
        graph = case.model.graph
        save(f"{out}/{case.name}/model.onnx", case.model.SerializeToString())
        for i, (inputs, outputs) in enumerate(case.data_sets):
            for kind, values, infos in (("input", inputs, graph.input), ("output", outputs, graph.output)):
                for j, value in enumerate(values):
                    save(f"{out}/{case.name}/test_data_set_{i}/{kind}_{j}.pb", serialized(value, infos[j].type))
        rows.append(describe(case.name, case.model, case.rtol, case.atol))
    return rows


def write_shipped_sets(out, data):
    rows = []
    for kind in ("simple", "pytorch-converted", "pytorch-operator"):
        for source in sorted(glob.glob(f"{data}/{kind}/*/model.onnx")):
            name = os.path.basename(os.path.dirname(source))
            shutil.copytree(os.path.dirname(source), f"{out}/{name}")
            rows.append(describe(name, onnx.load(source), 1e-3, 1e-7))
    return rows


def write_light_models(out, data):
    """The package's runner feeds arange(n) / n, n the element count, to each input that no initializer fills."""
    rows = []
    for source in sorted(glob.glob(f"{data}/light/*.onnx")):
        name = os.path.basename(source)[:-len(".onnx")]
        model = onnx.load(source)
        folder = f"{out}/{name}/test_data_set_0"
        os.makedirs(folder)
        shutil.copy(source, f"{out}/{name}/model.onnx")
        filled = {t.name for t in model.graph.initializer}
        for j, info in enumerate(i for i in model.graph.input if i.name not in filled):
            shape = [d.dim_value if d.HasField("dim_value") else 1 for d in info.type.tensor_type.shape.dim]
            n = int(numpy.prod(shape))
            value = (numpy.arange(n).reshape(shape) / n).astype(numpy.float32)
            save(f"{folder}/input_{j}.pb", numpy_helper.from_array(value, "").SerializeToString())
        shutil.copy(source[:-len(".onnx")] + "_output_0.pb", f"{folder}/output_0.pb")
        rows.append(describe(name, model, 1e-3, 1e-7))
    return rows


def main():
    out, data = sys.argv[1], os.path.join(os.path.dirname(onnx.__file__), "backend/test/data")
    os.makedirs(f"{out}/node")
    os.makedirs(f"{out}/models")
    for folder, rows in (("node", write_node_tests(f"{out}/node")),
                         ("models", write_shipped_sets(f"{out}/models", data) + write_light_models(f"{out}/models", data))):
        with open(f"{out}/{folder}/cases.json", "w") as f:
            json.dump(rows, f, indent=0)
        print(folder, len(rows), "cases")


main()
