"""Every shipped preset loads, builds its model, opens with its command, and says what its comment and its paper say."""

from pathlib import Path

import pytest
import torch
from harness import in_order

from translate.config.languages import Languages
from translate.config.load import find_config, load_config, names_run
from translate.config.show import describe_presets
from translate.config.yaml import preset_names, presets_directory
from translate.data.tokenizer import PAD_ID
from translate.errors import InputError
from translate.model import Transformer


@pytest.mark.parametrize("preset", preset_names())
def test_a_preset_is_complete_and_opens_with_its_command(preset: str) -> None:
    config = load_config(preset).config
    assert config.name == preset
    assert config.data.train and config.data.validation and config.data.test
    lines = (presets_directory() / f"{preset}.yaml").read_text(encoding="utf-8").splitlines()
    opening = lines[: next(index for index, line in enumerate(lines) if not line.startswith("#"))]
    (command,) = (line for line in opening if line.startswith("#     "))
    assert command.removeprefix("#     ").split()[:3] == ["translate", "train", preset]


def test_the_table_of_presets_has_the_numbers_of_the_docs() -> None:
    """Each score is in a row of the preset, with its minutes if they were measured."""
    docs = Path(__file__).parents[2]
    pages = [(docs / page).read_text(encoding="utf-8") for page in ("docs/recipes.md", "README.md")]
    found = set()
    for name, _, _, minutes, scores in describe_presets()[1:]:
        time = minutes.replace(" (1 thread)", " with one thread").replace(" (2 threads)", " with two threads")
        for score in scores.split(" and ") if name.startswith("multi30k") and scores != "–" else ():
            lines = [line for line in pages[0].splitlines() if f" {score} " in line]
            assert any(time in ("–", *line.split("| ")) or f" {time}" in line for line in lines), name
            found.add(name)
    assert len(found) == 7 and "94.45" in pages[1]


