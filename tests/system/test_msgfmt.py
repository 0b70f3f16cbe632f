"""Catalogs that are filled with any translations pass `msgfmt -c`."""

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from translate.config.data import Direction
from translate.decoding import Translation
from translate.documents.document import translate_documents

pytestmark = pytest.mark.skipif(shutil.which("msgfmt") is None, reason="gettext is not installed")

PLURALS = {
    "de": "nplurals=2; plural=n != 1;",
    "ja": "nplurals=1; plural=0;",
    "ru": "nplurals=3; plural=n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2;",
}
LINES = "Project-Id-Version: a", "PO-Revision-Date: 2026-01-01 00:00+0000", "Last-Translator: a", "Language-Team: a"
MORE = "MIME-Version: 1.0", "Content-Type: text/plain; charset=UTF-8", "Content-Transfer-Encoding: 8bit"
TEXTS = {
    "c-format": ["%s of %d", "%'d files\\n", "\\n%-5.2f %% of %s:", "100% of %s", "%2$s and %1$d", "%ld_%lu", "%*d"],
    "python-format": ["%(a)s of %(b)d", "%s and %s", "%d%%"],
    "python-brace-format": ["{0} of {1}", "{name:>5} and {{}}"],
    "qt-format": ["%1 of %2", "%L1"],
    "kde-format": ["<b>%1</b> of %2", "&Open %1…"],
    "": ["_Open", "E&xit:", "Save _As…", "Name:\\n  - one\\n  - two\\n", 'a \\"b\\" \\\\ \\t c', "Words " * 40,
         "<a href='x'>A link</a>"],
}  # fmt: skip
GARBAGE: dict[str, Callable[[str], str]] = {
    "same": str,
    "reversed": lambda text: " ".join(reversed(text.split())),
    "swapped": lambda text: text.replace("11", "x").replace("12", "11").replace("x", "12"),
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
            start = f'#, {flag}\nmsgctxt "{number}"\n' if flag else f'msgctxt "{number}"\n'
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
