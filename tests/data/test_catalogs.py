"""Catalogs as corpora: which text each translation belongs to, what is left out, and which languages they are in."""

import re
from pathlib import Path

import polib  # type: ignore[import-untyped]
import pytest

from translate.config.data import Direction, TableCorpus
from translate.data.bilingual.catalogs import read_catalog
from translate.data.tables import read_table, table_columns
from translate.documents.catalog import fill_catalog
from translate.errors import InputError

HEADER = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
FILES = 'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] "a %d"\nmsgstr[1] "b %d"\nmsgstr[2] "c %d"\n'
ONE = FILES.replace('%d file"', 'One file"').replace("a %d", "a")
RULES = {  # from the manual of gettext, section "Plural forms"
    "de": "nplurals=2; plural=n != 1;",
    "fr": "nplurals=2; plural=n>1;",
    "ja": "nplurals=1; plural=0;",
    "pl": "nplurals=3; plural=n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2;",
    "ru": "nplurals=3; plural=n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2;",
    "sl": "nplurals=4; plural=n%100==1 ? 1 : n%100==2 ? 2 : n%100==3 || n%100==4 ? 3 : 0;",
}


def pairs(path: Path, content: str | bytes, source: str = "en", target: str = "de") -> list[tuple[str, str]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    corpus = TableCorpus(kind="po", path=path, source_column=source, target_column=target)
    return [pair for chunk in read_table(corpus) for pair in zip(*chunk, strict=True)]


@pytest.mark.parametrize(
    ("language", "entry", "sources"),
    [
        ("de", FILES, ["%d file", "%d files"]),
        ("de", ONE, ["One file", "%d files"]),
        ("fr", ONE, ["One file", "%d files"]),  # of 0 and 1
        ("ja", FILES, ["%d files"]),
        ("pl", ONE, ["One file", "%d files", "%d files"]),
        ("ru", FILES, ["%d file", "%d files", "%d files"]),
        ("ru", ONE, ["%d files", "%d files", "%d files"]),  # the first form is that of 21 too
        ("sl", ONE + 'msgstr[3] "d %d"\n', ["%d files"] * 4),  # the form of 1 is that of 101 and 901
        ("sl", FILES + 'msgstr[3] "d %d"\n', ["%d files", "%d file", "%d files", "%d files"]),
        ("", FILES, ["%d file", "%d files"]),  # the rule of gettext if the header has none
    ],
)
def test_each_plural_form_is_a_pair(tmp_path: Path, language: str, entry: str, sources: list[str]) -> None:
    header = HEADER + (f'"Language: {language}\\n"\n"Plural-Forms: {RULES[language]}\\n"\n' if language else "")
    found = pairs(tmp_path / "a.po", f"{header}\n{entry}", target=language or "xx")
    targets = [part.split('"')[1] for part in entry.split("msgstr")[1:]]
    assert found == list(zip(sources, targets, strict=False))


def test_texts_are_those_that_polib_finds_and_what_is_left_out_is_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    text = (
        HEADER
        + r""""Language: de\n"

#. for the menu
#: a.c:1
msgctxt "verb"
msgid "Open"
msgstr "Öffnen"

msgctxt "adjective"
msgid "Open"
msgstr "Offen"

#, c-format
msgid ""
"Two\n"
"\tlines of \"%s\""
msgstr "Zwei\n\tZeilen von "
"„%s“"

#, fuzzy, c-format
#| msgid "Close"
msgid "Close %s"
msgstr "Schließen"

msgid "Not yet"
msgstr ""

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d Datei"
msgstr[1] ""

msgid "translator-credits"
msgstr "A Name <a@example.org>"

#~ msgid "Gone"
#~ msgstr "Weg"
# end
"""
    )
    expected = [("Open", "Öffnen"), ("Open", "Offen"), ('Two\n\tlines of "%s"', "Zwei\n\tZeilen von „%s“")]
    for content in (text, text.replace("\n", "\r\n"), "\ufeff" + text):
        assert pairs(tmp_path / "a.po", content) == expected
    assert pairs(tmp_path / "a.po", text, "de", "en") == [pair[::-1] for pair in expected]
    counts = "fuzzy entries (1), untranslated entries (2), credits entries (1), obsolete entries (1)"
    assert {f"{tmp_path}/a.po: left out: {counts}"} == {*caplog.messages}
    (tmp_path / "b.po").write_text(text, encoding="utf-8")
    catalog = polib.pofile(str(tmp_path / "b.po"))
    assert expected == [(entry.msgid, entry.msgstr) for entry in catalog.translated_entries()[:-1]]  # without credits
    catalog.save_as_mofile(str(tmp_path / "a.mo"))
    assert sorted(pairs(tmp_path / "a.mo", (tmp_path / "a.mo").read_bytes())) == sorted(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('#Note\n#:a.c:1\n#.for the menu\n#|msgid "x"\nmsgid "Open"\nmsgstr "Auf"\n', [("Open", "Auf")]),
        ('#,fuzzy\nmsgid "Open"\nmsgstr "Auf"\n#~msgid "Gone"\n#~msgstr "Weg"\n', []),
        (r'msgid "\a\033[1m\x41 \\101 \303\244\n"' '\nmsgstr "\\134"\n', [("\a\33[1mA \\101 ä\n", "\\")]),
    ],
)
def test_rarer_forms_of_comments_and_escapes(tmp_path: Path, text: str, expected: list[tuple[str, str]]) -> None:
    assert pairs(tmp_path / "a.po", f"{HEADER}\n{text}") == expected