def test_a_bare_name_is_a_preset_and_a_path_has_a_slash_or_a_suffix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("multi30k").mkdir()  # neither a run nor a file
    for name in ("demo", "multi30k"):
        assert find_config(name) == find_config(name, beside=tmp_path) == presets_directory() / f"{name}.yaml"
    with pytest.raises(InputError, match="looked for demo.yaml; .* did you mean demo"):
        find_config("demo.yaml")
    assert not caplog.records
    for name in ("demo.yaml", "demo/run.json", "demo/config.yaml", "mine/run.json", "mine/config.yaml"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    assert find_config("demo.yaml") == Path("demo.yaml")
    for name in ("./demo", "demo/", str(tmp_path / "demo")):
        assert find_config(name).resolve() == tmp_path / "demo/config.yaml" and names_run(name)
    with pytest.raises(InputError, match="no preset 'mine': .* did you mean ./mine"):
        find_config("mine")
    assert not caplog.records
    assert find_config("demo") == presets_directory() / "demo.yaml" and not names_run("demo")
    assert in_order(caplog.messages[0], "demo is the preset", "./demo or demo.yaml")
    assert find_config("demo", beside=tmp_path) == presets_directory() / "demo.yaml"
    assert in_order(caplog.messages[1], "demo is the preset", str(tmp_path / "demo"))
    Path("one.yaml").write_text("extends: demo\n")
    for config in ("demo", "one.yaml", {"extends": "demo"}):
        assert load_config(config).config.model == load_config(str(presets_directory() / "demo.yaml")).config.model
    assert len(caplog.messages) == 5
    Path("demo/config.yaml").write_text("name: mine\n")
    assert load_config({"extends": Path("demo")}).config.name == "mine"  # a path is never a preset


def test_the_other_direction_swaps_languages_and_columns_only() -> None:
    forward, back = load_config("multi30k").config, load_config("multi30k-en-de").config
    assert (Languages(forward.data).direction, Languages(back.data).direction) == (("de", "en"), ("en", "de"))
    corpora, swapped = (list(each.data.corpora("train", "validation", "test").values()) for each in (forward, back))
    assert len(corpora) == 3 and [corpus.swapped() for corpus in corpora] == swapped
    assert (back.model, back.training, back.tokenizer) == (forward.model, forward.training, forward.tokenizer)


def test_both_directions_have_as_many_steps_as_two_models() -> None:
    one, both = load_config("multi30k-fast").config, load_config("multi30k-both").config
    assert (both.model, both.tokenizer) == (one.model, one.tokenizer)
    assert both.training == one.training.model_copy(update={"max_steps": 2 * one.training.max_steps})
    for kind, key in (("train", ""), ("validation", "data.validation."), ("test", "data.test.test_2016_flickr-")):
        (corpus,) = one.data.corpora(kind).values()  # type: ignore[arg-type]
        there, back = both.data.corpora(kind).items()  # type: ignore[arg-type]
        assert kind == "train" or (there[0], back[0]) == (f"{key}de-en", f"{key}en-de")
        languages = {"source_language": "de", "target_language": "en"}
        assert there[1] == corpus.model_copy(update=languages) and back[1] == there[1].swapped()


def test_transformer_base_is_the_papers() -> None:
    """Vaswani et al. 2017: table 3 (base), sections 5.1 (batches, vocabulary), 5.3, 5.4, 6.1 (search)."""
    config = load_config("transformer-base").config
    model, training, decoding = config.model, config.training, config.decoding
    assert (model.num_encoder_layers, model.num_decoder_layers, model.d_model, model.num_heads) == (6, 6, 512, 8)
    assert (model.d_ff, model.dropout, model.norm, model.positions) == (2048, 0.1, "post", "sinusoidal")
    adam = (training.optimizer, training.adam_beta1, training.adam_beta2, training.adam_epsilon)
    assert adam == ("adam", 0.9, 0.98, 1e-9)
    assert (training.schedule, training.warmup_steps, training.max_steps) == ("noam", 4000, 100_000)
    assert training.label_smoothing == 0.1
    assert (training.step_tokens, training.num_batch_tokens) == (25_000, 4096)
    assert (decoding.beam_size, decoding.length_penalty) == (4, 0.6)
    assert (decoding.max_length_factor, decoding.max_length_constant) == (1.0, 50)
    assert (config.tokenizer.vocab_size, config.tokenizer.vocabulary) == (37_000, "joint")


def test_transformer_big_is_the_papers() -> None:
    """Table 3: what is not said for the big model is as in the base model."""
    base, big = load_config("transformer-base").config, load_config("transformer-big").config
    wide = {"d_model": 1024, "num_heads": 16, "d_ff": 4096, "dropout": 0.3}
    assert big.model == base.model.model_copy(update=wide)
    assert big.training == base.training.model_copy(update={"max_steps": 300_000})
    assert (big.data, big.tokenizer, big.decoding) == (base.data, base.tokenizer, base.decoding)


def build(preset: str) -> Transformer:
    """The model on the meta device, where it costs no memory."""
    config = load_config(preset).config
    size = config.tokenizer.vocab_size
    with torch.device("meta"):
        return Transformer(config.model, source_vocab_size=size, target_vocab_size=size, pad_id=PAD_ID)


@pytest.mark.parametrize("preset", preset_names())
def test_preset_builds_and_runs(preset: str) -> None:
    model = build(preset)
    ids = torch.ones(2, 7, dtype=torch.long, device="meta")
    assert model(ids, ids[:, :5]).shape == (2, 5, load_config(preset).config.tokenizer.vocab_size)


# By hand, with biases. Base: attention 4 · (512² + 512) = 1,050,624; feed-forward 2 · 512 · 2048 + 2048 + 512 =
# 2,099,712; a norm 1,024. So an encoder layer with two norms has 3,152,384, and a decoder layer with a second attention
# and a third norm 4,204,032. Six of each, and one embedding of 37,000 · 512. Big, with 1024 and 4096: 4,198,400,
# 8,393,728 and 2,048. (The paper says 65 and 213 million.)
@pytest.mark.parametrize(
    "preset, layers, d_model",
    [("transformer-base", 3_152_384 + 4_204_032, 512), ("transformer-big", 12_596_224 + 16_796_672, 1024)],
)
def test_the_papers_presets_have_its_sizes(preset: str, layers: int, d_model: int) -> None:
    assert build(preset).num_parameters == 6 * layers + 37_000 * d_model
