"""Builds the encoder and the decoder as ONNX graphs, node by node: the graphs stay small, and every option works.

The decoder needs no branch for its first step: its cache is empty then, and it computes keys and values of the source
only for positions that are not in the cache yet.
"""

import math
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn

from translate._version import __version__
from translate.decoding.counterparts import position_limit
from translate.model import Decoder, Encoder, Transformer
from translate.model.attention import MultiHeadAttention
from translate.model.layers import AddAndNorm, DecoderLayer, EncoderLayer, FeedForward
from translate.model.positions import Positions
from translate.model.transformer import Embedder


def _swish(graph: "Graph", inner: str) -> str:
    return graph.op("Mul", inner, graph.op("Sigmoid", inner))


def _swiglu(graph: "Graph", inner: str) -> str:
    gate, inner = graph.split(inner, 2)
    return graph.op("Mul", _swish(graph, gate), inner)


def _geglu(graph: "Graph", inner: str) -> str:
    gate, inner = graph.split(inner, 2)
    return graph.op("Mul", graph.op("Gelu", gate, approximate="tanh"), inner)


ACTIVATIONS: dict[str, Callable[["Graph", str], str]] = {
    "relu": lambda graph, inner: graph.op("Relu", inner),
    "gelu": lambda graph, inner: graph.op("Gelu", inner),
    "swish": _swish,
    "swiglu": _swiglu,
    "geglu": _geglu,
}
"""Adds the nodes of each `model.activation`."""
LARGEST_FILE = 2_000_000_000
"""Bytes of weights that fit into one ONNX file."""
_OPSET, _IR_VERSION = 20, 9  # ONNX Runtime 1.17 and later
_CACHE = ("decoder.key", "decoder.value", "encoder.key", "encoder.value")  # of each layer


