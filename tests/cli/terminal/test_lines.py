"""Lines in and out: pairs, files that are both read and written, and outputs that are whole or not there."""

from pathlib import Path

import pytest

from translate.cli.terminal.lines import aligned_columns, check_outputs, open_line_output, write_lines
from translate.errors import InputError


def test_an_output_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.write_text("old\n")
    with pytest.raises(ValueError, match="stop"), open_line_output(output) as write:
        write("new")
        raise ValueError("stop")
    assert output.read_text() == "old\n" and list(tmp_path.iterdir()) == [output]
    write_lines(["ä", ""], output)
    assert output.read_bytes() == "ä\n\n".encode() and list(tmp_path.iterdir()) == [output]


def test_two_outputs_are_two_files(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("new")
    for beside in ("new", "link"):
        with pytest.raises(InputError, match=f"--pharaoh .*{beside}: --output "):
            check_outputs({"--output": tmp_path / "new", "--pharaoh": tmp_path / beside})
    check_outputs({"--output": Path("/dev/null"), "--alignments": Path("/dev/null")})  # which may be both


def test_columns_of_numbers_end_in_line() -> None:
    rows = [["run", "BLEU", "rate", "note"], ["1", "7.25", "1e-05", ""], ["12", "41.00", "", "3 of 4"]]
    assert aligned_columns(rows) == ["  run   BLEU   rate  note", "  1     7.25  1e-05", "  12   41.00         3 of 4"]
