"""Initial weights from another run: kept rows stay equal, new rows are near their mean, and the source is recorded."""

import json
from pathlib import Path

import pytest
import torch
from harness import flip_a_bit, write_weights

from translate.config.load import override_config
from translate.config.schema import Config, TokenizerConfig
from translate.config.show import resolved_yaml
from translate.data.extension import add_tags, extend_tokenizers
from translate.data.tokenizer import prepare_tokenizers
from translate.errors import InputError, RunError
from translate.fingerprint import fingerprint
from translate.model import Transformer
from translate.runs.directory import RunDirectory, create_run
from translate.runs.initial import InitialWeights, read_initial_weights, related_tags
from translate.runs.weights import build_model, get_parameters


def tuning(config: Config, run: RunDirectory, **values: object) -> Config:
    values |= {"initialize_from": str(run.path)}
    return override_config(config, {f"training.{name}": each for name, each in values.items()})


def read(config: Config) -> InitialWeights:
    found = read_initial_weights(config)
    assert found is not None
    return found


@pytest.mark.parametrize("tying, vocabulary", [("all", "joint"), ("decoder", "separate"), ("none", "separate")])
def test_rows_stay_and_new_ones_are_near_their_mean(
    config: Config, lines: list[str], tmp_path: Path, tying: str, vocabulary: str
) -> None:
    settings = {"model.tie_embeddings": tying, "tokenizer.vocabulary": vocabulary}
    config = override_config(config, settings)
    tokenizers = prepare_tokenizers(config.tokenizer, lines, lines)
    old = build_model(config, tokenizers)
    run = create_run(tmp_path / "run", config=config, tokenizers=tokenizers, command=[])
    write_weights(run, old, "best", 7)
    pieces = TokenizerConfig(add_pieces=("<a>", "<b>"))
    extended = extend_tokenizers(tokenizers, pieces, [], [])
    new, size = build_model(config, extended), tokenizers.source.vocab_size
    initial = read(tuning(config, run))
    initial.give_to(new, seed=3)
    after = get_parameters(new)
    assert new.decoder.embedder.tokens.num_embeddings == size + 2
    grown = 0
    for name, before in get_parameters(old).items():
        assert torch.equal(after[name][: len(before)], before), name
        if len(added := after[name][len(before) :]):
            grown += 1
            assert not torch.equal(added[0], added[1])
            distance = (added - before.mean(0)).abs() / before.std(0)
            assert 0.0 < float(distance.max()) < 0.05  # standard deviations
    assert grown == {"all": 1, "decoder": 2, "none": 3}[tying]
    again = build_model(config, extended)
    read(tuning(config, run)).give_to(again, seed=3)
    assert all(torch.equal(after[name], tensor) for name, tensor in get_parameters(again).items())


def test_a_new_language_begins_as_a_related_one(config: Config, lines: list[str], tmp_path: Path) -> None:
    languages = {"data.languages": ["de", "en"], "data.language_tags": "both"}
    config = override_config(config, languages)
    plain = prepare_tokenizers(config.tokenizer, lines, lines)
    tokenizers = add_tags(plain, ["<2de>", "<2en>"], [])
    old = build_model(config, tokenizers)
    run = create_run(tmp_path / "run", config=config, tokenizers=tokenizers, command=[])
    write_weights(run, old, "best", 7)
    new_corpora = [{"kind": "text", "source": "a", "target": "b", "source_language": each} for each in ("gsw", "nds")]
    added = {"tokenizer.add_languages": {"gsw": "de", "nds": None}, "data.train": new_corpora}
    extended, tuned = add_tags(tokenizers, ["<2nds>", "<2gsw>"], []), override_config(tuning(config, run), added)
    new = build_model(tuned, extended)
    read(tuned).give_to(new, seed=3, related=related_tags(tuned, extended))
    table, german = new.decoder.embedder.tokens.weight, extended.source.tag_ids("<2de>")
    assert torch.equal(table[-1], table[german[0]]) and not torch.equal(table[-2], table[german[0]])
    for key, value, unknown in (
        ("data.target_language", "eng", r"eng; it knows de, en\. Correct .* to en, "),
        ("data.target_language", "fr", r"fr; it knows de, en\. Correct .*add_languages={fr:"),
        ("data.target_language", "und", r"und; it knows de, en\. Name source_language and target_language"),
        ("tokenizer.add_languages", {"gsw": "deu"}, r"deu; it knows de, en\. Correct .* to de, "),
    ):
        with pytest.raises(InputError, match=f"does not know the language {unknown}"):
            read(override_config(tuned, {key: value}))
    with pytest.raises(InputError, match=r"tokenizer\.add_languages: no corpus of data\.train has the language nds,"):
        read(override_config(tuned, {"data.train": new_corpora[:1]}))


@pytest.mark.parametrize(
    ("tags", "words"), [(None, "has no language tags"), ("source", "as its target the language gsw")]
)
def test_languages_that_would_get_no_tag_are_refused(
    config: Config, run: RunDirectory, tags: str | None, words: str
) -> None:
    """Of a run without tags, and of one whose sources have none of their own."""
    base = override_config(config, {"data.language_tags": tags})
    run.config.write_text(resolved_yaml(base))
    added = {"tokenizer.add_languages": {"gsw": "de"}, "data.source_language": "gsw"}
    with pytest.raises(InputError, match=rf"tokenizer\.add_languages: .*{words}"):
        read(override_config(tuning(base, run), added))


def test_where_they_are_from(
    config: Config, run: RunDirectory, model: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [{"kind": "validation", "step": 7, "BLEU": 36.54}, {"kind": "validation/old", "step": 7, "BLEU": 1.0}]
    run.metrics.write_text("".join(json.dumps(each) + "\n" for each in records))
    monkeypatch.chdir(run.path.parents[1])
    initial = read(tuning(config, run))
    assert str(initial) == "runs/tiny (step 7, BLEU 36.54)"
    digest = fingerprint(run.checkpoint("best"))
    origin = {"run": "../../tiny", "checkpoint": "best", "step": 7, "sha256": digest, "imported": {}, "licences": []}
    assert initial.provenance(Path("runs/deep/new")) == {"initialized_from": origin}
    run.metrics.write_text("half a li")
    assert str(read(tuning(config, run))) == "runs/tiny (step 7)"
    assert read_initial_weights(config) is None


def test_what_cannot_be_begun_from(config: Config, run: RunDirectory) -> None:
    with pytest.raises(InputError, match=r"model\.norm = \"pre\", but .*tiny has \"post\""):
        read(override_config(tuning(config, run), {"model.norm": "pre"}))
    flip_a_bit(run.checkpoint("best"))
    with pytest.raises(RunError, match=r"best\.safetensors"):
        read(tuning(config, run))
