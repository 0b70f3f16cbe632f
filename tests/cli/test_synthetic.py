"""`distill` and `backtranslate`: corpora that a training reads, with their origin, continued where stopped."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from harness import in_order, succeed
from harness import run_command as translate
from sacrebleu.metrics.chrf import CHRF

from translate.data.tokenizer import load_tokenizers
from translate.decoding.sharded import ShardedDecoder
from translate.fingerprint import fingerprint

pytestmark = pytest.mark.usefixtures("no_shape_checks")

FAST = ["--beam-size", "2", "--workers", "1", "--engine", "translate"]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def small(learnt: Path, tmp_path: Path) -> Path:
    """The run `learnt`, of which only the 12 pairs of new.de and new.en count as training data."""
    run = Path(shutil.copytree(learnt, tmp_path / "small"))
    config = (run / "config.yaml").read_text(encoding="utf-8")
    (run / "config.yaml").write_text(config.replace("toy.", "new."), encoding="utf-8")
    checksums = (run / "SHA256SUMS").read_text().splitlines(keepends=True)
    (run / "SHA256SUMS").write_text("".join(line for line in checksums if "config.yaml" not in line))
    return run


def rows(folder: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(folder, "corpus.jsonl").read_text(encoding="utf-8").splitlines()]


def origin(folder: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(Path(folder, "provenance.json").read_text(encoding="utf-8"))
    return values


def test_the_training_data_are_translated_once_each(learnt: Path, small: Path) -> None:
    result = succeed("distill", small, "-o", "new/out", *FAST)
    sources = (learnt.parent / "new.de").read_text(encoding="utf-8").splitlines()
    plain = translate("decode", learnt, learnt.parent / "new.de", *FAST)
    assert [row["source"] for row in rows("new/out")] == sources
    assert [row["target"] for row in rows("new/out")] == plain.stdout.splitlines()
    found = origin("new/out")
    assert found["counts"]["lines"] == found["inputs"][0]["lines"] == 12
    assert found["corpus"] == {"file": "corpus.jsonl", "sha256": fingerprint(Path("new/out/corpus.jsonl"))}
    (run,) = found["runs"]
    assert (run["name"], run["step"]) == ("learnt", 150)
    assert run["sha256"] == fingerprint(learnt / "checkpoints" / "best.safetensors")
    assert found["decoding"]["beam_size"] == 2 and "new.de" in found["inputs"][0]["name"]
    file = str(Path("new/out/corpus.jsonl").resolve())
    corpus = {"kind": "json", "path": file, "source_column": "source", "target_column": "target"}
    assert yaml.safe_load(result.stdout)["data"]["train"] == [corpus]
    again = translate("distill", small, "-o", "new/out", *FAST)
    assert again.exit_code == 2 and in_order(again.stderr, "--output new/out", "corpus.jsonl")


def test_the_nearest_of_an_ensembles_beam(learnt: Path, small: Path) -> None:
    """An ensemble of one run with itself searches as the run does; no other choice is nearer to the reference."""
    for folder, arguments in [("all", ["--n-best", "4"]), ("near", [small, "--nearest-reference", "chrf"])]:
        succeed("distill", small, *arguments, "-o", folder, "--workers", "1", "--engine", "translate")
    assert len(origin("near")["runs"]) == 2 and origin("near")["decoding"]["n_best"] == 4
    references = (learnt.parent / "new.en").read_text(encoding="utf-8").splitlines()
    n_best: dict[str, list[str]] = {}
    for row in rows("all"):
        n_best.setdefault(row["source"], []).append(row["target"])
    num_others = 0
    for row, reference in zip(rows("near"), references, strict=True):
        scores = [CHRF().sentence_score(text, [reference]).score for text in n_best[row["source"]][:4]]
        num_others += row["target"] != n_best[row["source"]][0]
        assert CHRF().sentence_score(row["target"], [reference]).score == max(scores)
    assert num_others > 0


def test_a_model_learns_from_back_translations_with_their_tag(corpus: Path, run: Path) -> None:
    Path("mono.en").write_text("A dog runs.\n\nTwo\tmen.\n", encoding="utf-8")
    result = succeed("backtranslate", run, "mono.en", "-o", "bt")
    assert [row["target"] for row in rows("bt")] == ["A dog runs.", "", "Two\tmen."]
    assert in_order(result.stderr, "3 lines", "1 empty")
    assert origin("bt")["inputs"] == [{"name": "mono.en", "lines": 3, "sha256": fingerprint(Path("mono.en"))}]
    assert origin("bt")["decoding"]["engine"] == "translate"  # for so few lines, even where CTranslate2 is installed
    base = yaml.safe_load((corpus / "tiny.yaml").read_text())["data"]["train"]
    train = [{**base[0], "source": str(corpus / "train.de"), "target": str(corpus / "train.en")}]
    train += yaml.safe_load(result.stdout)["data"]["train"]
    assert train[1]["source_tag"] == "<bt>"
    config = {"extends": str(corpus / "tiny.yaml"), "data": {"train": train, "root": str(corpus)}}
    Path("tagged.yaml").write_text(yaml.safe_dump(config))
    trained = succeed("train", "tagged.yaml", "--run", "tagged")
    assert "corpus.jsonl with <bt>: 2 of 3 pairs kept" in trained.stderr
    old, new = (load_tokenizers(each / "tokenizer").source for each in (run, Path("tagged")))
    assert new.vocab_size == old.vocab_size + 1
    assert new.pieces(new.encode("<bt> Ein Hund"))[0] == "▁<bt>"


def test_a_stopped_command_goes_on_to_the_same_bytes(learnt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = learnt.parent / "new.de"
    arguments = ["distill", learnt, "--source", source, *FAST, "--look-ahead-lines", "5", "-o"]
    succeed(*arguments, "whole")

    def stop(self: ShardedDecoder, fingerprints: list[str]) -> None:
        self.part_file(1).unlink()
        raise KeyboardInterrupt

    def stop_after_the_corpus(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(ShardedDecoder, "join_parts", stop)
        stopped = translate(*arguments, "out")
    assert stopped.exit_code == 130
    assert [path.name for path in Path("out").iterdir()] == ["corpus.jsonl.parts"]
    with monkeypatch.context() as context:
        context.setattr("translate.decoding.synthetic.describe_origin", stop_after_the_corpus)
        stopped = translate(*arguments, "out")
    assert stopped.exit_code == 130 and "7 of the lines" in stopped.stderr
    assert "12 of the lines" in succeed(*arguments, "out").stderr
    assert Path("out/corpus.jsonl").read_bytes() == Path("whole/corpus.jsonl").read_bytes()
    assert sorted(path.name for path in Path("out").iterdir()) == ["corpus.jsonl", "provenance.json"]


def test_data_that_are_elsewhere(run: Path, corpus: Path) -> None:
    """A run is copied without its data: then a text is needed, and nothing can be said about its language."""
    source = corpus / "train.de"
    moved = source.rename(corpus / "moved.de")
    try:
        result = translate("distill", run, "-o", "out")
    finally:
        moved.rename(source)
    assert result.exit_code == 2 and in_order(result.stderr, str(run), "data.train.0", str(source), "--source FILE")
