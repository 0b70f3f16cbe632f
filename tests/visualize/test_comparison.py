"""The tables of a comparison of systems."""

from translate.evaluation.compare import Bucket, Change, ComparedScore, Comparison
from translate.visualize.comparison import comparison_picture
from translate.visualize.panels import Table


def test_tables() -> None:
    scores = (
        ComparedScore(30.123, 1.5),
        ComparedScore(31.0, 1.25, 0.877, 0.04, 0.5),
        ComparedScore(29.0, 1.0, -1.123, 0.2, 0.25),
    )
    texts = ("Hund", "A big dog, here", "A cat here", "The big dog here.")
    other_script = ("girl", "लड़की 猫が ok", "लड़का 猫は ok", "लड़की 犬が")
    changes = (Change("b", 12, 40.26, *texts), Change("b", 7, -3.0, *other_script))
    buckets = (Bucket("1–5", 1234, (1.0, 2.0, 3.0)),)
    comparison = Comparison(("a", "b", "c"), 1234, {"BLEU": scores}, {"BLEU": "nrefs:1"}, buckets, changes)
    picture = comparison_picture(comparison, test_set="news.de")
    assert picture.title == "a, b, c on news.de" and picture.paragraphs == ["1,234 lines."]
    tables = [panel for panel in picture.panels if isinstance(panel, Table)]
    assert len(tables) == len(picture.panels) == 4
    significance, signatures, lengths, changed = tables
    assert significance.rows == [
        ["BLEU", "a", "30.12 ± 1.50", "", "", ""],
        ["BLEU", "b", "31.00 ± 1.25", "+0.88", "0.0400", "0.5000"],
        ["BLEU", "c", "29.00 ± 1.00", "-1.12", "0.2000", "0.2500"],
    ]
    assert len(significance.header) == 6 and "the difference from a" in significance.note
    assert signatures.rows == [("BLEU", "nrefs:1")]
    assert lengths.rows == [["1–5", "1,234", "1.0", "2.0", "3.0"]]
    assert changed.title == "Sentences in which b differs most from a"
    assert changed.header == ["Line", "chrF", "Source", "Reference", "a", "b"]
    # By hand. Every second part is marked: words that the reference does not have, or that one system alone has.
    reference = ("", "A", " ", "big", " ", "dog", ", here")
    other_reference = ("", "लड़की", " ", "猫", "", "が", " ", "ok", "")
    assert changed.rows == [
        ["12", "+40.3", "Hund", reference, ("A ", "cat", " here"), ("", "The", " big dog here", ".", "")],
        ["7", "-3.0", "girl", other_reference, ("", "लड़का", " 猫", "は", " ok"), ("लड़की ", "犬", "が")],
    ]
