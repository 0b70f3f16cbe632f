"""The tables of a comparison of systems."""

from translate.evaluation.compare import Bucket, Change, ComparedScore, Comparison
from translate.visualize.comparison import comparison_picture
from translate.visualize.panels import Table


def test_tables() -> None:
    scores = (ComparedScore(30.123), ComparedScore(31.0, 0.04, 0.5), ComparedScore(29.0, 0.2, 0.25))
    changes = (Change("b", 12, 40.26, "Hund", "dog", "cat", "dog"),)
    buckets = (Bucket("1–5", 1234, (1.0, 2.0, 3.0)),)
    comparison = Comparison(("a", "b", "c"), 1234, {"BLEU": scores}, {"BLEU": "nrefs:1"}, buckets, buckets, changes)
    picture = comparison_picture(comparison, test_set="news.de")
    assert picture.title == "a, b, c on news.de" and picture.paragraphs == ["1,234 lines."]
    tables = [panel for panel in picture.panels if isinstance(panel, Table)]
    assert len(tables) == len(picture.panels) == 5
    significance, signatures, lengths, words, changed = tables
    tests = ["b: p bootstrap", "b: p randomisation", "c: p bootstrap", "c: p randomisation"]
    assert significance.header == ["", "a", "b", "c", *tests]
    assert significance.rows == [["BLEU", "30.12", "31.00", "29.00", "0.0400", "0.5000", "0.2000", "0.2500"]]
    assert "a difference from a " in significance.note
    assert signatures.rows == [("BLEU", "nrefs:1")]
    assert lengths.rows == words.rows == [["1–5", "1,234", "1.0", "2.0", "3.0"]]
    assert changed.title == "Sentences in which b differs most from a"
    assert changed.header == ["Line", "chrF", "Source", "Reference", "a", "b"]
    assert changed.rows == [["12", "+40.3", "Hund", "dog", "cat", "dog"]]
    two = comparison._replace(systems=("a", "b"), metrics={"BLEU": scores[:2]})
    assert comparison_picture(two, test_set="x").panels[0].header[3:] == ["p bootstrap", "p randomisation"]  # type: ignore[union-attr]
