"""The counterparts in other programs of each choice in `model`: one table for every export and import."""

from typing import Any, Literal, NamedTuple

from translate.config.schema import ModelConfig
from translate.errors import InputError

Format = Literal["marian_mt", "m2m_100", "mbart", "t5", "marian", "ctranslate2", "modeling", "onnx"]
NAMES: dict[Format, str] = {
    "marian_mt": "MarianMT",
    "m2m_100": "M2M100",
    "mbart": "mBART-50",
    "t5": "T5",
    "marian": "Marian",
    "ctranslate2": "CTranslate2",
    "modeling": "modeling_translate.py",
    "onnx": "the export to ONNX",
}
TABLE_POSITIONS: dict[Format, int] = {"marian_mt": 1024, "m2m_100": 1024, "ctranslate2": 4096, "onnx": 4096}
"""Rows of a format's tables of positions; the others compute positions."""
_NORM_EPSILON = 1e-5  # hard-coded in transformers, not a setting
_HEAD_DIM: tuple[Format, ...] = ("ctranslate2", "onnx", "t5")  # formats whose heads may have any width
Settings = dict[str, Any] | None
"""A format's settings for a choice, by the format's own names; None: the format cannot express the choice."""


class Counterparts(NamedTuple):
    """One choice in each format."""

    marian_mt: Settings  # in transformers' MarianConfig, written and read
    marian: Settings  # in Marian's own model.npz, read
    ctranslate2: Settings  # in CTranslate2's specification, written
    modeling: Settings = {}  # in our modelling file for transformers, written: it has our choices by our names
    onnx: Settings = {}  # in graphs for ONNX Runtime, written: they need no settings
    m2m_100: Settings = None  # in transformers' M2M100Config, written and read
    mbart: Settings = None  # in transformers' MBartConfig, written and read
    t5: Settings = None  # in transformers' T5Config, written and read, and in MT5Config, read


# Choices in the other programs: `transformers.activations.ACT2FN`, `ctranslate2.specs.common_spec.Activation`, and the
# options `--transformer-…` of `marian --help`.
COUNTERPARTS: dict[str, dict[Any, Counterparts]] = {
    "activation": {
        **{
            key: Counterparts(
                {"activation_function": key},
                None if key == "gelu" else {"transformer-ffn-activation": key},  # Marian's gelu is another one
                {"activation": key.upper()},
                m2m_100={"activation_function": key},
                mbart={"activation_function": key},
                t5={"feed_forward_proj": "silu" if key == "swish" else key},
            )
            for key in ("relu", "gelu", "swish")
        },
        "swiglu": Counterparts(
            None, None, {"activation": "SWISH", "ffn_glu": True}, t5={"feed_forward_proj": "gated-silu"}
        ),
        "geglu": Counterparts(
            None,
            None,
            {"activation": "GELUTanh", "ffn_glu": True},
            modeling=None,
            t5={"feed_forward_proj": "gated-gelu"},  # the approximation by tanh, unlike plain "gelu"
        ),
    },
    "norm": {
        "post": Counterparts(
            {"normalize_before": False},
            {"transformer-preprocess": "", "transformer-postprocess": "dan"},
            {"pre_norm": False},
        ),
        "pre": Counterparts(None, None, {"pre_norm": True}, m2m_100={}, mbart={"normalize_before": True}, t5={}),
    },
    "embedding_norm": {
        False: Counterparts({}, {}, {}, m2m_100={}, t5={}),
        True: Counterparts(None, None, {"layernorm_embedding": True}, mbart={"normalize_embedding": True}),
    },
    "norm_kind": {
        "layer": Counterparts({}, {}, {}, m2m_100={}, mbart={}),
        "rms": Counterparts(None, None, {"rms_norm": True}, modeling=None, t5={}),
    },
    "bias": {
        True: Counterparts({}, {}, {}, m2m_100={}, mbart={}),
        False: Counterparts(None, None, {}, modeling=None, t5={}),
    },
    "scale_embeddings": {
        value: Counterparts(
            {"scale_embedding": value},
            {} if value else None,
            {},
            m2m_100={"scale_embedding": value},
            mbart={"scale_embedding": value},
            t5=None if value else {},
        )
        for value in (True, False)
    },
    "positions": {
        "sinusoidal": Counterparts(
            {"static_position_embeddings": True}, {"transformer-train-position-embeddings": False}, {}
        ),
        "fairseq": Counterparts(None, None, {}, m2m_100={"pad_token_id": 1}),  # positions begin after it
        "learned": Counterparts(None, None, {}, mbart={"static_position_embeddings": False}),
        "rotary": Counterparts(None, None, {"rotary_dim": 0, "rotary_interleave": True}),  # of neighbouring dimensions
        "relative": Counterparts(None, None, {"relative_attention_bias": True}, t5={}),
    },
    "tie_embeddings": {
        # Marian's files and CTranslate2's show tying by the weights alone.
        **{
            key: Counterparts(
                {"share_encoder_decoder_embeddings": key == "all", "tie_word_embeddings": key != "none"},
                {},
                {},
                modeling={"tie_word_embeddings": key != "none"},
                m2m_100={"tie_word_embeddings": True} if key == "all" else None,
                mbart={"tie_word_embeddings": True} if key == "all" else None,
                t5={"tie_word_embeddings": True} if key == "all" else None,
            )
            for key in ("none", "decoder", "all")
        },
        "inputs": Counterparts(None, None, {}, modeling=None, t5={"tie_word_embeddings": False}),
    },
}


