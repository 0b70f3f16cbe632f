"""The encoder-decoder Transformer, as in the paper's figure 1: ids in, logits out."""

import contextlib
import math
import threading
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from translate.config.schema import ModelConfig
from translate.model.attention import MultiHeadAttention, Projection
from translate.model.dropout import Dropout
from translate.model.kv_cache import DecoderCache, LayerCache
from translate.model.layers import DecoderLayer, EncoderLayer, FeedForward, build_norm
from translate.model.masks import memory_visible, source_visible, target_visible
from translate.model.positions import Positions, build_positions
from translate.model.varlen import PackedSequences, VarlenMask


class Memory(NamedTuple):
    """The encoder's output, and which of its positions cross-attention may see."""

    hidden: Float[Tensor, "batch source d_model"]  # of packed sequences (1, token, d_model)
    visible: Bool[Tensor, "batch 1 1 source"] | VarlenMask


class Embedded(NamedTuple):
    """The input of a stack's first layer, and how positions affect the self-attention of all its layers."""

    hidden: Float[Tensor, "batch position d_model"]
    rotary: Float[Tensor, "*batch 1 position half 2"] | None
    bias: Float[Tensor, "*batch heads query key"] | None


class Embedder(nn.Module):
    """Token embeddings, scaled, with their positions, normalised if wanted, after dropout: how both stacks begin."""

    def __init__(self, config: ModelConfig, *, tokens: nn.Embedding, positions: Positions) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.embedding_norm = build_norm(config) if config.embedding_norm else nn.Identity()
        self.dropout = Dropout(config.dropout)

    def forward(self, sequences: Int[Tensor, "batch position"] | PackedSequences) -> Embedded:
        """Embed whole sequences, padded or packed."""
        if isinstance(sequences, PackedSequences):
            ids, length = sequences.ids, sequences.max_seqlen
        else:
            ids, length = sequences, sequences.shape[1]
        self.positions.reserve(length)
        padded_positions = torch.arange(length, device=ids.device)
        positions = sequences.positions if isinstance(sequences, PackedSequences) else padded_positions
        bias = self.positions.bias(padded_positions, padded_positions)  # attention pads where it adds a bias
        return Embedded(self._embed(ids, positions), self.positions.rotary(positions), bias)

    def step(
        self, ids: Int[Tensor, "batch beam"], *, query: Int[Tensor, "batch 1"], key: Int[Tensor, "batch key"]
    ) -> Embedded:
        """Embed one token of each hypothesis, given the positions of self-attention's queries and keys."""
        return Embedded(self._embed(ids, query), self.positions.rotary(query), self.positions.bias(query, key))

    def _embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        embedded = self.positions.embed(self.tokens(ids) * self.scale, positions)
        return self.dropout(self.embedding_norm(embedded))


def build_final_norm(config: ModelConfig) -> nn.Module:
    """Normalise the stack's output with pre-norm, which leaves the residual sum itself unnormalised."""
    return build_norm(config) if config.norm == "pre" else nn.Identity()


class Encoder(nn.Module):
    """Source ids in, one vector for each of them out. `SequenceClassifier` uses only an encoder."""

    def __init__(self, config: ModelConfig, *, tokens: nn.Embedding, pad_id: int) -> None:
        super().__init__()
        self.embedder = Embedder(config, tokens=tokens, positions=build_positions(config, directions="both"))
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_encoder_layers))
        self.final_norm = build_final_norm(config)
        self.d_model = config.d_model
        self.pad_id = pad_id

    def forward(self, source: Int[Tensor, "batch source"] | PackedSequences) -> Memory:
        visible = source_visible(source, pad_id=self.pad_id)
        hidden, rotary, bias = self.embedder(source)
        for layer in self.layers:
            hidden = layer(hidden, visible=visible, rotary=rotary, bias=bias)
        return Memory(self.final_norm(hidden), visible)