@pytest.mark.parametrize("name", ["plural-forms", "Plural-Forms: Plural-Forms"])
def test_the_header_is_read_as_gettext_reads_it(tmp_path: Path, name: str) -> None:
    header = f'{HEADER}"language: ja\\n"\n"{name}: {RULES["ja"]}\\n"\n'
    assert pairs(tmp_path / "a.po", f"{header}\n{FILES}", target="ja") == [("%d files", "a %d")]


def test_the_charset_is_that_of_the_header(tmp_path: Path) -> None:
    text = HEADER.replace("UTF-8", "ISO-8859-1") + 'msgid "Size"\nmsgstr "Größe"\n'
    assert pairs(tmp_path / "a.po", text.encode("latin-1")) == [("Size", "Größe")]
    template = text.replace("ISO-8859-1", "CHARSET")
    assert pairs(tmp_path / "a.po", template) == [("Size", "Größe")]


@pytest.mark.parametrize(
    ("name", "header", "languages"),
    [
        ("a.po", "Language: de_DE", "en-de_DE"),
        ("a.po", "Language: sr@latin", "en-sr_Latn"),
        ("fr.po", "Language: de\\nX-Source-Language: nl", "nl-de"),
        ("fr.po", "Language: ", "en-fr"),
        ("a.po", "Language-Team: German <de@li.org>", "en-de"),
        ("app.pt_BR.po", "", "en-pt_BR"),
        ("fr/LC_MESSAGES/app.mo", "", "en-fr"),
        ("po/fr/app.po.gz", "", "en-fr"),
        ("a.po", "Language: es-419", "en-es-419"),
        ("a.po", "Language: zh_Hans_CN\\nX-Source-Language: en_US.UTF-8", "en_US-zh_Hans_CN"),
        ("a.po", "Language: French", "en-fr"),
        ("a.po", "Language: de\\nX-Source-Language: C", "en-de"),  # the language of programs is English
        ("fr.po", "Language: POSIX", "en-fr"),
        ("a.po", "Language-Team: LANGUAGE <LL@li.org>", "en-und"),
        ("zh-Hant-TW.po", "", "en-zh-Hant-TW"),
        ("admin-fa_IR.mo", "", "en-fa_IR"),
        ("po/app.po", "", "en-und"),  # `app` and `po`: only codes of two letters are taken from names
        ("plug-in.po", "", "en-und"),
    ],
)
def test_languages_are_in_the_header_or_the_name(tmp_path: Path, name: str, header: str, languages: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{HEADER}"{header}\\n"\n\nmsgid "a"\nmsgstr "b"\n', encoding="utf-8")
    if name.endswith(".gz"):
        import gzip

        path.write_bytes(gzip.compress(path.read_bytes()))
    assert str(read_catalog(path).languages(path)) == languages
    codes = [re.split("[_-]", code)[0] for code in languages.split("-", 1) if code != "und"]
    assert table_columns(path, "po") == codes
    corpus = TableCorpus(kind="po", path=path, source_column=codes[0], target_column=[*codes, "de"][1])
    assert [*read_table(corpus)] == [(["a"], ["b"])]


@pytest.mark.parametrize("field", ["Language", "X-Source-Language"])
def test_a_language_that_is_not_known_is_refused(tmp_path: Path, field: str) -> None:
    """Otherwise any model would fill the catalog, and any corpus would contain it."""
    text = f'{HEADER}"Language: de\\n"\n"{field}: Quux\\n"\n\nmsgid "a"\nmsgstr "b"\n'.replace(
        '"Language: de\\n"\n' * (field == "Language"), ""
    )
    with pytest.raises(InputError, match="a.po: .*'Quux'"):
        pairs(tmp_path / "a.po", text)
    with pytest.raises(InputError, match="'Quux'"):
        fill_catalog(text, direction=Direction("en", "de"))
