"""Scores: by hand, and against sacreBLEU's own command line on the same files."""

import json
import math
import random
import re
import subprocess
import sys
from pathlib import Path
from urllib.error import URLError

import pytest

from translate.config.schema import EvaluationConfig, TokenizerConfig
from translate.data.tokenizer import train_tokenizer
from translate.errors import InputError
from translate.evaluation.evaluate import spread_samples
from translate.evaluation.metrics import (
    MOST_TER_WORDS,
    SCORES,
    References,
    read_recorded_scores,
    score_placeholders,
    score_translations,
)
from translate.evaluation.scorer import Scorer
from translate.runs.report import Metric

REFERENCES = [
    "The dog runs through the snow.",
    "Two men are at the stove preparing food.",
    "A little girl is climbing into a wooden playhouse.",
    "A man in a blue shirt is standing on a ladder, cleaning a window.",
    "Several men in hard hats are operating a giant pulley system.",
]

SIGNATURES = {  # with BLEU's tokenizer 13a
    "placeholders": "nrefs:1|version:1.2.3",  # in reports it has the number of lines instead
    "BLEU": "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:1.2.3",
    "BLEU-lc": "nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|version:1.2.3",
    "chrF": "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:1.2.3",
    "TER": "nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:1.2.3",
}


def by_name(hypotheses: list[str], references: References, **settings: object) -> dict[str, Metric]:
    config = EvaluationConfig.model_validate({"bootstrap_samples": 0, **settings})
    return {metric.name: metric for metric in score_translations(hypotheses, references, config)}


def damaged(lines: list[str], seed: int = 5) -> list[str]:
    """Words dropped, swapped and in capitals, so that every score is somewhere in the middle."""
    generator = random.Random(seed)
    result = []
    for line in lines:
        words = [word for word in line.split() if generator.random() > 0.12]
        place = generator.randrange(len(words) - 1)
        words[place : place + 2] = [words[place + 1].upper(), words[place]]
        result.append(" ".join(words))
    return result


def test_references_may_be_any_iterable() -> None:
    expected = by_name(damaged(REFERENCES), REFERENCES)
    for references in (dict(enumerate(REFERENCES)).values(), iter(REFERENCES), iter([iter(REFERENCES)])):
        assert by_name(damaged(REFERENCES), references) == expected
    with pytest.raises(InputError, match="5 translations but 2 references: .* a list of all lines"):
        by_name(REFERENCES, [[line, line] for line in REFERENCES])


def test_tokenizers_differ() -> None:
    """Split at spaces, one of four words is another for its full stop, and one for its capital.

    Of n-grams of length 1 to 4 the lowercased text has 4 of 5, 3 of 4, 2 of 3 and 1 of 2: the product is 1/5.
    """
    hypotheses, references = ["the dog runs Far away"], ["the dog runs far away."]
    none, intl = (by_name(hypotheses, references, bleu_tokenizer=name) for name in ("none", "intl"))
    assert none["BLEU-lc"].score == pytest.approx(100 * 0.2**0.25)
    # Tokenised, the reference has six words: a brevity penalty of exp(1 - 6/5), and all n-grams match.
    assert intl["BLEU-lc"].score == pytest.approx(100 * math.exp(-0.2))
    assert "|case:lc|eff:no|tok:intl|" in intl["BLEU-lc"].signature
    assert "|case:mixed|eff:no|tok:none|" in none["BLEU"].signature
    assert none["BLEU"].score < none["BLEU-lc"].score


def test_what_adding_a_score_needs() -> None:
    """Its signature here, a name that each tracker accepts, and a line in the docs."""
    recorded = read_recorded_scores({score.name: 1.0 for score in SCORES}, "13a", version="1.2.3")
    assert {metric.name: metric.signature for metric in recorded} == SIGNATURES
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
    for score in SCORES:
        assert re.fullmatch(r"[\w .:/-]+", score.name), "MLflow refuses other characters"
        assert f"`{score.name}`" in page


@pytest.mark.parametrize("num_references", [1, 2])
def test_equals_the_command_line_of_sacrebleu(tmp_path: Path, num_references: int) -> None:
    first = REFERENCES * 7
    hypotheses, references = damaged(first), [first, damaged(first, seed=7)][:num_references]
    names = ["references", "others"][:num_references]
    for name, lines in zip(["hypotheses", *names], [hypotheses, *references], strict=True):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    command = [sys.executable, "-m", "sacrebleu", *names, "-i", "hypotheses", "-f", "json", "-w", "6"]
    command += ["--confidence", "--confidence-n", "60", "-m"]
    ours = by_name(hypotheses, references if num_references > 1 else first, bootstrap_samples=60)
    result = subprocess.run([*command, "bleu", "chrf", "ter"], cwd=tmp_path, capture_output=True, text=True, check=True)
    theirs = dict(zip(("BLEU", "chrF", "TER"), json.loads(result.stdout), strict=True))
    result = subprocess.run([*command, "bleu", "-lc"], cwd=tmp_path, capture_output=True, text=True, check=True)
    theirs["BLEU-lc"] = json.loads(result.stdout)
    assert theirs.keys() == ours.keys()
    for name, metric in ours.items():
        assert 5.0 < metric.score < 95.0
        assert metric.score == pytest.approx(theirs[name]["score"], abs=1e-6), name
        assert metric.signature == theirs[name]["signature"] and f"nrefs:{num_references}|" in metric.signature
        assert metric.interval is not None
        mean, half = theirs[name]["confidence_mean"], theirs[name]["confidence_var"]
        assert metric.interval == pytest.approx((mean - half, mean + half), abs=1e-5), name


