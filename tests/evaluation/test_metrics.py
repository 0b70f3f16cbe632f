"""Scores: by hand, and against sacreBLEU's own command line on the same files."""

import json
import math
import random
import subprocess
import sys
from pathlib import Path

import pytest
import sacrebleu

from translate.config.schema import EvaluationConfig
from translate.errors import InputError
from translate.evaluation.evaluate import spread_samples
from translate.evaluation.metrics import CONVENTIONS, MOST_TER_WORDS, Metric, score_conventions, score_translations

REFERENCES = [
    "The dog runs through the snow.",
    "Two men are at the stove preparing food.",
    "A little girl is climbing into a wooden playhouse.",
    "A man in a blue shirt is standing on a ladder, cleaning a window.",
    "Several men in hard hats are operating a giant pulley system.",
]


def by_name(hypotheses: list[str], references: list[str], **settings: object) -> dict[str, Metric]:
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


def test_equal_texts() -> None:
    scores = {name: metric.score for name, metric in by_name(REFERENCES, REFERENCES).items()}
    assert scores == pytest.approx({"BLEU": 100.0, "BLEU-lc": 100.0, "chrF": 100.0, "TER": 0.0})


def test_case_counts_but_in_lowercased_bleu() -> None:
    metrics = by_name([line.upper() for line in REFERENCES], REFERENCES)
    assert metrics["BLEU"].score < 5.0
    assert metrics["BLEU-lc"].score == pytest.approx(100.0)


def test_conventions_differ_in_tokenizer_and_case() -> None:
    """Split at spaces, one of four words is another for its full stop, and one for its capital.

    Of n-grams of length 1 to 4 the lowercased text has 4 of 5, 3 of 4, 2 of 3 and 1 of 2: the product is 1/5.
    """
    hypotheses, references = ["the dog runs Far away"], ["the dog runs far away."]
    metrics = {each.name: each for each in score_conventions(hypotheses, references, EvaluationConfig())}
    assert list(metrics) == ["BLEU intl", "BLEU-lc intl", "BLEU none", "BLEU-lc none", "chrF++"]
    assert metrics["BLEU-lc none"].score == pytest.approx(100 * 0.2**0.25)
    # Tokenised, the reference has six words: a brevity penalty of exp(1 - 6/5), and all n-grams match.
    assert metrics["BLEU-lc intl"].score == pytest.approx(100 * math.exp(-0.2))
    assert "|case:lc|eff:no|tok:intl|" in metrics["BLEU-lc intl"].signature
    assert "|case:mixed|eff:no|tok:none|" in metrics["BLEU none"].signature
    assert metrics["BLEU none"].score < metrics["BLEU-lc none"].score
    assert "|nc:6|nw:2|" in metrics["chrF++"].signature
    assert metrics["chrF++"].score == pytest.approx(sacrebleu.corpus_chrf(hypotheses, [references], word_order=2).score)
    chinese = score_conventions(hypotheses, references, EvaluationConfig(bleu_tokenizer="zh"))
    assert [each.name for each in chinese][:2] == ["BLEU 13a", "BLEU-lc 13a"]
    assert set(CONVENTIONS) >= {"13a", "intl", "none"}


def test_bleu_chrf_and_ter_by_hand() -> None:
    metrics = by_name(["a b c d e f"], ["a b c d x f g h"])
    # BLEU. Of the n-grams of the hypothesis the reference has, for n = 1: a b c d f, 5 of 6; 2: ab bc cd, 3 of 5;
    # 3: abc bcd, 2 of 4; 4: abcd, 1 of 3. Product 5/6 · 3/5 · 1/2 · 1/3 = 1/12, fourth root 0.5372850.
    # It is 6 words long and the reference 8: brevity penalty exp(1 - 8/6) = 0.7165313. BLEU 0.3849816.
    assert metrics["BLEU"].score == pytest.approx(38.49816, abs=1e-4)
    assert metrics["BLEU-lc"].score == pytest.approx(38.49816, abs=1e-4)
    # chrF2, on abcdef and abcdxfgh. Matches of 1 to 6 characters: 5 3 2 1 0 0, of 6 5 4 3 2 1 in the hypothesis and
    # 8 7 6 5 4 3 in the reference. Mean precision (5/6 + 3/5 + 2/4 + 1/3) / 6 = 0.3777778, mean recall
    # (5/8 + 3/7 + 2/6 + 1/5) / 6 = 0.2644841; F = 5 P R / (4 P + R) = 0.2813598.
    assert metrics["chrF"].score == pytest.approx(28.13598, abs=1e-4)
    # TER: e becomes x, and g and h are put in: 3 edits for 8 words.
    assert metrics["TER"].score == pytest.approx(37.5)


def test_bleu_is_of_the_corpus_and_not_a_mean_of_sentences() -> None:
    # a b c d | e f g h against a b c d | e f x h: 7/8, 4/6 (ab bc cd, ef), 2/4 (abc bcd), 1/2 (abcd): product 7/48.
    assert by_name(["a b c d", "e f g h"], ["a b c d", "e f x h"])["BLEU"].score == pytest.approx(
        100 * (7 / 48) ** 0.25
    )


