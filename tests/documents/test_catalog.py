"""Filling catalogs: what is not filled stays byte for byte, and what is filled is what msgfmt and polib accept."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import polib  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from translate.config.data import Direction
from translate.decoding import Translation
from translate.documents.document import DocumentTranslation, translate_documents
from translate.errors import InputError

few = settings(
    max_examples=300, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
PLURALS = {
    "de": "nplurals=2; plural=n != 1;",
    "ja": "nplurals=1; plural=0;",
    "ru": "nplurals=3; plural=n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2;",
}


def header(language: str = "de") -> str:
    lines = "MIME-Version: 1.0", "Content-Type: text/plain; charset=UTF-8", f"Language: {language}"
    return 'msgid ""\nmsgstr ""\n' + "".join(
        f'"{line}\\n"\n' for line in (*lines, f"Plural-Forms: {PLURALS[language]}")
    )


def fill(
    text: str, function: Callable[[str], str] = str.upper, *, again: bool = False, to: str = "de"
) -> DocumentTranslation:
    def translate(texts: Sequence[str]) -> list[Translation]:
        return [Translation(each, function(each), [], 0.0, 0.0, False, False) for each in texts]

    return translate_documents([text], "po", translate, None, Direction("en", to), again=again)[0]


BEFORE = r"""# Translators: all of us
#
{header}
#. a comment
#: a.c:1 b.c:2
msgid "Open the file"
msgstr "Öffne  die Datei"

#: a.c:3
#, c-format
msgctxt "a menu"
msgid "%d of %s"
msgstr   ""

#, fuzzy
#| msgid "Old"
#| msgctxt "x"
msgid "New"
msgstr "Alt"

msgid "One file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""

msgid ""
"Long text\n"
msgstr ""
# a comment

#, fuzzy
msgid "Empty"
msgstr ""

msgctxt "NAME OF TRANSLATORS"
msgid "Your names"
msgstr ""

