"""`translate decode --document`: files and streams, options that are about lines, and what is reported."""

from pathlib import Path

import pytest
from harness import run_command as translate
from harness import succeed

from translate.cli.terminal import lines as lines_module
from translate.cli.terminal.lines import write_lines
from translate.data.text import read_document
from translate.errors import InputError

pytestmark = pytest.mark.usefixtures("no_shape_checks")

PAGE = "<h1>Ein <b>Hund</b></h1>\r\n<p>Ein Hund läuft. {name} auch.</p><script>x</script>"


def test_a_document(learnt: Path, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_bytes(PAGE.encode())
    result = succeed("decode", learnt, "--document", tmp_path / "a.html")
    assert result.stderr.startswith("2 segments, 3 sentences, 2 tags, 1 placeholder; 0 empty, ")
    text = result.stdout_bytes.decode()
    assert text.endswith("</p><script>x</script>") and "</h1>\r\n<p>" in text and "Hund" not in text
    assert [text.count(each) for each in ("<b>", "</b>", "{name}")] == [1, 1, 1]

    by_standard_input = translate("decode", learnt, "--document", "--document-format", "html", stdin=PAGE.encode())
    in_small_batches = translate("decode", learnt, "-", "--document-format", "html", "--batch-tokens", "1",
                                 "--look-ahead-lines", "1", stdin=PAGE.encode())  # fmt: skip
    assert by_standard_input.stdout_bytes == in_small_batches.stdout_bytes == result.stdout_bytes
    to_file = translate("decode", learnt, "--document", tmp_path / "a.html", "-o", tmp_path / "b.html")
    assert (to_file.exit_code, to_file.stdout) == (0, "")
    assert (tmp_path / "b.html").read_bytes() == result.stdout_bytes


def test_terminology_and_forbidden_words_hold_in_documents(learnt: Path, tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("Hund\tstreet\n")
    (tmp_path / "a.txt").write_text("Ein Hund läuft.\n\n")
    result = succeed("decode", learnt, "--document", tmp_path / "a.txt", "--terminology", tmp_path / "terms.tsv")
    assert "street" in result.stdout and result.stdout.endswith("\n\n")
    (tmp_path / "forbidden.txt").write_text("dog\n")
    document = ["decode", learnt, "--document", tmp_path / "a.txt"]
    texts = [succeed(*document, *more).stdout for more in ([], ["--forbid", tmp_path / "forbidden.txt"])]
    assert ["dog" in text.split() for text in texts] == [True, False]


def test_a_document_keeps_all_of_its_characters(tmp_path: Path) -> None:
    text = "\ufeffä\r\n\x85\u2028 b"
    write_lines([text], tmp_path / "a", end="")
    assert (tmp_path / "a").read_bytes() == text.encode() and read_document(tmp_path / "a") == text


def test_a_document_of_standard_streams(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(lines_module, "is_terminal", lambda stream: True)
    write_lines(["a\x1b[2J\nb"], None, end="")
    shown = capfdbinary.readouterr().out
    assert b"\x1b" not in shown and shown.startswith(b"a") and shown.endswith(b"\nb")
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="standard input is closed"):
        read_document(None)
