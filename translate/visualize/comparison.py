"""A comparison of systems as tables: in a page, and as text."""

from collections.abc import Iterator

from translate.evaluation.compare import Comparison
from translate.visualize.panels import Picture, Table

_SIGNIFICANCE = (
    "p is the probability of a difference from {first} this large between systems of equal quality, by paired bootstrap"
    " and by approximate randomisation. A difference with p below 0.05 is usually called significant."
)


def comparison_picture(comparison: Comparison, *, test_set: str) -> Picture:
    """All tables of a comparison."""
    title = f"{', '.join(comparison.systems)} on {test_set}"
    return Picture(title, [f"{comparison.num_lines:,} lines."], list(comparison_tables(comparison)))


def comparison_tables(comparison: Comparison) -> Iterator[Table]:
    """Scores with their significance, scores by length and word frequency, and the sentences that changed most."""
    first, *others = comparison.systems
    tests = ["p bootstrap", "p randomisation"]
    if len(others) > 1:
        tests = [f"{name}: {test}" for name in others for test in ("p bootstrap", "p randomisation")]
    rows = []
    for name, scores in comparison.metrics.items():
        chances = [p for score in scores[1:] for p in (score.bootstrap_p, score.randomization_p)]
        rows.append([name, *(f"{score.value:.2f}" for score in scores), *(f"{p:.4f}" for p in chances)])
    yield Table("Scores", ["", *comparison.systems, *tests], rows, _SIGNIFICANCE.format(first=first))
    yield Table("sacreBLEU signatures", ["", "Signature"], list(comparison.signatures.items()))
    for title, unit, buckets in (
        ("chrF by reference length (words)", "lines", comparison.lengths),
        ("Reference-word recall (%), by word frequency", "words", comparison.frequencies),
    ):
        rows = [[each.name, f"{each.size:,}", *(f"{value:.1f}" for value in each.values)] for each in buckets]
        yield Table(title, ["", unit, *comparison.systems], rows)
    for name in others:
        rows = [
            [f"{each.line:,}", f"{each.difference:+.1f}", each.source, each.reference, each.first, each.other]
            for each in comparison.changes
            if each.system == name
        ]
        if rows:
            header = ["Line", "chrF", "Source", "Reference", first, name]
            yield Table(f"Sentences in which {name} differs most from {first}", header, rows)