class Graph:
    """The nodes and weights of one graph. Methods that add to it return the name of the result."""

    def __init__(self, onnx: ModuleType, model: Transformer) -> None:
        self.model, self._config, self._onnx = model, model.config, onnx
        self._names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}  # tied: one
        self._graph = onnx.GraphProto()
        self._weights: set[str] = set()

    def input(self, name: str, *shape: str | int, kind: str = "INT64") -> str:
        kind_id = getattr(self._onnx.TensorProto, kind)
        self._graph.input.append(self._onnx.helper.make_tensor_value_info(name, kind_id, shape))
        return name

    def output(self, name: str, result: str, *shape: str | int) -> None:
        """Make a result an output of the graph, with this name."""
        self._graph.node.append(self._onnx.helper.make_node("Identity", [result], [name], name=name))
        self._graph.output.append(self._onnx.helper.make_tensor_value_info(name, self._onnx.TensorProto.FLOAT, shape))

    def save(self, path: Path) -> None:
        """Write the graph; weights that are too large for the file go into a second one next to it."""
        helper, self._graph.name = self._onnx.helper, path.stem
        versions = {"opset_imports": [helper.make_opsetid("", _OPSET)], "ir_version": _IR_VERSION}
        proto = helper.make_model(self._graph, producer_name="translate", producer_version=__version__, **versions)
        is_large = sum(len(weight.raw_data) for weight in self._graph.initializer) > LARGEST_FILE
        self._onnx.save(proto, os.fspath(path), save_as_external_data=is_large, location=f"{path.name}_data")
        self._onnx.checker.check_model(os.fspath(path), full_check=True)

    def ops(self, op: str, *inputs: str, num_results: int, **attributes: object) -> list[str]:
        """Add a node with several results."""
        name = f"{op}_{len(self._graph.node)}"
        results = [f"{name}_{number}" for number in range(num_results)]
        self._graph.node.append(self._onnx.helper.make_node(op, inputs, results, name=name, **attributes))
        return results

    def op(self, op: str, *inputs: str, **attributes: object) -> str:
        return self.ops(op, *inputs, num_results=1, **attributes)[0]

    def split(self, joined: str, parts: int) -> list[str]:
        return self.ops("Split", joined, num_results=parts, num_outputs=parts, axis=-1)

    def weight(self, name: str, tensor: Tensor) -> str:
        """Add a tensor, once."""
        if name not in self._weights:
            self._weights.add(name)
            array = tensor.detach().cpu().contiguous().numpy()
            self._graph.initializer.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def number(self, value: int | float) -> str:
        return self.weight(f"{type(value).__name__}_{value}", torch.tensor(value))

    def ints(self, *values: int) -> str:
        return self.weight("_".join(map(str, ("ints", *values))), torch.tensor(values))

    def length(self, name: str, axis: int) -> str:
        return self.op("Squeeze", self.op("Shape", name, start=axis, end=axis + 1))

    def range(self, start: str, end: str) -> str:
        return self.op("Range", start, end, self.number(1))

    def embed(self, embedder: Embedder, ids: str, positions: str) -> str:
        """Scaled token embeddings, plus the embeddings of absolute positions, normalised if the model does that."""
        tokens = embedder.tokens.weight
        hidden = self.op("Gather", self.weight(self._names[tokens], tokens), ids)
        hidden = self.op("Mul", hidden, self.number(embedder.scale))
        if self._config.positions in ("sinusoidal", "fairseq", "learned"):
            every = self._every_position(embedder.positions)
            rows = embedder.positions.embed(torch.zeros(1, len(every), self._config.d_model), every)[0]
            hidden = self.op("Add", hidden, self.op("Gather", self.weight("positions", rows), positions))
        return self.norm(embedder.embedding_norm, hidden)

    def rotary(self, module: Positions, positions: str) -> list[str]:
        """The cosines and sines of rotary positions; empty if the model has other positions."""
        if self._config.positions != "rotary":
            return []
        angles = module.rotary(self._every_position(module))
        assert angles is not None
        tables = (self.weight(name, angles[0, ..., axis]) for axis, name in enumerate(("cosines", "sines")))
        return [self.op("Gather", table, positions) for table in tables]

    def mask(self, visible: str) -> str:
        """0 for visible positions, -inf for all others."""
        return self.op("Where", visible, self.number(0.0), self.number(-math.inf))

    def source_mask(self, attention_mask: str) -> str:
        visible = self.op("Cast", attention_mask, to=self._onnx.TensorProto.BOOL)
        return self.mask(self.op("Unsqueeze", visible, self.ints(1, 2)))

    def add_relative(self, module: Positions, mask: str, query: str, key: str) -> str:
        """Add the relative bias to a mask, if the model has one; beyond the largest distance it is constant."""
        if self._config.positions != "relative":
            return mask
        farthest = self._config.relative_max_distance
        biases = module.bias(torch.zeros(1, dtype=torch.long), torch.arange(-farthest, farthest + 1))
        assert biases is not None
        distance = self.op("Sub", key, self.op("Unsqueeze", query, self.ints(1)))  # (query, key)
        distance = self.op("Clip", distance, self.number(-farthest), self.number(farthest))
        row = self.op("Add", distance, self.number(farthest))
        bias = self.op("Gather", self.weight("relative_bias", biases[:, 0].t()), row)  # (query, key, heads)
        return self.op("Add", mask, self.op("Transpose", bias, perm=[2, 0, 1]))

    def linear(self, module: nn.Linear, hidden: str, *, rows: Tensor | slice = slice(None), part: str = "") -> str:
        """The outputs of a linear layer: all of them, or only some rows, as a named part.

        ONNX Runtime transposes the weights once, when it loads the model.
        """
        weight, name = module.weight[rows], f"{self._names[module.weight]}{part}"
        result = self.op("MatMul", hidden, self.op("Transpose", self.weight(name, weight), perm=[1, 0]))
        bias: Tensor | None = module.bias
        return result if bias is None else self.op("Add", result, self.weight(f"{self._names[bias]}{part}", bias[rows]))

    def norm(self, module: nn.Module, hidden: str) -> str:
        weights = [self.weight(self._names[tensor], tensor) for tensor in module.parameters()]
        if isinstance(module, nn.RMSNorm):
            mean_square = self.op("ReduceMean", self.op("Mul", hidden, hidden), self.ints(-1))
            root = self.op("Sqrt", self.op("Add", mean_square, self.number(module.eps or 0.0)))
            return self.op("Mul", self.op("Div", hidden, root), *weights)
        if not isinstance(module, nn.LayerNorm):
            return hidden
        return self.op("LayerNormalization", hidden, *weights, epsilon=module.eps)

    def residual(self, module: AddAndNorm, hidden: str, sublayer: Callable[[str], str]) -> str:
        if module.placement == "pre":
            return self.op("Add", hidden, sublayer(self.norm(module.norm, hidden)))
        return self.norm(module.norm, self.op("Add", hidden, sublayer(hidden)))

    def feed_forward(self, module: FeedForward, hidden: str) -> str:
        return self.linear(module.outer, ACTIVATIONS[module.activation](self, self.linear(module.inner, hidden)))

    def layers(
        self,
        stack: Encoder | Decoder,
        ids: str,
        *,
        positions: tuple[str, str],  # of the ids, and of the ids and all that is cached
        mask: str,
        memory: tuple[str, str] = ("", ""),  # with its mask
        caches: Sequence[dict[str, str]],
    ) -> str:
        """The outputs of the encoder or the decoder for token ids."""
        rotary = self.rotary(stack.embedder.positions, positions[0])
        mask = self.add_relative(stack.embedder.positions, mask, *positions)
        hidden = self.embed(stack.embedder, ids, positions[0])
        for layer, cache in zip(stack.layers, caches, strict=True):
            assert isinstance(layer, EncoderLayer | DecoderLayer)
            attend = partial(self.attention, layer.self_attention, mask=mask, rotary=rotary, cache=cache)
            hidden = self.residual(layer.self_attention_add_and_norm, hidden, attend)
            if isinstance(layer, DecoderLayer):
                attend = partial(self.attention, layer.cross_attention, memory=memory[0], mask=memory[1], cache=cache)
                hidden = self.residual(layer.cross_attention_add_and_norm, hidden, attend)
            feed_forward = partial(self.feed_forward, layer.feed_forward)
            hidden = self.residual(layer.feed_forward_add_and_norm, hidden, feed_forward)
        return self.norm(stack.final_norm, hidden)

    def project(self, module: MultiHeadAttention, hidden: str, parts: str, rotary: Sequence[str] = ()) -> list[str]:
        """The queries, keys and values that `parts` names by their first letters, split into heads.

        Rotary embeddings turn pairs of dimensions; here a pair has one dimension in each half of the head.
        """
        rows = torch.arange(3 * module.width).view(3, module.num_heads, -1)
        if rotary:
            rows[:2] = rows[:2].unflatten(-1, (-1, 2)).mT.flatten(2)
        rows = rows[["qkv".index(part) for part in parts]].flatten()
        projected = self.linear(module.input_projection, hidden, rows=rows, part=f".{parts}")
        shape = self.ints(0, 0, module.num_heads, module.width // module.num_heads)  # 0 leaves an axis as it is
        split = self.split(projected, len(parts)) if len(parts) > 1 else [projected]
        heads = [self.op("Transpose", self.op("Reshape", part, shape), perm=[0, 2, 1, 3]) for part in split]
        for number in range(2 if rotary else 0):
            even, odd = self.split(heads[number], 2)
            turned_even = self.op("Sub", self.op("Mul", even, rotary[0]), self.op("Mul", odd, rotary[1]))
            turned_odd = self.op("Add", self.op("Mul", even, rotary[1]), self.op("Mul", odd, rotary[0]))
            heads[number] = self.op("Concat", turned_even, turned_odd, axis=-1)
        return heads

    def attention(
        self,
        module: MultiHeadAttention,
        hidden: str,
        *,
        memory: str = "",  # empty: self-attention
        mask: str,
        rotary: Sequence[str] = (),
        cache: dict[str, str],
    ) -> str:
        """Attention to cached and new positions; the new ones join the cache, if there is one."""
        if memory:
            new, (query,) = self.project(module, memory, "kv"), self.project(module, hidden, "q")
        else:
            query, *new = self.project(module, hidden, "qkv", rotary)
        if cache:
            names = _CACHE[2:] if memory else _CACHE[:2]
            new = [self.op("Concat", cache[name], part, axis=2) for name, part in zip(names, new, strict=True)]
            cache |= zip(names, new, strict=True)
        key, value = new
        query = self.op("Mul", query, self.number((module.width / module.num_heads) ** -0.5))
        scores = self.op("MatMul", query, self.op("Transpose", key, perm=[0, 1, 3, 2]))
        output = self.op("MatMul", self.op("Softmax", self.op("Add", scores, mask), axis=-1), value)
        joined = self.op("Reshape", self.op("Transpose", output, perm=[0, 2, 1, 3]), self.ints(0, 0, module.width))
        return self.linear(module.output_projection, joined)

    def _every_position(self, module: Positions) -> Tensor:
        number = position_limit(self._config, "onnx")
        assert number is not None
        module.reserve(number)
        return torch.arange(number)


def build_encoder(graph: Graph) -> Graph:
    encoder = graph.model.encoder
    source = ("batch_size", "encoder_sequence_length")
    ids, attention_mask = graph.input("input_ids", *source), graph.input("attention_mask", *source)
    positions = graph.range(graph.number(0), graph.length(ids, 1))
    mask, caches = graph.source_mask(attention_mask), [dict[str, str]() for _ in encoder.layers]
    hidden = graph.layers(encoder, ids, positions=(positions, positions), mask=mask, caches=caches)
    graph.output("last_hidden_state", hidden, *source, encoder.d_model)
    return graph


def build_decoder(graph: Graph) -> Graph:
    """The decoder, for one or more target positions after those in the cache, which is empty at first."""
    decoder, config = graph.model.decoder, graph.model.config
    batch, source, target = "batch_size", "encoder_sequence_length", "decoder_sequence_length"
    attention_mask = graph.input("encoder_attention_mask", batch, source)
    ids = graph.input("input_ids", batch, target)
    memory = graph.input("encoder_hidden_states", batch, source, config.d_model, kind="FLOAT")
    heads, head_dim = config.num_heads, config.attention_dim // config.num_heads
    caches = [
        {
            part: graph.input(f"past_key_values.{number}.{part}", batch, heads, f"past_{part}", head_dim, kind="FLOAT")
            for part in _CACHE
        }
        for number in range(config.num_decoder_layers)
    ]
    start = graph.length(caches[0]["decoder.key"], 2)
    end = graph.op("Add", start, graph.length(ids, 1))
    query, key = graph.range(start, end), graph.range(graph.number(0), end)
    mask = graph.mask(graph.op("LessOrEqual", key, graph.op("Unsqueeze", query, graph.ints(1))))
    cached = graph.op("Shape", caches[0]["encoder.key"], start=2, end=3)
    new_memory = graph.op("Slice", memory, cached, graph.ints(2**63 - 1), graph.ints(1))
    source_memory = new_memory, graph.source_mask(attention_mask)
    hidden = graph.layers(decoder, ids, positions=(query, key), mask=mask, memory=source_memory, caches=caches)
    graph.output("logits", graph.linear(graph.model.output, hidden), batch, target, graph.model.output.out_features)
    for number, cache in enumerate(caches):
        for part, result in cache.items():
            graph.output(f"present.{number}.{part}", result, batch, heads, f"present_{part}", head_dim)
    return graph