class Decoder(nn.Module):
    """Target ids and the encoder's output in, one vector for each target position out."""

    def __init__(self, config: ModelConfig, *, tokens: nn.Embedding, pad_id: int) -> None:
        super().__init__()
        self.embedder = Embedder(config, tokens=tokens, positions=build_positions(config, directions="past"))
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_decoder_layers))
        self.final_norm = build_final_norm(config)
        self.pad_id = pad_id

    def forward(
        self, target_input: Int[Tensor, "batch target"] | PackedSequences, memory: Memory
    ) -> Float[Tensor, "batch target d_model"]:
        masks = {
            "target_visible": target_visible(target_input, pad_id=self.pad_id),
            "memory_visible": memory_visible(target_input, memory.visible),
        }
        hidden, rotary, bias = self.embedder(target_input)
        for layer in self.layers:
            hidden = layer(hidden, memory.hidden, **masks, rotary=rotary, bias=bias)
        return self.final_norm(hidden)

    def start(
        self, memory: Memory, *, beam_size: int, max_length: int, source_lengths: Sequence[int] | None = None
    ) -> DecoderCache:
        """A cache with the memory's keys and values and no target positions yet, with room for `max_length` of them.

        Args:
            source_lengths: Number of positions of each sentence without padding; None: taken from the memory's mask,
                for which the host waits for the device.

        Raises:
            ValueError: The model has fewer positions.
        """
        self.embedder.positions.reserve(max_length)
        packed = memory.visible.key if isinstance(memory.visible, VarlenMask) else None
        visible = memory.visible.padded if isinstance(memory.visible, VarlenMask) else memory.visible
        assert visible is not None  # step-by-step decoding works on padded sentences
        layers = []
        for layer in self.layers:
            assert isinstance(layer, DecoderLayer)
            source = layer.cross_attention.project_key_value(memory.hidden)
            source = (source if packed is None else source.map(packed.pad)).map(Tensor.contiguous)
            layers.append(LayerCache(past=source.map(lambda heads: heads[:, :, :0]), memory=source))
        if source_lengths is None:
            source_lengths = visible.flatten(1).sum(dim=1).tolist()
        return DecoderCache(
            layers=tuple(layers),
            past_bias=memory.hidden.new_empty(len(visible), 1, beam_size, 0),
            slot_positions=torch.empty(len(visible), 0, dtype=torch.long, device=visible.device),
            memory_bias=memory.hidden.new_zeros(visible.shape).masked_fill(~visible, -math.inf),
            lengths=torch.zeros(len(visible), dtype=torch.long, device=visible.device),
            source_lengths=tuple(source_lengths),
            max_length=max_length,
            num_slots=0,
        )

    def step(
        self, target_ids: Int[Tensor, "batch beam"], cache: DecoderCache
    ) -> tuple[Float[Tensor, "batch beam d_model"], DecoderCache]:
        """One more position of each hypothesis, as `forward` computes it; the returned cache replaces the given one."""
        cache = cache.with_new_slots()
        # The row of a finished sentence is stepped until it is reused; its position only has to stay in the table.
        positions = cache.lengths.clamp(max=cache.max_length - 1)
        key_positions = cache.slot_positions[:, : cache.num_slots]
        hidden, rotary, bias = self.embedder.step(target_ids, query=positions[:, None], key=key_positions)
        past_bias = cache.past_bias[..., : cache.num_slots]
        if bias is not None:
            past_bias = past_bias + bias
        memory_bias = cache.memory_bias[..., : max(cache.source_lengths)]
        for layer, layer_cache in zip(self.layers, cache.layers, strict=True):
            assert isinstance(layer, DecoderLayer)
            hidden = layer.step(hidden, layer_cache, past_bias=past_bias, memory_bias=memory_bias, rotary=rotary)
        return self.final_norm(hidden), cache._replace(lengths=cache.lengths + 1)


