"""Every choice of a model in every export: it gives our numbers there, or a clear error names it."""

import json
from pathlib import Path
from typing import get_args

import pytest
from harness import model_to_export

from translate.config.data import DataConfig
from translate.config.schema import Config, ModelConfig
from translate.decoding.counterparts import COUNTERPARTS, Format, to_settings
from translate.decoding.engines.ctranslate2_conversion import write_ctranslate2
from translate.errors import InputError
from translate.exchange.huggingface import write_huggingface
from translate.exchange.language_tokenizers import FAIRSEQ_FORMATS
from translate.exchange.onnx import write_onnx

EXPORTS: dict[Format, str] = {
    "ctranslate2": "ctranslate2",
    "marian_mt": "transformers",
    "m2m_100": "transformers",
    "mbart": "transformers",
    "t5": "transformers",
    "modeling": "transformers",
    "onnx": "onnxruntime",
}


def choices(key: str) -> tuple[object, ...]:
    return get_args(ModelConfig.model_fields[key].annotation) or (True, False)


CHOICES = [*((key, value) for key in COUNTERPARTS for value in choices(key)), ("head_dim", 7)]


@pytest.mark.parametrize("key", COUNTERPARTS)
def test_every_choice_has_a_row(key: str) -> None:
    assert {*COUNTERPARTS[key]} == {*choices(key)}


@pytest.mark.parametrize("to", EXPORTS)
@pytest.mark.parametrize(("key", "value"), CHOICES)
@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses:UserWarning")
@pytest.mark.usefixtures("no_shape_checks")
def test_every_choice_is_exported_or_refused(tmp_path: Path, key: str, value: object, to: Format) -> None:
    pytest.importorskip(EXPORTS[to], reason="an extra is not installed")
    # A modelling file is written where MarianMT lacks something, such as another epsilon.
    shape = {"norm_epsilon": 0.03} if to == "modeling" else {}
    if to in FAIRSEQ_FORMATS:
        is_mbart = to == "mbart"
        shape = {"norm": "pre", "positions": "learned" if is_mbart else "fairseq", "embedding_norm": is_mbart}
    if to == "t5":
        shape = {"norm": "pre", "norm_kind": "rms", "bias": False, "positions": "relative", "scale_embeddings": False}
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 2, "max_positions": 79}
    model, tokenizers = model_to_export(**layers | shape | {key: value}, noise=0.2)
    is_lacking = to not in ("ctranslate2", "onnx", "t5")
    if key != "head_dim":
        is_lacking = getattr(COUNTERPARTS[key][value], to) is None
    if is_lacking:
        with pytest.raises(InputError, match=f"model.{key} = {value!r}"):
            to_settings(model.config, to)
        return
    languages = {"source_language": "und", "target_language": "und", "languages": ("de", "en"), "language_tags": "both"}
    data = DataConfig.model_validate(languages if to in FAIRSEQ_FORMATS else {})
    config = Config.model_construct(model=model.config, data=data)
    if to == "ctranslate2":
        write_ctranslate2(model, tokenizers, tmp_path)  # checks what it wrote, as the others do
    elif to == "onnx":
        write_onnx(model, tokenizers, config, tmp_path)
    else:
        write_huggingface(model, tokenizers, config, tmp_path)
        assert (tmp_path / "modeling_translate.py").exists() == (to == "modeling")
        types = {"modeling": "translate", "marian_mt": "marian"}
        assert json.loads((tmp_path / "config.json").read_text())["model_type"] == types.get(to, to)
