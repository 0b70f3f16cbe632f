"""Translations as lines of a corpus: read back as they were, none left out, and the nearest to a reference."""

import json
from pathlib import Path
from typing import Any

import pytest

from translate.config.data import TableCorpus
from translate.data.corpora import read_corpus
from translate.decoding import ConditionCounts, Translation
from translate.decoding.synthetic import PairFormat

ODD = ["a\tb", 'say "no", \\n', "  two  spaces ", "\u2028\u0085\x0b", "line\nbreak\r", "é 数 🎉", "[", ""]


def translated(source: str, *texts: str, **conditions: Any) -> Translation:
    """A translation with the n-best list behind it."""
    best, *others = (Translation(source, text, [9], 0.0, 0.0, False, False, source_ids=[9]) for text in texts)
    return best._replace(alternatives=tuple(others), **conditions)


def pairs_of(pairs: PairFormat, *translations: Translation, first: int = 0) -> list[dict[str, Any]]:
    return [json.loads(line) for line in pairs.lines(translations, ConditionCounts(), first)]


@pytest.mark.parametrize("is_reversed", [False, True])
def test_any_text_is_read_back(tmp_path: Path, is_reversed: bool) -> None:
    translations = [translated(line, f"<{line}>") for line in ODD]
    counts = ConditionCounts()
    lines = PairFormat(is_reversed).lines(translations, counts, 0)
    (tmp_path / "c.jsonl").write_bytes("".join(f"{line}\n" for line in lines).encode())
    corpus = TableCorpus(kind="json", path=tmp_path / "c.jsonl", source_column="source", target_column="target")
    read = read_corpus(corpus, key="data.train.0")
    sides = (read.targets, read.sources) if is_reversed else (read.sources, read.targets)
    assert sides == (ODD, [f"<{line}>" for line in ODD]) and counts["lines"] == len(ODD)


def test_each_of_the_n_best_is_a_pair_and_what_is_wrong_is_flagged() -> None:
    good, empty, cut = translated("x", "a", "b"), translated("y", ""), translated("z", "c", truncated=True)
    assert pairs_of(PairFormat(is_reversed=True), good, empty, cut) == [
        {"source": "a", "target": "x"},
        {"source": "b", "target": "x"},
        {"source": "", "target": "y", "flags": ["empty"]},
        {"source": "c", "target": "z", "flags": ["truncated"]},
    ]


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_the_nearest_to_its_own_reference_is_taken(metric: Any) -> None:
    references = ["not asked for", "the small dog runs home", "a red house", "none of them"]
    pairs = PairFormat(is_reversed=False, nearest=metric, references=references)
    found = pairs_of(
        pairs,
        translated("1", "a cat sleeps", "the dog runs home", "the small dog runs home"),
        translated("2", "a red house", "the small dog runs home"),
        translated("3", "xyz", "qqq"),  # equally far: the model's first choice
        first=1,
    )
    assert [pair["target"] for pair in found] == ["the small dog runs home", "a red house", "xyz"]


def test_conditions_are_counted_of_what_is_kept() -> None:
    counts = ConditionCounts()
    cut = translated("x", "b", "a")._replace(truncated=True)
    pairs = PairFormat(is_reversed=False, nearest="chrf", references=["a"])
    assert list(pairs.lines([cut], counts, 0)) == ['{"source": "x", "target": "a"}']
    assert (counts["lines"], counts["truncated"]) == (1, 0)