msgid "One day"
msgid_plural "%d days"
msgstr[0] "Ein Tag"
msgstr[1] ""
#~ msgid "Gone"
#~ msgstr ""
""".replace("{header}", header())
CHANGES = {
    "#, c-format\n": "#, fuzzy, c-format\n",
    'msgstr   ""\n': 'msgstr "%d OF %s"\n',
    'msgid "One file"\n': '#, fuzzy\nmsgid "One file"\n',
    'msgstr[0] ""\nmsgstr[1] ""': 'msgstr[0] "ONE FILE"\nmsgstr[1] "%d FILES"',
    'msgid ""\n"Long text\\n"\nmsgstr ""': '#, fuzzy\nmsgid ""\n"Long text\\n"\nmsgstr "LONG TEXT\\n"',
    'msgid "Empty"\nmsgstr ""': 'msgid "Empty"\nmsgstr "EMPTY"',
    'msgid "One day"': '#, fuzzy\nmsgid "One day"',
    'msgstr[1] ""\n#~': 'msgstr[1] "%d DAYS"\n#~',
}
AGAIN = {'#| msgid "Old"\n#| msgctxt "x"\n': "", 'msgstr "Alt"': 'msgstr "NEW"'}


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("again", [False, True])
def test_what_is_not_translated_is_filled_and_nothing_else_changes(newline: str, again: bool) -> None:
    expected = BEFORE
    for before, after in (CHANGES | (AGAIN if again else {})).items():
        assert expected.count(before) == 1
        expected = expected.replace(before, after)
    filled = fill("\ufeff" + BEFORE.replace("\n", newline), again=again)
    assert filled.text == "\ufeff" + expected.replace("\n", newline)
    counts = {"filled": 5 + again, "translated": 1, "fuzzy": 1, "credits": 1, "obsolete": 1}
    assert filled.entries == {name: count for name, count in counts.items() if not (again and name == "fuzzy")}
    assert not filled.problems
    assert fill(filled.text).text == filled.text  # nothing is left to fill


@pytest.mark.parametrize(
    ("language", "sources", "forms"),
    [
        ("de", ("%d file", "%d files"), ["%d FILE", "%d FILES"]),
        ("ja", ("One file", "%d files"), ["%d FILES"]),
        ("ru", ("%d file", "%d files"), ["%d FILE", "%d FILES", "%d FILES"]),
        ("ru", ("One file", "%d files"), ["%d FILES", "%d FILES", "%d FILES"]),  # 21 files have the first form
    ],
)
def test_there_are_as_many_plural_forms_as_the_header_says(
    language: str, sources: tuple[str, str], forms: list[str]
) -> None:
    entry = f'\nmsgid "{sources[0]}"\nmsgid_plural "{sources[1]}"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    filled = fill(header(language) + entry, to=language)
    (found,) = polib.pofile(filled.text)
    assert [found.msgstr_plural[number] for number in sorted(found.msgstr_plural)] == forms


@pytest.mark.parametrize(
    ("flags", "source", "translation", "expected"),
    [
        ("c-format", "%s of %d", "%2$d VON %1$s", "%2$d VON %1$s"),
        ("python-format", "%s of %d", "%2$d VON %1$s", None),  # Python has no numbers
        ("c-format", "%s of %s", "%1$s VON %2$s", "%s VON %s"),
        ("c-format", "%1$s of %2$s", "%2$s VON %1$s", "%2$s VON %1$s"),
        ("c-format", "Load %s", "LADE 100% VON %s", None),  # "% V" is not a directive
        ("python-brace-format", "{a} of {b}", "{ {b} VON {a}", None),
        ("", "{a} of {b}", "{b} VON {a}", "{b} VON {a}"),
        ("", "Open", "<b>%s", None),
        ("c-format", "%p of %s and %d", "%2$d VON %1$s UND %p", None),  # `%p` cannot be numbered
        ("c-format", "%*d of %s", "%s VON %*d", None),
        ("c-format", "%<PRIu64> of %6<PRIu32>", "%2$6<PRIu32> VON %1$<PRIu64>", "%2$6<PRIu32> VON %1$<PRIu64>"),
        ("object-pascal-format", "%0:s of %1:d", "%0:s VON %1:x", None),
        ("", "\\a\\033[1mOpen\\x1b", "\a\33[1mAUF\33", r"\007\033[1mAUF\033"),
        ("", "\\033[1mOpen", "AUF", None),
        ("", "Open...", "Öffnen …", "Öffnen …"),
        ("", "Open", "", None),
        ("", "Open", "\x00\x85AUF\u2028", "AUF"),
        ("", "<b>Open</b> &lt;", "A & B <", "<b>A &amp;</b> B &lt;"),
        ("", "  Open:\\n\\n", "Auf. ", "  Auf:\\n\\n"),
        ("", "Name:\\n - one\\n - two", "X", "X:\\n - X\\n - X"),
        ("", "a long line that\\ncontinues", "eins zwei", "eins\\nzwei"),
        ("", 'a \\"b\\" \\\\', '"c" \\', '\\"c\\" \\\\'),
    ],
)
def test_a_translation_that_msgfmt_would_refuse_is_not_written(
    flags: str, source: str, translation: str, expected: str | None
) -> None:
    text = header() + (f"\n#, {flags}" if flags else "") + f'\nmsgid "{source}"\nmsgstr ""\n'
    filled = fill(text, lambda _: translation)
    if expected is None:
        assert filled.text == text and filled.entries == {"untranslated": 1}
        assert filled.problems and filled.problems[0].startswith("line 8: ")
    else:
        (found,) = re.findall(r'^msgstr ((?:".*"\s)+)', filled.text.split("msgid")[-1], re.MULTILINE)
        assert "".join(re.findall(r'"(.*)"', found)) == expected
        assert filled.entries == {"filled": 1} and not filled.problems


@pytest.mark.parametrize(
    ("source", "translation", "reason"),
    [
        ("Open", "AUF %s", "placeholders"),
        ("&Open", "A & B & C", "accelerator &O"),
        ("Open", "…", "no words"),
        ("Open\\nit", "…", "no words"),
        ("100% of %s", "% VON 11", "signs '% of %s' .* '% VON %s'"),
    ],
)
def test_the_warning_says_why_an_entry_is_not_filled(source: str, translation: str, reason: str) -> None:
    (problem,) = fill(f'{header()}\n#, c-format\nmsgid "{source}"\nmsgstr ""\n', lambda _: translation).problems
    assert re.match(f"line 8: .*{reason}", problem)


def test_a_mark_within_a_word_of_the_catalog_is_an_accelerator() -> None:
    entries = "".join(f'\nmsgid "{text}"\nmsgstr ""\n' for text in ("Today", "To t_oday", "Field my_file"))
    assert re.findall('msgstr "([^"]+)"', fill(header() + entries).text) == ["TODAY", "T_O TODAY", "FIELD MY_FILE"]


def test_other_forms_than_the_header_names_stay() -> None:
    entry = 'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] ""\nmsgstr[1] "%d Dateien"\nmsgstr[2] "%d Dateys"\n'
    assert fill(f"{header()}\n{entry}").text.endswith(entry.replace('[0] ""', '[0] "%d FILE"'))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (header().replace("Language: de", "Language: fr"), "en-fr.*en-de"),
        (header().replace("Language: de", "X-Source-Language: nl"), "nl-und.*en-de"),
        (header().replace("UTF-8", "CHARSET"), "CHARSET.*msginit"),
        (header().replace("UTF-8", "ISO-8859-1"), "ISO-8859-1.*msgconv"),
        (header() + "\nmsgid x\n", "line 8: .*msgid x"),
        (
            header().replace("Plural-Forms", "X") + '\nmsgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\n',
            "Plural-Forms.*msginit",
        ),
        (header().replace("n != 1", "n !") + '\nmsgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\n', "Plural-Forms"),
    ],
)
def test_other_files_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fill(text)


TEXTS = st.sampled_from(
    ["Open", "_File", "&Save as…", "%s of %d", "Name:", "a\\nb\\n", "{x} files", "<b>bold</b> text", " ", "x\\\\y",
     'say \\"a\\"', "a long line with so many words that it does not fit into the width of a page of text", "日本語",
     "100% of", "R&D", "my_file", "...", "\\tTab", "Ende.", "https://a.b/c", "%", "\\n - one", "\u2028", "&lt;"]
)  # fmt: skip
COMMENTS = st.sampled_from(
    ["", "#: a.c:1\n", "# note\n", "#, c-format\n", "#, fuzzy\n", '#| msgid "o"\n', "#,\n", "\n"]
)
TARGETS = st.sampled_from(["", "fertig", "a\\n"])
ENTRIES = st.lists(
    st.tuples(COMMENTS, st.lists(TEXTS, min_size=1, max_size=3).map("".join), TARGETS, TARGETS), max_size=6
)
GARBAGE: list[Callable[[str], str]] = [
    str,
    str.upper,
    lambda text: "",
    lambda text: " ".join(reversed(text.split())),
    lambda text: '% {x _y && $ \\ " …',
    lambda text: re.sub(r"\d+", "", text),
    lambda text: f"日本 {text}.",
    lambda text: f"&{text}\n\x00",
]


def entry(number: int, comments: str, text: str, target: str, form: str) -> str:
    """An entry after a comment with its number; if it has two targets, it has a plural."""
    plural = f'msgid_plural "{text}"\nmsgstr[0] "{target}"\nmsgstr[1] "{form}"\n'
    rest = plural if form else f'msgstr "{target}"\n'
    return f'\n#. {number}\n{comments}msgctxt "{number}"\nmsgid "{text}"\n{rest}'


@few
@given(ENTRIES, st.sampled_from(GARBAGE), st.booleans())
def test_only_what_is_filled_changes(rows: list[tuple[str, str, str, str]], function: Any, again: bool) -> None:
    text = header() + "".join(entry(number, *row) for number, row in enumerate(rows))
    filled = fill(text, function, again=again)
    old, new = (re.split(r"(?=\n#\. \d+\n)", each) for each in (text, filled.text))
    changed = [pair for pair in zip(old, new, strict=True) if pair[0] != pair[1]]
    assert len(changed) == filled.entries["filled"]
    for before, after in changed:
        is_fuzzy = "#, fuzzy" in before
        assert '""' in before if not (is_fuzzy and again) else True
        added = (
            after.replace("#, fuzzy, c", "#, c") if "#, c" in before else after.replace("#, fuzzy\n", "", not is_fuzzy)
        )
        kept = [re.sub(r"(?m)^#,\n|^#\|.*\n", "", each).partition("msgstr")[0] for each in (before, added)]
        assert kept[0] == kept[1]
    found = polib.pofile(filled.text.replace("\u2028", "?"))
    assert [int(each.comment) for each in found] == list(range(len(rows)))
    for each in found:
        is_filled = all(each.msgstr_plural.values()) if each.msgid_plural else each.msgstr
        assert is_filled or "fuzzy" in each.flags or filled.problems
