"""Columns of a table as text."""

from translate.cli.terminal.tables import aligned_columns


def test_columns_of_numbers_end_in_line() -> None:
    rows = [["run", "BLEU", "rate", "note"], ["1", "7.25", "1e-05", ""], ["12", "41.00", "", "3 of 4"]]
    assert aligned_columns(rows) == [
        "  run   BLEU   rate  note",
        "  1     7.25  1e-05",
        "  12   41.00         3 of 4",
    ]
