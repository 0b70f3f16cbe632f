"""Comparing systems: significance as sacreBLEU has it, buckets counted by hand, and the sentences that changed."""

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from translate.config.schema import EvaluationConfig
from translate.evaluation.compare import compare

CONFIG = EvaluationConfig(bootstrap_samples=200)
REFERENCES = [
    "the dog runs",
    "a cat sleeps on the warm red mat",
    "the man eats",
    "the sun",
    "two birds sing a song",
] * 4
FIRST = ["the dog walks", "a cat sleeps on the mat", "the man eats", "a moon", "two birds sing"] * 4
BETTER = ["the dog runs", "a cat sleeps on the warm mat", "the man eats", "the sun", "two birds"] * 4
SOURCES = [f"source {number}" for number in range(20)]


def test_scores_and_their_significance_are_those_of_sacrebleu() -> None:
    found = compare({"first": FIRST, "better": BETTER, "same": FIRST}, SOURCES, REFERENCES, CONFIG)
    assert found.systems == ("first", "better", "same") and found.num_lines == 20
    for name, scorer in {"BLEU": BLEU(), "BLEU-lc": BLEU(lowercase=True), "chrF": CHRF(), "TER": TER()}.items():
        first, better, same = found.metrics[name]
        assert first.value == pytest.approx(scorer.corpus_score(FIRST, [REFERENCES]).score)
        assert better.value == pytest.approx(scorer.corpus_score(BETTER, [REFERENCES]).score)
        assert (first.bootstrap_p, first.randomization_p) == (None, None)
        assert same.value == first.value and same.randomization_p == same.bootstrap_p == 1.0
        assert better.bootstrap_p is not None and better.bootstrap_p < 0.05
    systems = [("first", FIRST), ("better", BETTER), ("same", FIRST)]
    chrf = found.metrics["chrF"]
    for kind, p_value in (("ar", chrf[1].randomization_p), ("bs", chrf[1].bootstrap_p)):
        signatures, scores = PairedTest(systems, {"": CHRF(references=[REFERENCES])}, None, kind, n_samples=200)()
        assert scores["chrF2"][1].p_value == p_value  # type: ignore[union-attr]
    assert [each.margin for each in chrf] == [each.ci for each in scores["chrF2"]]  # type: ignore[union-attr]
    assert [each.difference for each in chrf] == [None, chrf[1].value - chrf[0].value, 0.0]
    assert str(signatures["chrF2"]) == found.signatures["chrF"]
    assert "bs:200" in found.signatures["BLEU"] and "case:lc" in found.signatures["BLEU-lc"]


def test_placeholders_are_compared_where_sources_have_them() -> None:
    """Of 20 lines, 8 have some; the first system keeps those of 4, the other one those of all."""
    sources = ["%s: source", "source", "source", "<b>source</b>", "source"] * 4
    first, other = ([text.replace("source", "word") for text in sources] for _ in range(2))
    first[0::5] = ["word"] * 4
    found = compare({"first": first, "other": other}, sources, REFERENCES, CONFIG)
    of_first, of_other = found.metrics["placeholders"]
    assert (of_first.value, of_other.value, of_other.difference) == (50.0, 100.0, 50.0)
    assert of_other.bootstrap_p is not None and of_other.bootstrap_p < 0.05
    assert found.signatures["placeholders"].startswith("lines:8|")
    assert "placeholders" not in compare({"first": FIRST, "other": BETTER}, SOURCES, REFERENCES, CONFIG).metrics


@pytest.mark.parametrize("num_samples", [0, 1])
def test_without_samples_there_are_no_tests(num_samples: int) -> None:
    systems, config = {"first": FIRST, "better": BETTER}, EvaluationConfig(bootstrap_samples=num_samples)
    found = compare(systems, SOURCES, REFERENCES, config)
    values = [CHRF().corpus_score(texts, [REFERENCES]).score for texts in (FIRST, BETTER)]
    assert found.metrics["chrF"] == ((values[0], *[None] * 4), (values[1], None, values[1] - values[0], None, None))
    assert "bs:" not in found.signatures["chrF"] and "case:lc" in found.signatures["BLEU-lc"]


def test_buckets_are_of_the_references() -> None:
    found = compare({"first": FIRST, "better": BETTER}, SOURCES, REFERENCES, CONFIG)
    assert [(bucket.name, bucket.size) for bucket in found.lengths] == [("1–5", 16), ("6–10", 4)]
    long = CHRF().corpus_score([BETTER[1]] * 4, [[REFERENCES[1]] * 4]).score
    assert found.lengths[1].values[1] == pytest.approx(long)


def test_the_words_of_the_buckets_are_those_of_the_tokenizer() -> None:
    """Six words by sacreBLEU's zh, and one by 13a."""
    texts, config = ["狗在雪里跑。"], EvaluationConfig(bootstrap_samples=0, bleu_tokenizer="zh")
    found = compare({"first": texts, "other": ["狗在雪里。"]}, ["x"], texts, config)
    assert [bucket.name for bucket in found.lengths] == ["6–10"]


def test_the_sentences_that_changed_most() -> None:
    found = compare({"first": FIRST, "better": BETTER}, SOURCES, REFERENCES, CONFIG, num_changes=1)
    gain, loss = found.changes
    assert (gain.line, gain.source, gain.first, gain.other) == (4, "source 3", "a moon", "the sun")
    assert gain.difference == pytest.approx(100 - CHRF().sentence_score("a moon", ["the sun"]).score)
    assert loss.difference < 0 and (loss.system, loss.other) == ("better", "two birds")
    assert compare({"first": FIRST, "same": FIRST}, SOURCES, REFERENCES, CONFIG).changes == ()
    assert compare({"first": FIRST, "better": BETTER}, SOURCES, REFERENCES, CONFIG, num_changes=0).changes == ()