def test_intervals_of_hopeless_translations() -> None:
    """sacreBLEU 2.6 computes the resamples partly in float, partly in float32, and fails by itself."""
    hypotheses = ["x y", "", "q", "z z z", "a b"]
    references = ["A dog runs.", "", "The street is green.", "Two dogs sleep.", "A dog sleeps in the grass."]
    for metric in by_name(hypotheses, references, bootstrap_samples=10).values():
        assert metric.interval is not None
        assert {type(metric.score), *map(type, metric.interval)} == {float}  # which JSON can hold
        assert metric.interval.low >= 0.0


def test_no_interval_unless_wanted() -> None:
    assert all(metric.interval is None for metric in by_name(["x"], ["y"], bootstrap_samples=1).values())
    metrics = score_translations(REFERENCES, REFERENCES, EvaluationConfig(), effort="quick")
    assert all(metric.interval is None and "bs:" not in metric.signature for metric in metrics)


def test_lines_that_cannot_be_scored() -> None:
    five, refused = ["x"] * 5, "5 translations .* 1 references"
    for hypotheses, references, named in ((five, ["x"], refused), (five, [five, ["x"]], refused), ([], [], "no lines")):
        with pytest.raises(InputError, match=named):
            by_name(hypotheses, references)


def test_empty_translations_and_references_have_a_score() -> None:
    metrics = by_name(["", "the dog"], ["the cat", ""])
    assert all(metric.score >= 0.0 for metric in metrics.values())
    assert by_name([""], ["the dog"])["BLEU"].score == 0.0
    assert by_name([""], ["the dog"])["TER"].score == 100.0


def test_ter_is_left_out_where_it_would_take_minutes(caplog: pytest.LogCaptureFixture) -> None:
    """A line of 3,000 words takes over 100 seconds."""
    fitting = by_name(["a", "b " * MOST_TER_WORDS], ["a", "c"])
    assert "TER" in fitting and not caplog.records
    scores = by_name(["a", "b"], ["a", "c " * 3000])
    assert scores.keys() == fitting.keys() - {"TER"}
    (message,) = caplog.messages
    assert "TER" in message and "line 2 has 3000 words" in message


def test_spread_samples_by_hand() -> None:
    assert list(spread_samples(10, 3)) == [0, 3, 6]
    assert list(spread_samples(3, 10)) == [0, 1, 2]
    assert list(spread_samples(7, 0)) == list(spread_samples(0, 7)) == []


def test_spbleu_needs_the_model_of_sacrebleu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(url: str, path: str) -> None:
        raise URLError("no network")

    tokenizers = "sacrebleu.tokenizers.tokenizer_spm"
    monkeypatch.setattr(f"{tokenizers}.SACREBLEU_DIR", str(tmp_path))
    monkeypatch.setattr(f"{tokenizers}.download_file", refuse)
    with pytest.raises(InputError, match="^evaluation.bleu_tokenizer = flores101: .*sacrebleu/models .*no network"):
        by_name(REFERENCES, REFERENCES, bleu_tokenizer="flores101")
    (tmp_path / "models").mkdir()
    model = train_tokenizer(REFERENCES * 9, TokenizerConfig(vocab_size=300))
    (tmp_path / "models" / "sacrebleu_tokenizer_spm.model").write_bytes(model.model_bytes)
    assert "|tok:flores101|" in by_name(REFERENCES, REFERENCES, bleu_tokenizer="flores101")["BLEU"].signature


def test_the_share_of_lines_that_keep_their_placeholders() -> None:
    """Of three lines that have some; the fourth invents one, which does not count here."""
    sources = ["%s of %d", "<b>all</b>", "{n} files", "file", "100 %"]
    translations = ["%s von %d", "<b>alle", "{n} Dateien", "{n} Datei", "100 %"]
    (found,) = score_placeholders(sources, translations, EvaluationConfig(bootstrap_samples=200))
    assert found.name == "placeholders" and found.score == pytest.approx(200 / 3)
    assert found.interval is not None and 0.0 <= found.interval.low < found.score < found.interval.high
    assert found.signature.startswith("lines:3|")
    assert score_placeholders(sources[3:], translations[3:], EvaluationConfig()) == []
    scores = Scorer(EvaluationConfig(bootstrap_samples=0)).score(translations, translations, sources)["metrics"]
    assert [score["score"] for score in scores if score["name"] == "placeholders"] == [pytest.approx(200 / 3)]
    assert scores[-1] == found._asdict() | {"interval": None}
