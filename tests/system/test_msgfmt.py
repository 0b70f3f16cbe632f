"""Catalogs that are filled with any translations pass `msgfmt -c`, and what its MO files leave out is counted."""

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from translate.config.data import Direction, TableCorpus
from translate.data.tables import read_table
from translate.decoding import Translation
from translate.documents.document import translate_documents

pytestmark = pytest.mark.skipif(shutil.which("msgfmt") is None, reason="gettext is not installed")

PLURALS = {  # from the manual of gettext, section "Plural forms", and CLDR
    "de": "nplurals=2; plural=n != 1;",
    "ja": "nplurals=1; plural=0;",
    "ru": "nplurals=3; plural=n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2;",
    "sl": "nplurals=4; plural=n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3;",
    "ga": "nplurals=5; plural=n==1 ? 0 : n==2 ? 1 : n<7 ? 2 : n<11 ? 3 : 4;",
    "ar": "nplurals=6; plural=n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5;",
}
LINES = "Project-Id-Version: a", "PO-Revision-Date: 2026-01-01 00:00+0000", "Last-Translator: a", "Language-Team: a"
MORE = "MIME-Version: 1.0", "Content-Type: text/plain; charset=UTF-8", "Content-Transfer-Encoding: 8bit"
TEXTS = {
    "c": ["%s of %d", "%'d files\\n", "\\n%-5.2f %% of %s:", "100% of %s", "%2$s and %1$d", "%ld_%lu", "%*d",
          "%*d of %s", "%gs", "%<PRIuMAX> of %6<PRIu32>", "%p %m %C %ls %S of %d", "%gs of %us", "%p then %s and %c",
          "\\033[1m%s\\a"],
    "objc": ["%@ of %d", "100% of %d and 50% off %s"],
    "php": ["%s of %d", "%'*10s of %d"],
    "perl": ["%s of %d", "%vd of %s"],
    "perl-brace": ["{name} of {count}"],
    "python": ["%(a)s of %(b)d", "%s and %s", "%d%%"],
    "python-brace": ["{0} of {1}", "{name:>5} and {{}}", "{n:{w}}"],
    "qt": ["%1 of %2", "%L1"],
    "qt-plural": ["%n files"],
    "kde": ["<b>%1</b> of %2", "&Open %1…"],
    "javascript": ["%o %j of %s"],
    "ruby": ["%<a>s of %{b}"],
    "sh": ["$name of ${count}"],
    "awk": ["%s of %d"],
    "lua": ["%q of %5.2f"],
    "java": ["{0} of {1,number,#.##}", "{0} didn''t"],
    "java-printf": ["%1$tY %2$s", "%S %h %s"],
    "csharp": ["{0:D} of {1,5}"],
    "object-pascal": ["%0:s of %1:d", "%s of %d"],
    "boost": ["%1% of %2%", "%|1$+5| of %2%"],
    "elisp": ["%S and %c of %s"],
    "lisp": ["~a of ~d", "~{~a~}"],
    "scheme": ["~a of ~d"],
    "smalltalk": ["%1 of %2"],
    "tcl": ["%s of %d"],
    "ycp": ["%1 of %2"],
    "gcc-internal": ["%qD and %<a%> of %s"],
    "gfc-internal": ["%L and %C of %s"],
    "": ["_Open", "E&xit:", "Save _As…", "Name:\\n  - one\\n  - two\\n", 'a \\"b\\" \\\\ \\t c', "Words " * 40,
         "<a href='x'>A link</a>"],
}  # fmt: skip
GARBAGE: dict[str, Callable[[str], str]] = {
    "same": str,
    "reversed": lambda text: " ".join(reversed(text.split())),
    "swapped": lambda text: text.replace("11", "x").replace("12", "11").replace("x", "12"),
    "capitals": str.upper,
    "suffixes": lambda text: re.sub(r"(?=\s|$)", "'n", text),
    "lost": lambda text: re.sub(r"\d+", "", text),
    "empty": lambda text: "",
    "long": lambda text: f"{text} " * 9,
    "signs": lambda text: f'%s % {{a}} {{ }} _x &y ~ $z \\ "{text} %1',
    "lines": lambda text: f"\n{text}\n\x00",
    "Japanese": lambda text: f"ファイル{text}を開く",
}


def catalog(language: str) -> str:
    names = *LINES, f"Language: {language}", *MORE, f"Plural-Forms: {PLURALS[language]}"
    parts = ['msgid ""\nmsgstr ""\n' + "".join(f'"{name}\\n"\n' for name in names)]
    for flag, texts in TEXTS.items():
        for number, text in enumerate(texts):
            start = f'#, {flag}-format\nmsgctxt "{flag} {number}"\n' if flag else f'msgctxt "{flag} {number}"\n'
            parts.append(f'{start}msgid "{text}"\nmsgstr ""\n')
            plural = f'msgid "p{text}"\nmsgid_plural "p{text}"\nmsgstr[0] ""\nmsgstr[1] ""\n'
            parts += [f"{start}{plural}"] * (not text.startswith("\\n"))
    start = '#, c-format\nmsgid "One file"\nmsgid_plural "%d files"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    return "\n".join([*parts, start])


@pytest.mark.parametrize("language", PLURALS)
@pytest.mark.parametrize("garbage", GARBAGE)
def test_msgfmt_accepts_every_catalog(tmp_path: Path, garbage: str, language: str) -> None:
    def translate(texts: Sequence[str]) -> list[Translation]:
        return [Translation(text, GARBAGE[garbage](text), [], 0.0, 0.0, False, False) for text in texts]

    text = catalog(language)
    (filled,) = translate_documents([text], "po", translate, None, Direction("en", language))
    path = tmp_path / "a.po"
    path.write_text(filled.text, encoding="utf-8")
    command = ["msgfmt", "-c", "--check-format", "--use-fuzzy", "-o", "/dev/null", "a.po"]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert filled.entries["filled"] >= (garbage != "empty")
    assert filled.entries["filled"] + filled.entries["untranslated"] == text.count("msgid ") - 1
    assert filled.entries["untranslated"] == len(filled.problems)
    assert garbage != "same" or not filled.problems


def test_entries_that_an_mo_file_has_for_some_machines_only_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    entry = '\n#, c-format\nmsgid "%<PRIu64> bytes"\nmsgstr "%<PRIu64> Byte"\n\nmsgid "Open"\nmsgstr "Auf"\n'
    (tmp_path / "a.po").write_text(catalog("de").split("\n\n")[0] + "\n" + entry, encoding="utf-8")
    for endianness in ("little", "big"):
        path = tmp_path / f"{endianness}.mo"
        subprocess.run(["msgfmt", f"--endianness={endianness}", "-o", path, "a.po"], cwd=tmp_path, check=True)
        corpus = TableCorpus(kind="po", path=path, source_column="en", target_column="de")
        assert [*read_table(corpus)] == [(["Open"], ["Auf"])]
        assert f"{path}: left out: entries with <PRI…> (1)" in caplog.messages
