"""XLIFF as a corpus: which texts of a file are pairs, and what text an element has, by the specifications."""

import time
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest

from translate.config.data import TableCorpus
from translate.data.corpora import read_corpus
from translate.data.tables import table_columns
from translate.errors import InputError

HEAD_1 = '<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">'
HEAD_2 = '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.1" srcLang="de-DE" trgLang="en">'


def file_1(*units: str, source: str = "de", target: str = "en", more: str = "") -> str:
    languages = f'source-language="{source}" target-language="{target}"' if target else f'source-language="{source}"'
    return f'<file original="a" datatype="plaintext" {languages} {more}><body>{"".join(units)}</body></file>'


def unit_1(source: str, target: str | None, state: str = "", more: str = "") -> str:
    side = "" if target is None else f"<target {state}>{target}</target>"
    return f'<trans-unit id="u" {more}><source>{source}</source>{side}</trans-unit>'


def segment_2(source: str, target: str | None, more: str = "") -> str:
    side = "" if target is None else f"<target>{target}</target>"
    return f"<segment {more}><source>{source}</source>{side}</segment>"


def read(folder: Path, text: str | bytes, *columns: str) -> list[tuple[str, str]]:
    path = folder / "a.xlf"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    source, target = columns or ("de", "en")
    corpus = TableCorpus(kind="xliff", path=path, source_column=source, target_column=target)
    return list(zip(*read_corpus(corpus, key="data.train.0")[1:3], strict=True))


OLD = [  # of XLIFF 1.2: a unit, and its pairs
    (unit_1("eins", "one"), [("eins", "one")]),
    (unit_1("eins", None), "untranslated"),
    (unit_1("eins", " \n "), "untranslated"),
    (unit_1("eins", "<x id='1'/>"), "untranslated"),
    *((unit_1("eins", "one", f'state="{state}"'), "untranslated") for state in ("new", "needs-translation")),
    *(
        (unit_1("eins", "one", f'state="{state}"'), "unreviewed")
        for state in ("needs-review-translation", "needs-adaptation", "needs-l10n")
    ),
    (unit_1("eins", "one", 'state="translated" state-qualifier="leveraged-mt"'), [("eins", "one")]),
    (unit_1("eins", "one", 'state-qualifier="leveraged-mt"'), "unreviewed"),
    (unit_1("eins", "one", 'state-qualifier="fuzzy-match"'), "unreviewed"),
    (unit_1("eins", "one", 'state-qualifier="exact-match"'), [("eins", "one")]),
    (unit_1("eins", "one", more='approved="no"'), "unapproved"),
    (unit_1("eins", "one", 'state="needs-review-translation"', 'approved="yes"'), [("eins", "one")]),
    (unit_1("eins", "one", more='translate="no"'), "untranslatable"),
    (f'<group translate="no">{unit_1("eins", "one")}</group>', "untranslatable"),
    (f'<group translate="no">{unit_1("eins", "one", more="translate=" + quoteattr("yes"))}</group>', [("eins", "one")]),
    (
        f'<group restype="x-gettext-plurals">{unit_1("ein Hund", "a dog")}{unit_1("%d Hunde", "%d dogs")}</group>',
        [("ein Hund", "a dog"), ("%d Hunde", "%d dogs")],
    ),
    (
        '<trans-unit id="u"><source>eins</source><target>one</target>'
        "<alt-trans><source>zwei</source><target>two</target></alt-trans></trans-unit>",
        [("eins", "one")],
    ),
    ('<bin-unit id="b" mime-type="x"><bin-source/></bin-unit>' + unit_1("a", "b"), [("a", "b")]),
]
SEGMENTED = (
    '<trans-unit id="u"><source>Ein Hund. Er bellt.</source><seg-source><mrk mtype="seg" mid="0">Ein <g id="1">Hund'
    '</g>.</mrk> <mrk mtype="seg" mid="1">Er bellt.</mrk></seg-source><target><mrk mtype="seg" mid="{}">A <g id="1">'
    'dog</g>.</mrk> <mrk mtype="seg" mid="{}">It barks.</mrk></target></trans-unit>'
)
WHOLE = [("Ein Hund. Er bellt.", "A dog. It barks.")]
OLD += [
    (SEGMENTED.format(0, 1), [("Ein Hund.", "A dog."), ("Er bellt.", "It barks.")]),
    (SEGMENTED.format(1, 0), WHOLE),
    (SEGMENTED.format(0, 2), WHOLE),
    (SEGMENTED.format(0, 0), WHOLE),
    (SEGMENTED.format(0, 1).replace("It barks.", ""), "partly translated"),
    (SEGMENTED.format(0, 1).replace('<mrk mtype="seg" mid="1">It barks.</mrk>', ""), "partly translated"),
]
NEW = [
    (segment_2("eins", "one") + segment_2("zwei", "two"), [("eins", "one"), ("zwei", "two")]),
    (segment_2("eins", "one") + "<ignorable><source> ja</source><target>yes</target></ignorable>", [("eins", "one")]),
    (segment_2("eins", None), "untranslated"),
    (segment_2("eins", "one", 'state="initial"'), "untranslated"),
    *((segment_2("eins", "one", f'state="{state}"'), [("eins", "one")]) for state in ("translated", "final")),
    (segment_2("eins", "one", 'state="translated" subState="translate:mt"'), "unreviewed"),
    (segment_2("eins", "one", 'state="final" subState="x:y"'), [("eins", "one")]),
]  # fmt: skip