def find_lacking(config: ModelConfig, to: Format) -> list[str]:
    """The choices of a model that a format cannot express, as "model.key = value (it has …)"; empty if exportable."""
    lacking = []
    for key, rows in COUNTERPARTS.items():
        choice, known = getattr(config, key), [value for value, row in rows.items() if getattr(row, to) is not None]
        if choice not in known:
            lacking.append(f"model.{key} = {choice!r} (it has {' or '.join(map(repr, known))})")
    if to in ("marian_mt", "m2m_100", "mbart") and config.norm_epsilon != _NORM_EPSILON:
        lacking.append(f"model.norm_epsilon = {config.norm_epsilon!r} (it has {_NORM_EPSILON!r})")
    if to not in _HEAD_DIM and config.attention_dim != config.d_model:
        lacking.append(f"model.head_dim = {config.head_dim!r} (it has d_model / num_heads)")
    return lacking


def to_settings(config: ModelConfig, to: Format) -> dict[str, Any]:
    """A model's choices as the settings of a format.

    Raises:
        InputError: The format cannot express a choice.
    """
    if lacking := find_lacking(config, to):
        raise InputError(f"{NAMES[to]} cannot express {', '.join(lacking)}: choose another format for the export")
    merged: dict[str, Any] = {}
    for key, rows in COUNTERPARTS.items():
        merged |= getattr(rows[getattr(config, key)], to)
    return merged


def position_limit(config: ModelConfig, of: Format) -> int | None:
    """The most tokens that an exported model takes on either side, with the special symbol; None: no limit."""
    if config.positions == "learned":
        return config.max_positions
    has_table = config.positions in ("sinusoidal", "fairseq") or (of == "onnx" and config.positions == "rotary")
    return TABLE_POSITIONS.get(of) if has_table else None


def from_settings(settings: dict[str, Any], of: Format) -> dict[str, Any]:
    """A format's settings as our choices, except for tying, which the weights show.

    A setting that is left out means the first choice.
    """
    return {
        key: next(
            value
            for value, row in rows.items()
            if (expected := getattr(row, of)) is not None
            and all(settings.get(name, wanted) == wanted for name, wanted in expected.items())
        )
        for key, rows in COUNTERPARTS.items()
        if key != "tie_embeddings"
    }


def known_settings(of: Format) -> dict[str, tuple[object, ...]]:
    """The values of each of a format's settings that correspond to our choices."""
    known: dict[str, tuple[object, ...]] = {}
    for row in (row for rows in COUNTERPARTS.values() for row in rows.values()):
        for name, value in (getattr(row, of) or {}).items():
            known[name] = (*known.get(name, ()), value)
    return known