class Transformer(nn.Module):
    """The whole model. The softmax over its logits is the probability of the next target token.

    Args:
        pad_id: Positions with this id are padding, on either side.

    Raises:
        ValueError: The embeddings of both sides are tied, and their vocabularies have different sizes.

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3; tying: Press and Wolf 2017,
    https://arxiv.org/abs/1608.05859.
    """

    def __init__(self, config: ModelConfig, *, source_vocab_size: int, target_vocab_size: int, pad_id: int) -> None:
        super().__init__()
        if config.has_one_embedding and source_vocab_size != target_vocab_size:
            raise ValueError(
                f"model.tie_embeddings = {config.tie_embeddings!r} needs one vocabulary for both languages, but the"
                f" source has {source_vocab_size} and the target {target_vocab_size} entries"
            )
        target_tokens = nn.Embedding(target_vocab_size, config.d_model)
        source_tokens = target_tokens if config.has_one_embedding else nn.Embedding(source_vocab_size, config.d_model)
        self.encoder = Encoder(config, tokens=source_tokens, pad_id=pad_id)
        self.decoder = Decoder(config, tokens=target_tokens, pad_id=pad_id)
        self.output = Projection(config.d_model, target_vocab_size, bias=config.output_bias)
        if self.output.bias is not None and not config.bias:  # of an imported model: it excludes what the model lacks
            self.output.bias.requires_grad_(False)
        initialize(self, config.initialization)
        if config.tie_embeddings in ("decoder", "all"):
            self.output.weight = target_tokens.weight
        self.config = config

    def forward(
        self,
        source: Int[Tensor, "batch source"] | PackedSequences,
        target_input: Int[Tensor, "batch target"] | PackedSequences,
    ) -> Float[Tensor, "batch target vocab"]:
        """Logits of every next target token, given the source and the target tokens up to it.

        Args:
            source: Ids of source tokens, padded on the right; or packed, as the target then is too.
            target_input: Ids of the start symbol and the translation; packed, they give logits of (1, token, vocab).
        """
        return self.output(self.decoder(target_input, self.encoder(source)))

    @property
    def num_parameters(self) -> int:
        """Number of weights; tied ones count once."""
        return sum(parameter.numel() for parameter in self.parameters())

    @property
    def num_trained_parameters(self) -> int:
        """Number of weights that are not frozen."""
        return sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.decoder.embedder.tokens.weight.device


def initialize(module: nn.Module, method: Literal["paper", "xavier"]) -> None:
    """Draw the weights of linear layers and embeddings from torch's global generator; biases become 0.

    paper: Like the code of the paper's authors, Xavier's uniform distribution for each projection (query, key and value
    apart, and gate and inner), and embeddings from N(0, 1 / d_model), which have variance 1 after scaling by
    sqrt(d_model).
    xavier: Xavier's uniform distribution for every matrix as it is stored, also for fused projections and embeddings.

    Source: Glorot and Bengio 2010; Vaswani et al. 2018, https://arxiv.org/abs/1803.07416 (tensor2tensor).
    """
    for child in module.modules():
        if isinstance(child, nn.Embedding) and method == "paper":
            nn.init.normal_(child.weight, std=child.embedding_dim**-0.5)
        elif isinstance(child, nn.Linear | nn.Embedding):
            nn.init.xavier_uniform_(child.weight)
        if isinstance(child, nn.Linear) and child.bias is not None:
            nn.init.zeros_(child.bias)
    for weight, number in fused_projections(module).items() if method == "paper" else ():
        for projection in weight.detach().chunk(number):
            nn.init.xavier_uniform_(projection)


def fused_projections(module: nn.Module) -> dict[Tensor, int]:
    """The weights that hold several projections as rows, and how many: query, key and value, or gate and inner."""
    fused: dict[Tensor, int] = {}
    for child in module.modules():
        if isinstance(child, MultiHeadAttention):
            fused[child.input_projection.weight] = 3
        elif isinstance(child, FeedForward) and child.is_gated:
            fused[child.inner.weight] = 2
    return fused


def product_weights(module: nn.Module) -> list[nn.Parameter]:
    """The weights of the stacks' layers that only matrix products use: all but those of the norms."""
    layers = (layer for layer in module.modules() if isinstance(layer, EncoderLayer | DecoderLayer))
    parts = (part for layer in layers for part in layer.modules() if not isinstance(part, nn.LayerNorm | nn.RMSNorm))
    return [weight for part in parts for weight in part.parameters(recurse=False)]


def log_probabilities(logits: Float[Tensor, "*batch vocab"]) -> Float[Tensor, "*batch vocab"]:
    """Natural logarithms of the probabilities, in fp32 whatever the model's precision."""
    return F.log_softmax(logits.float(), dim=-1)


@contextlib.contextmanager
def record_attention(model: Transformer, *, layer: int) -> Iterator[list[Float[Tensor, "batch heads query source"]]]:
    """Record the cross-attention weights of a decoder layer: each call in this thread appends them to the list.

    Other threads go on with torch's fused kernel, so their results do not depend on what happens beside them.
    """
    decoder_layer = model.decoder.layers[layer]
    assert isinstance(decoder_layer, DecoderLayer)
    recorded: list[Tensor] = []

    def record(module: nn.Module, inputs: object, weights: Tensor) -> None:
        if threading.get_ident() == thread:
            recorded.append(weights)

    record.thread = thread = threading.get_ident()  # type: ignore[attr-defined]  # see `MultiHeadAttention._has_hook`
    with decoder_layer.cross_attention.weights_dropout.register_forward_hook(record):
        yield recorded
