"""`Graph`: a function as elementary operations, for PyTorch and ONNX."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from drogo.errors import ArgumentError, import_extra
from drogo.files import write_file

INPUT, OUTPUT = "observations", "potential"
ROUNDING = 1e-14
"""Bounds the rounding error of a sum, relative to its largest terms and their number."""


class Graph:
    """A function from a batch of observations of one shape and type to one number for each.

    Its nodes are operations of ONNX (operator set 17) on `INPUT`, constants and other nodes, with
    attributes in the order of PyTorch. It is NaN everywhere as long as there is no `output`.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape, self.dtype, self.output = shape, dtype, ""
        self.constants: dict[str, np.ndarray] = {}
        self.nodes: dict[str, tuple[str, list[str], dict[str, Any]]] = {}

    def add(self, operation: str, *inputs: Any, **attributes: Any) -> str:
        """Appends an operation on nodes, given by name, and constants. Returns its name."""
        name, names = f"node_{len(self.nodes)}", []
        for k, part in enumerate(inputs):
            names.append(part if isinstance(part, str) else f"{name}_{k}")
            if not isinstance(part, str):
                self.constants[names[-1]] = np.array(part)
        self.nodes[name] = (operation, names, attributes)
        return name

    def then(self, operation: str, *inputs: Any, **attributes: Any) -> "Graph":
        """Applies an operation to the output, if there is one. Returns the graph."""
        self.output = self.output and self.add(operation, self.output, *inputs, **attributes)
        return self

    def look_up(self, table: Shaped[np.ndarray, "n ..."], values: Float[np.ndarray, " n"]) -> None:
        """Replaces the output at the rows of a table, by the row nearest in a random direction."""
        exact = np.int64 if self.dtype.kind in "biu" else np.float64
        rows = table.reshape(len(table), int(np.prod(self.shape)))
        direction = np.random.default_rng(0).normal(size=(rows.shape[1], 1))
        keys, rounding = rows.astype(np.float64) @ direction, ROUNDING * rows.shape[1]
        if (np.diff(np.sort(keys, axis=0), axis=0) <= rounding * np.abs(rows).max()).any():
            problem = "two observations of the table are too similar to be told apart elsewhere."
            raise ArgumentError(problem, argument="observations")
        numbers = self.add("Cast", self.add("Flatten", INPUT, axis=1), to=exact)
        key = self.add("MatMul", self.add("Cast", numbers, to=np.float64), direction)
        gaps = self.add("Abs", self.add("Sub", key, keys.T))
        row = self.add("ArgMin", gaps, axis=1, keepdims=False)
        nearest = self.add("Cast", self.add("Gather", rows, row, axis=0), to=exact)
        gaps = self.add("Abs", self.add("Sub", nearest, numbers))
        differs = self.add("Cast", self.add("ReduceMax", gaps, axes=[1], keepdims=False), to=bool)
        value = self.add("Gather", values.astype(np.float64), row, axis=0)
        self.output = self.add("Where", differs, self.output or np.float64(np.nan), value)

    def to_torch(self) -> Any:
        """Returns the graph as a `torch.fx.GraphModule`, whose buffers are the constants."""
        torch = import_extra("torch", "PyTorch", extra="torch")
        graph, axes, has_floats = torch.fx.Graph(), len(self.shape), self.dtype.kind == "f"
        given = torch.fx.Proxy(graph.placeholder(INPUT))
        message = f"the potential takes {self.dtype} of shape {self.shape}, and batches of them"
        for axis, size in enumerate(self.shape):
            torch._assert(given.size(axis - axes) == size, message)
        if not has_floats:
            torch._assert(torch.is_floating_point(given) == has_floats, message)

        def cast(x: Any, to: Any) -> Any:
            return x.to(torch.from_numpy(np.zeros(0, to)).dtype)

        special = {
            "Cast": cast,
            "Concat": lambda *parts: torch.cat(parts[:-1], parts[-1]),
            "Conv": lambda x, weight, bias, pads: torch.conv2d(x, weight, bias, padding=pads[:2]),
            "Gather": lambda x, rows, axis: torch.index_select(x, axis, rows),
            "MaxPool": torch.max_pool2d,
            "ReduceLogSumExp": torch.logsumexp,
            "ReduceMax": torch.amax,
            "Transpose": torch.permute,
        }
        parts = {n: torch.fx.Proxy(graph.get_attr(n), given.tracer) for n in self.constants}
        parts[INPUT] = cast(given, self.dtype).reshape(-1, *(self.shape or (1,)))
        for name, (operation, inputs, attributes) in self.nodes.items():
            function = special.get(operation) or getattr(torch, operation.lower())
            parts[name] = function(*(parts[part] for part in inputs), *attributes.values())
        values = cast(parts[self.output], np.float32).reshape(given.shape[: given.dim() - axes])
        graph.output(values.node)
        buffers = {name: torch.tensor(array) for name, array in self.constants.items()}
        return torch.fx.GraphModule(buffers, graph, "Potential")

    def to_onnx(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Writes the graph to a file of ONNX, in the format of 2022."""
        onnx = import_extra("onnx", "ONNX", extra="onnx")
        make, kind, nodes = onnx.helper, onnx.helper.np_dtype_to_tensor_dtype, []
        last = {OUTPUT: ("Cast", [self.output], {"to": np.float32})}
        for name, (operation, inputs, given) in {**self.nodes, **last}.items():
            types = {"to": kind(np.dtype(given["to"]))} if "to" in given else {}
            nodes.append(make.make_node(operation, inputs, [name], **{**given, **types}))
        takes = make.make_tensor_value_info(INPUT, kind(self.dtype), ["batch", *self.shape])
        gives = make.make_tensor_value_info(OUTPUT, kind(np.dtype(np.float32)), ["batch"])
        constants = [onnx.numpy_helper.from_array(a, name) for name, a in self.constants.items()]
        graph = make.make_graph(nodes, "drogo", [takes], [gives], constants)
        model = make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        write_file(Path(path), model.SerializeToString(), overwrite=overwrite)