def test_signatures_say_what_was_computed() -> None:
    signatures = {name: metric.signature for name, metric in by_name(damaged(REFERENCES), REFERENCES).items()}
    for name, parts in {
        "BLEU": ["case:mixed", "tok:13a", "smooth:exp", "nrefs:1"],
        "BLEU-lc": ["case:lc", "tok:13a", "smooth:exp", "nrefs:1"],
        "chrF": ["case:mixed", "nc:6", "nw:0", "space:no", "nrefs:1"],
        "TER": ["case:lc", "tok:tercom", "nrefs:1"],
    }.items():
        assert {*parts, f"version:{sacrebleu.__version__}"} <= set(signatures[name].split("|")), name
    assert "tok:char" in by_name(REFERENCES, REFERENCES, bleu_tokenizer="char")["BLEU"].signature
    with_interval = by_name(damaged(REFERENCES), REFERENCES, bootstrap_samples=50)
    assert "bs:50" in with_interval["BLEU"].signature and "seed:12345" in with_interval["BLEU"].signature


def test_equals_the_command_line_of_sacrebleu(tmp_path: Path) -> None:
    references = REFERENCES * 7
    hypotheses = damaged(references)
    for name, lines in [("hypotheses", hypotheses), ("references", references)]:
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    command = [sys.executable, "-m", "sacrebleu", "references", "-i", "hypotheses", "-f", "json", "-w", "6"]
    command += ["--confidence", "--confidence-n", "60", "-m"]
    ours = by_name(hypotheses, references, bootstrap_samples=60)
    names = {"BLEU": ["bleu"], "chrF": ["chrf"], "TER": ["ter"]}
    result = subprocess.run([*command, "bleu", "chrf", "ter"], cwd=tmp_path, capture_output=True, text=True, check=True)
    theirs = dict(zip(names, json.loads(result.stdout), strict=True))
    result = subprocess.run([*command, "bleu", "-lc"], cwd=tmp_path, capture_output=True, text=True, check=True)
    theirs["BLEU-lc"] = json.loads(result.stdout)
    assert theirs.keys() == ours.keys()
    for name, metric in ours.items():
        assert 5.0 < metric.score < 95.0
        assert metric.score == pytest.approx(theirs[name]["score"], abs=1e-6), name
        assert metric.signature == theirs[name]["signature"]
        assert metric.interval is not None
        mean, half = theirs[name]["confidence_mean"], theirs[name]["confidence_var"]
        assert metric.interval == pytest.approx((mean - half, mean + half), abs=1e-5), name


def test_intervals_hold_the_score_and_come_again() -> None:
    references = REFERENCES * 7
    hypotheses = damaged(references)
    first = by_name(hypotheses, references, bootstrap_samples=200)
    for metric in first.values():
        assert metric.interval is not None
        assert metric.interval.low < metric.score < metric.interval.high
    assert by_name(hypotheses, references, bootstrap_samples=200) == first
    narrow = by_name(hypotheses * 9, references * 9, bootstrap_samples=200)["BLEU"].interval
    wide = first["BLEU"].interval
    assert narrow is not None and wide is not None
    assert (narrow.high - narrow.low) < 0.6 * (wide.high - wide.low)  # about a third, with nine times the lines


def test_intervals_of_hopeless_translations() -> None:
    """sacreBLEU 2.6 computes the resamples partly in float, partly in float32, and fails by itself."""
    hypotheses = ["x y", "", "q", "z z z", "a b"]
    references = ["A dog runs.", "", "The street is green.", "Two dogs sleep.", "A dog sleeps in the grass."]
    for metric in by_name(hypotheses, references, bootstrap_samples=10).values():
        assert metric.interval is not None
        assert {type(metric.score), *map(type, metric.interval)} == {float}  # which JSON can hold


def test_no_interval_unless_wanted() -> None:
    for samples in (0, 1):
        metrics = by_name(damaged(REFERENCES), REFERENCES, bootstrap_samples=samples)
        assert all(metric.interval is None for metric in metrics.values())
    metrics = score_translations(REFERENCES, REFERENCES, EvaluationConfig(), effort="quick")
    assert all(metric.interval is None and "bs:" not in metric.signature for metric in metrics)


@pytest.mark.parametrize("num_hypotheses, num_references", [(2, 3), (5, 0), (0, 1)])
def test_unequal_numbers(num_hypotheses: int, num_references: int) -> None:
    message = f"^{num_hypotheses} translations but {num_references} references: they must pair line by line$"
    with pytest.raises(InputError, match=message):
        by_name(["x"] * num_hypotheses, ["x"] * num_references)


def test_no_lines() -> None:
    with pytest.raises(InputError, match="^there are no lines to score$"):
        by_name([], [])


def test_empty_translations_and_references_have_a_score() -> None:
    metrics = by_name(["", "the dog"], ["the cat", ""])
    assert all(metric.score >= 0.0 for metric in metrics.values())
    assert by_name([""], ["the dog"])["BLEU"].score == 0.0
    assert by_name([""], ["the dog"])["TER"].score == 100.0


def test_ter_is_left_out_where_it_would_take_minutes(caplog: pytest.LogCaptureFixture) -> None:
    """A line of 3,000 words takes over 100 seconds."""
    fitting = by_name(["a", "b " * MOST_TER_WORDS], ["a", "c"])
    assert list(fitting) == ["BLEU", "BLEU-lc", "chrF", "TER"] and not caplog.records
    scores = by_name(["a", "b"], ["a", "c " * 3000])
    assert list(scores) == ["BLEU", "BLEU-lc", "chrF"]
    (message,) = caplog.messages
    assert "TER" in message and "line 2 has 3000 words" in message


def test_spread_samples_by_hand() -> None:
    assert list(spread_samples(10, 3)) == [0, 3, 6]
    assert list(spread_samples(3, 10)) == [0, 1, 2]
    assert list(spread_samples(7, 0)) == list(spread_samples(0, 7)) == []
