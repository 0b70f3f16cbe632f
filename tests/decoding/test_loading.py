"""`translate.load`: from a run directory to typed translations, with settings and other runs."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

import translate
from translate.config.data import DataConfig, TokenizerConfig
from translate.config.decoding import DecodingConfig
from translate.config.schema import Config, ModelConfig
from translate.data.tokenizer import PAD_ID, Tokenizers, train_tokenizer
from translate.decoding import Request, Translation, Translator
from translate.decoding.engines.choice import resolve_auto
from translate.decoding.engines.own import OwnEngine
from translate.decoding.loading import load_own_translator
from translate.errors import InputError
from translate.model import Transformer
from translate.runs.checkpoint import add_prefix, write_tensors
from translate.runs.directory import create_run
from translate.runs.loading import build_model, get_parameters

Toy = Any  # conftest.py's: test modules cannot import each other


def write_run(path: Path, model: Transformer, tokenizers: Tokenizers, **data: str) -> Path:
    decoding = DecodingConfig(device="cpu", beam_size=3)
    config = Config(model=model.config, data=DataConfig.model_validate(data), decoding=decoding)
    run = create_run(path, config=config, tokenizers=tokenizers, command=["translate", "train"])
    write_tensors(run.checkpoint("best"), add_prefix(get_parameters(model), "model."), {"step": "300"})
    return path


@pytest.fixture(scope="module")
def run(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "toy", toy.model, toy.tokenizers)


def texts(translator: Translator, lines: list[str]) -> list[str]:
    return [translation.text for translation in translator.translate(lines)]


def test_the_translator_of_a_run(toy: Toy, run: Path) -> None:
    """As the model and its settings give it, in evaluation mode; the path may be text."""
    lines = toy.sources[:9]
    loaded = translate.load(str(run))
    assert isinstance(loaded, Translator) and loaded.config == resolve_auto(
        DecodingConfig(device="cpu", beam_size=3, max_source_tokens=256, max_target_tokens=256)
    )
    assert not any(module.training for module in loaded.model.modules())
    assert f"Translator {run}, de → en: " in repr(loaded)
    translations = loaded.translate(lines)
    assert all(type(each) is Translation for each in translations)
    assert texts(Translator(toy.model, toy.tokenizers, loaded.config), lines) == [each.text for each in translations]
    first = translations[0]
    assert (type(first.log_prob), type(first.flags), type(first.unmet)) == (float, frozenset, tuple)
    assert len(first.token_log_probs) == len(first.ids) + 1
    assert math.fsum(first.token_log_probs) == pytest.approx(first.log_prob, abs=1e-4)


def test_settings_of_the_load_and_of_a_call(toy: Toy, run: Path) -> None:
    loaded = translate.load(run, beam_size=4, n_best=2, seed=None)
    assert (loaded.config.beam_size, loaded.config.n_best, loaded.config.seed) == (4, 2, 1)
    assert [len(each.alternatives) for each in loaded.translate(toy.sources[:2])] == [1, 1]
    assert [len(each.alternatives) for each in loaded.translate(toy.sources[:2], n_best=4)] == [3, 3]
    wanted = loaded.translate([Request(toy.sources[0], prefix="green", required=("dog",))])[0]
    assert wanted.text.startswith("green") and "dog" in wanted.text.split() and wanted.unmet == ()
    for wrong, right in {"beamsize": "beam_size", "beam": "beam_size", "lenght_penalty": "length_penalty"}.items():
        with pytest.raises(InputError, match=f"^unknown key decoding.{wrong}; did you mean decoding.{right}\\?$"):
            loaded.translate("Hund", **{wrong: 2})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beamsize": 3}, "^unknown key decoding.beamsize; did you mean decoding.beam_size\\?$"),
        ({"xyz": 3}, "^unknown key decoding.xyz$"),
        ({"chekpoint": "last"}, "^unknown option chekpoint; did you mean checkpoint\\?$"),
        ({"forbid": ["dog"]}, "^unknown option forbid; did you mean forbidden\\?$"),
        ({"beam_size": 0}, "^decoding.beam_size = 0: should be greater than or equal to 1"),
        ({"beam_size": "3"}, '^decoding.beam_size = "3": should be a whole number'),
        ({"n_best": 9}, "^decoding.n_best = 9 is more than decoding.beam_size = 3 hypotheses"),
        ({"alignment_layer": 1}, "^decoding.alignment_layer = 1: the decoder has the layers 0 to 0; -1 is the last$"),
        ({"forbidden": "dog"}, "^forbidden = 'dog': should be a list, such as \\['dog'\\]$"),
        ({"ensemble": "runs/demo"}, "^ensemble = 'runs/demo': should be a list, such as"),
        ({"ensemble": ["nowhere"]}, "^nowhere: no such run directory$"),
        ({"engine": "translate", "precision": "int8"}, "^decoding.precision = 'int8': decoding.engine = 'translate' "),
        ({"search": "sample", "precision": "int8"}, "^decoding.precision = 'int8': .* decoding.search = 'sample'"),
        ({"reverse": "nowhere"}, "^nowhere: no such run directory$"),
        ({"checkpoint": "last"}, "last.safetensors"),
        ({"device": "cuda:99"}, "^device = cuda:99: this machine has no such device"),
    ],
)
def test_options_that_cannot_be(run: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        translate.load(run, **options)


def test_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such run directory"):
        translate.load(tmp_path / "nowhere")
    with pytest.raises(InputError, match="is not a run directory"):
        translate.load(tmp_path)


def test_forbidden_words(toy: Toy, run: Path) -> None:
    lines = [source for source in toy.sources if "Hund" in source][:5]
    assert any("dog" in text for text in texts(translate.load(run), lines))
    assert not any("dog" in text.split() for text in texts(translate.load(run, forbidden=["dog"]), lines))


# Several runs


@pytest.fixture(scope="module")
def other_run(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Untrained, and of another shape: no more positions than 9, and no layer 1."""
    shape = {"d_model": 16, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 1, "num_decoder_layers": 1}
    config = Config.model_validate(
        {
            "model": {**shape, "positions": "learned", "max_positions": 9},
            "data": {"max_source_tokens": 8, "max_target_tokens": 8},
        }
    )
    model = build_model(config, toy.tokenizers).eval()
    path = tmp_path_factory.mktemp("runs") / "other"
    run = create_run(path, config=config, tokenizers=toy.tokenizers, command=["translate", "train"])
    write_tensors(run.checkpoint("best"), add_prefix(get_parameters(model), "model."), {"step": "1"})
    return path