@pytest.mark.parametrize(("units", "expected"), [(f"{HEAD_1}{file_1(unit)}</xliff>", pairs) for unit, pairs in OLD] + [
    (f'{HEAD_2}<file id="f"><unit id="u">{segments}</unit></file></xliff>', pairs) for segments, pairs in NEW
])  # fmt: skip
def test_translated_texts_are_pairs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, units: str, expected: list[tuple[str, str]] | str
) -> None:
    """What is left out is counted by its state."""
    caplog.set_level("INFO", "translate.data.tables")
    if isinstance(expected, str):
        with pytest.raises(InputError, match=rf"^data\.train\.0: {tmp_path}/a\.xlf: .*; {expected} texts: 1"):
            read(tmp_path, units)
        end = "</body></file>" if HEAD_1 in units else "</file>"
        another = unit_1("x", "y") if HEAD_1 in units else f'<unit id="v">{segment_2("x", "y")}</unit>'
        assert read(tmp_path, units.replace(end, another + end)) == [("x", "y")]
        assert [f": left out: {expected} texts (1)" in message for message in caplog.messages] == [True]
    else:
        assert read(tmp_path, units) == expected and not caplog.messages


@pytest.mark.parametrize(
    ("version", "source", "text"),
    [
        (1, 'Öffnen Sie <g id="1">die <mrk mtype="term">Datei</mrk></g> jetzt.', "Öffnen Sie die Datei jetzt."),
        (1, 'Zeile<x id="1"/>Eins <x id="2"/> zwei <bx id="3"/>fett<ex id="3"/>.', "Zeile Eins  zwei fett."),
        (1, 'Hallo <x id="I" equiv-text="{{name}}"/>, <ph id="1" equiv-text="x">%1$d</ph>!', "Hallo {{name}}, %1$d!"),
        (1, '<bpt id="1">&lt;b&gt;</bpt>Ein<ept id="1">&lt;/b&gt;</ept> <it id="2" pos="open">x</it>da', "Ein da"),
        (1, 'Bild <ph id="1">&lt;img alt="<sub>Hund</sub>"/&gt;</ph>hier', "Bild hier"),
        (1, "\n  a <![CDATA[<b>]]> &amp; <!-- c --><?p i?>d\n", "a <b> & d"),
        (2, 'Hallo <ph id="1" equiv="{0}"/> <ph id="2" disp="%s"/> <ph id="3" dataRef="d"/>!', "Hallo {0} %s {who}!"),
        (2, 'Ein <pc id="1"><mrk id="m" type="term">Hund</mrk></pc><ph id="2" dataRef="e"/>da', "Ein Hund da"),
        (2, '<sc id="1"/>a<ec startRef="1"/>b<sm id="2"/>cd<cp hex="001B"/>', "abcd"),
    ],
)  # fmt: skip
def test_text_is_kept_and_codes_are_not(tmp_path: Path, version: int, source: str, text: str) -> None:
    data = '<originalData><data id="d">{who}</data><data id="e">&lt;br/&gt;</data></originalData>'
    new = f'{HEAD_2}<file id="f"><unit id="u">{data}{segment_2(source, "one")}</unit></file></xliff>'
    file = new if version == 2 else f"{HEAD_1}{file_1(unit_1(source, 'one'))}</xliff>"
    assert read(tmp_path, file) == [(text, "one")]