def test_an_ensemble_of_a_run_with_itself_is_the_run(toy: Toy, run: Path) -> None:
    lines = toy.sources[:7]
    assert texts(translate.load(run, ensemble=[run, str(run)], precision="fp32"), lines) == texts(
        translate.load(run), lines
    )


def test_other_runs_have_their_say(toy: Toy, run: Path, other_run: Path) -> None:
    alone, together = (translate.load(run, ensemble=each).translate(toy.sources[:5]) for each in ([], [other_run]))
    assert all(abs(one.log_prob - other.log_prob) > 1e-3 for one, other in zip(alone, together, strict=True))


def test_a_reverse_run_ranks_the_beam(toy: Toy, run: Path, tmp_path: Path) -> None:
    """With its own tokenizer: only the text goes from one to the other."""
    tokenizer = train_tokenizer(toy.sources, TokenizerConfig(vocab_size=295))
    tokenizers = Tokenizers(tokenizer, tokenizer, "joint")
    shape = {"d_model": 8, "num_heads": 1, "d_ff": 8, "num_encoder_layers": 1, "num_decoder_layers": 1}
    model = build_model(Config.model_validate({"model": shape}), tokenizers)
    other = write_run(tmp_path / "other", model, tokenizers, source_language="en", target_language="de")
    alone, together = (
        translate.load(run, engine="translate", precision="fp32", reverse=reverse).translate(toy.sources[:5])
        for reverse in (None, other)
    )
    assert all(abs(one.score - other.score) > 1e-3 for one, other in zip(alone, together, strict=True))
    with pytest.raises(InputError, match=f"^{run} translates de to en: the reverse of {run} translates en to de$"):
        translate.load(run, reverse=run)


def test_sources_are_cut_to_the_fewest_positions(run: Path, other_run: Path) -> None:
    translation = translate.load(run, long="truncate", ensemble=[other_run]).translate("Hund " * 30)
    assert translation.source_truncated and len(translation.source_ids) == 8 and len(translation.ids) <= 9


def test_coverage_watches_the_first_model_alone(toy: Toy, run: Path) -> None:
    """The other's decoder has fewer layers than the one that is watched."""
    sizes = {
        "source_vocab_size": toy.tokenizers.source.vocab_size,
        "target_vocab_size": toy.tokenizers.target.vocab_size,
    }
    shape = {"d_model": 16, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 1, "num_decoder_layers": 2}
    deep = Transformer(ModelConfig.model_validate(shape), **sizes, pad_id=PAD_ID).eval()
    config = DecodingConfig(device="cpu", beam_size=2, coverage_penalty=0.2, alignment_layer=1)
    translator = Translator(OwnEngine(deep, toy.tokenizers.target, ensemble=[toy.model]), toy.tokenizers, config)
    assert len(translator.translate(toy.sources[:3])) == 3


def test_another_tokenizer_is_refused_by_name(toy: Toy, run: Path, tmp_path: Path) -> None:
    tokenizer = train_tokenizer(toy.sources, TokenizerConfig(vocab_size=295))
    tokenizers = Tokenizers(tokenizer, tokenizer, "joint")
    shape = {"d_model": 8, "num_heads": 1, "d_ff": 8, "num_encoder_layers": 1, "num_decoder_layers": 1}
    model = build_model(Config.model_validate({"model": shape}), tokenizers)
    other = write_run(tmp_path / "other", model, tokenizers)
    with pytest.raises(InputError) as error:
        translate.load(run, ensemble=[other])
    assert str(error.value).startswith(f"{other} has another source tokenizer than {run}: ")


# Precision


@pytest.mark.usefixtures("no_shape_checks")
def test_bf16(toy: Toy, run: Path) -> None:
    exact = texts(translate.load(run), toy.sources)
    translator = translate.load(run, engine="translate", precision="bf16", ensemble=[run])
    for model in translator.engine.models:
        assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    same = sum(one == other for one, other in zip(texts(translator, toy.sources), exact, strict=True))
    assert same > 0.8 * len(exact)


def test_what_is_loaded_is_said(run: Path) -> None:
    loaded = load_own_translator(run, options={"beam_size": 1})
    assert (loaded.run.step, loaded.run.directory) == (300, run)


def test_without_a_precision_scores_are_computed_in_fp32(toy: Any, run: Path) -> None:
    translator = load_own_translator(run).translator
    assert translator.config.precision == "fp32" and translator.model.output.weight.dtype == torch.float32