def test_files_of_other_languages_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "translate.data.tables")
    files = [file_1(unit_1("a", "b")), file_1(unit_1("c", "d"), target="fr"), file_1(unit_1("e", "f"), source="DE-at")]
    text = f"{HEAD_1}{''.join(files)}</xliff>"
    assert read(tmp_path, text) == [("a", "b"), ("e", "f")]
    assert "units without both" in caplog.messages[0] and "(1)" in caplog.messages[0]
    assert read(tmp_path, text, "fr", "de") == [("d", "c")]
    assert table_columns(tmp_path / "a.xlf", "xliff") == ["de", "en", "fr"]
    lang = unit_1("g", "h", 'xml:lang="it"')
    assert read(tmp_path, f"{HEAD_1}{file_1(lang, target='')}</xliff>", "de", "it") == [("g", "h")]
    for encoding in ("utf-16", "iso-8859-1"):
        other = f'<?xml version="1.0" encoding="{encoding}"?>{HEAD_1}{file_1(unit_1("ö", "b"))}</xliff>'
        assert read(tmp_path, other.encode(encoding)) == [("ö", "b")]


DEEP = "<g>" * 200_000 + "</g>" * 200_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{HEAD_1}{file_1(unit_1('a', 'b'), target='fr')}</xliff>", "'de' and 'en'; the file has de, fr"),
        (f"{HEAD_1}</xliff>", "no text"),
        (f"{HEAD_1}{file_1(unit_1('a', 'b'))}", "xliff .*ParseError: .*line 1, column"),
        (f"<!DOCTYPE a [<!ENTITY b 'c'>]>{HEAD_1}{file_1(unit_1('&b;', 'b'))}</xliff>", "EntitiesForbidden"),
        (f"{HEAD_1}{file_1(unit_1(DEEP, 'b'))}</xliff>", "RecursionError"),
        (f'<?xml version="1.0" encoding="utf-16"?>{HEAD_1}</xliff>', "ParseError"),
        ("", "ParseError: no element found"),
        ("nope", "ParseError"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    started = time.process_time()
    with pytest.raises(InputError, match=rf"^data\.train\.0: {tmp_path}/a\.xlf: .*{message}"):
        read(tmp_path, text)
    assert time.process_time() - started < 5.0


def test_many_units_and_a_long_attribute_take_linear_time(tmp_path: Path) -> None:
    units = unit_1("a", "b") * 20_000
    long = f"<note {'x' * 10_000_000}='1'/>"
    started = time.process_time()
    text = (
        f"{HEAD_1}{file_1(units, more='x=' + quoteattr('y' * 10_000_000))}{file_1(unit_1('a', 'b'), more='')}</xliff>"
    )
    assert len(read(tmp_path, text.replace("</body>", f"{long}</body>", 1))) == 20_001
    assert time.process_time() - started < 10.0
