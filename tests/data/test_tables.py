"""Reading tables: cells stay as they are, and whatever is bad is named with its file and line or row."""

import gzip
import io
import json
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args
from xml.sax.saxutils import escape

import polib  # type: ignore[import-untyped]
import pyarrow
import pyarrow.parquet
import pytest

from translate.config.data import Corpus, HubCorpus, TableCorpus
from translate.data.corpora import ParallelCorpus, read_corpus
from translate.data.tables import FORMATS, table_columns
from translate.errors import InputError

DOCS = Path(__file__).resolve().parents[2] / "docs" / "training.md"
GOOD = b'{"de": "a", "en": "b"}\n'


def table(folder: Path, kind: str, data: bytes, *columns: str, name: str = "") -> TableCorpus:
    path = folder / (name or f"t.{kind}")
    path.write_bytes(data)
    source, target = columns or ("de", "en")
    return TableCorpus(kind=kind, path=path, source_column=source, target_column=target)  # type: ignore[arg-type]


def read(folder: Path, kind: str, data: bytes, *columns: str, name: str = "") -> ParallelCorpus:
    return read_corpus(table(folder, kind, data, *columns, name=name), key="data.train.3")


def json_lines(rows: list[Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def parquet(*columns: tuple[str, list[object]]) -> bytes:
    buffer = io.BytesIO()
    made = pyarrow.table([pyarrow.array(cells) for _, cells in columns], names=[name for name, _ in columns])
    pyarrow.parquet.write_table(made, buffer, row_group_size=100)
    return buffer.getvalue()


def tmx(*units: dict[str, str]) -> bytes:
    variants = (
        "".join(f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in unit.items()) for unit in units
    )
    start = '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx><header/><body>'
    return f"{start}{''.join(f'<tu>{unit}</tu>' for unit in variants)}</body></tmx>".encode()


def xliff(*pairs: tuple[str, str]) -> bytes:
    segments = "".join(
        f"<segment><source>{source}</source><target>{target}</target></segment>" for source, target in pairs
    )
    start = '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="de" trgLang="en"><file id="f">'
    return f'{start}<unit id="u">{segments}</unit></file></xliff>'.encode()


def po(sources: Iterable[str], targets: Iterable[str]) -> bytes:
    catalog = polib.POFile()
    catalog.metadata = {"Content-Type": "text/plain; charset=UTF-8", "X-Source-Language": "de", "Language": "en"}
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        catalog.append(polib.POEntry(msgctxt=str(number), msgid=source, msgstr=target))
    return str(catalog).encode()


WRITERS = {
    "json": lambda sides: json_lines([{"de": de, "en": en} for de, en in zip(*sides, strict=True)]),
    "csv": lambda sides: "".join(f'"{de}","{en}"\n' for de, en in [("de", "en"), *zip(*sides, strict=True)]).encode(),
    "parquet": lambda sides: parquet(("de", sides[0]), ("en", sides[1])),
    "po": lambda sides: po(*sides),
    "tmx": lambda sides: tmx(*({"de": escape(de), "en": escape(en)} for de, en in zip(*sides, strict=True))),
    "xliff": lambda sides: xliff(*((escape(de), escape(en)) for de, en in zip(*sides, strict=True))),
}


def test_every_kind_of_corpus_is_read_and_documented() -> None:
    kinds = [get_args(each.model_fields["kind"].annotation) for each in get_args(get_args(Corpus)[0])]
    assert set(WRITERS) == set(get_args(TableCorpus.model_fields["kind"].annotation))
    assert {"text", "hub", *FORMATS} == {name for names in kinds for name in names}
    rows = [line for line in DOCS.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert all(any(f"`{kind}`" in row.split("|")[1] for row in rows) for names in kinds for kind in names)


@pytest.mark.parametrize("kind", WRITERS)
def test_cells_are_text_however_odd(tmp_path: Path, kind: str) -> None:
    """Even what looks like a date, a number or a missing value; also if the file's name looks like a pattern."""
    cells = [
        "2024-01-01",
        "007",
        "1e5",
        "true",
        "null",
        "NA",
        "",
        " ",
        "[1]",
        " 1.50 ",
        "x" * 200_000,
        "ä\u2028\x85\ny",
    ]
    cells = [cell for cell in cells if kind != "xliff" or cell.strip()]  # without a target, a text is untranslated
    cells = [cell for cell in cells if kind != "po" or cell]  # likewise
    cells += [] if kind in ("csv", "tmx", "xliff") else ["\0", "\u2028\x85\r\n\x0b", 'a, "b"']
    for name in (f"t.{kind}", f"a[1].{kind}"):
        for side in (cells, ["b", *cells[1:]]):  # the second time the file has changed
            corpus = read(tmp_path, kind, WRITERS[kind]((side, side[::-1])), name=name)
            kept = [cell.strip() for cell in side] if kind in ("tmx", "xliff") else side  # a segment may be indented
            assert (corpus.sources, corpus.targets) == (kept, kept[::-1])
    if kind != "parquet":
        zipped = read(tmp_path, kind, gzip.compress(WRITERS[kind]((["a"] * 3, ["b"] * 3))), name=f"t.{kind}.gz")
        assert (zipped.sources, zipped.targets) == (["a"] * 3, ["b"] * 3)


def test_headers_quotes_and_nested_columns(tmp_path: Path) -> None:
    data = '\ufeffde,en,id\n"a, ""b""",nan,3\n 1.50 ,,4\n"x\ny",1e5,5\n'.encode()
    assert read(tmp_path, "csv", data)[1:3] == (['a, "b"', " 1.50 ", "x\ny"], ["nan", "", "1e5"])
    assert read(tmp_path, "csv", b"x,de,en,x\n1,a,b,2\n").sources == ["a"]  # another column may occur twice
    # A spreadsheet of many countries separates cells with semicolons, and Excel's own first line says so.
    for data in (b'de; en\na,;"b;"\n', b'sep=;\r\nde;en\r\na,;"b;"\r\n', b'\nde\ten \n"a,"\tb;\n'):
        assert read(tmp_path, "csv", data)[1:3] == (["a,"], ["b;"])
    assert read(tmp_path, "csv", b"de, en,en\na,b,c\n", "de", " en").targets == ["b"]
    rows = [{"id": 1, "translation": {"de": "ä\u2028b", "en": "c"}}, {"id": 2, "translation": {"de": "d", "en": "e"}}]
    for data in (json_lines(rows), b"\n \r\n" + json_lines(rows)):
        nested = read(tmp_path, "json", data, "translation.de", "translation.en")
        assert (nested.sources, nested.targets) == (["ä\u2028b", "d"], ["c", "e"])
    lines = json_lines([{"translation": {"de": "a", "fr": "b"}}, *rows])
    with pytest.raises(InputError, match="line 2: has no 'fr', .*'translation.fr'.* keys de, en$"):
        read(tmp_path, "json", lines, "translation.de", "translation.fr")


def test_units_of_a_translation_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Formatting and its codes are no text, a variant of a language will do, and a unit without both is not a pair."""
    caplog.set_level("INFO", "translate.data.tables")
    german = '\n      <bpt i="1">&lt;b&gt;</bpt>Ein<ept i="1"/> <hi>A&amp;B <ph>x</ph>da</hi>\n'
    units = {"de-AT": german, "EN": "one"}, {"fr": "un", "en": "one"}, {"en-GB": "two", "DE": "zwei", "en-US": "too"}
    for data in (tmx(*units), tmx(*units).decode().replace("utf-8", "utf-16").encode("utf-16")):
        assert read(tmp_path, "tmx", data)[1:3] == (["Ein A&B da", "zwei"], ["one", "too"])
        assert caplog.messages[0].startswith(f"{tmp_path / 't.tmx'}: left out: units without both 'de' and 'en' (1), ")
    assert read(tmp_path, "tmx", tmx(*units), "de", "en-gb").targets == ["two"]
    # A language itself before a variant, and the first of several texts.
    unit = tmx({"pt-BR": "a", "pt": "b", "x": "c", "en": "d"}).replace(b'"x"', b'"pt"')
    named = unit.replace(b"<tmx ", b'<tmx xmlns="http://www.lisa.org/tmx14" ')
    for data in (unit, named):
        assert read(tmp_path, "tmx", data, "pt", "en")[1:3] == (["b"], ["d"])


@pytest.mark.parametrize(
    ("segment", "text"),
    [
        ('Öffnen Sie <g id="1">die <mrk mtype="term">Datei</mrk></g> jetzt.', "Öffnen Sie die Datei jetzt."),
        ('<bpt i="1">&lt;b&gt;</bpt>Ein<ept i="1">&lt;/b&gt;</ept> <hi x="1">A&amp;B <it>x</it>da</hi>', "Ein A&B da"),
        ("T<bpt>b</bpt>i<ept>b</ept>tel<ut>{\\par}</ut>", "Titel"),
        ("die <ph>%s</ph>farbe, <ph>{name}</ph><ph>%1$d</ph>.", "die %sfarbe, {name}%1$d."),
        (
            "Zeile<ph>&lt;br/&gt;</ph>Eins.<x/><x/>Zwei (<ph>b</ph>fett<ph>/b</ph>) <ph/>Ende",
            "Zeile Eins. Zwei (fett) Ende",
        ),
        ("<ph>x</ph>A<ph>x</ph>.<ph>x</ph>", "A."),
        ("Bild <ph>&lt;img alt='<sub>ein <bpt>b</bpt>Hund</sub>'&gt;</ph>hier", "Bild hier"),
        ('<x:g xmlns:x="urn:x">a<x:bpt>b</x:bpt>c</x:g>', "ac"),
    ],
)
def test_text_in_a_segment_is_kept_and_codes_are_not(tmp_path: Path, segment: str, text: str) -> None:
    assert read(tmp_path, "tmx", tmx({"de": segment, "en": "one"})).sources == [text]


def test_texts_of_units_that_are_left_out_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "translate.data.tables")
    code = "a<ph>b<sub>c</sub></ph>"
    units = {"de-AT": "a", "en": "b", "de": code}, {"de": "a", "en-GB": "b", "en-US": "c"}, {"de": "d", "en": "e"}
    again = tmx(*units).replace(b"<tuv", b'<tuv xml:lang="en"><seg>e</seg></tuv><tuv', 5)  # of the last unit too
    assert read(tmp_path, "tmx", again)[1:3] == (["a", "a", "d"], ["e", "e", "e"])
    [counts] = [re.findall(r"[(](\d)[)]", message) for message in caplog.messages]
    assert counts == ["1", "3"] and "<sub>) (1)" in caplog.text


def test_a_long_tag_takes_linear_time(tmp_path: Path) -> None:
    """Expat reads an unfinished tag again from its start with each new part; a hundredfold would take a minute."""
    data = tmx({"de": "a", "en": "b"}).replace(b"<tu>", b'<tu note="' + b"x" * 32_000_000 + b'">')
    started = time.process_time()
    assert read(tmp_path, "tmx", data).sources == ["a"]
    assert time.process_time() - started < 5.0


def test_objects_within_objects_are_columns_up_to_a_depth(tmp_path: Path) -> None:
    data = b'{"de": "a", "more": ' + b'{"x": ' * 900 + b"1" + b"}" * 900 + b', "en": "b"}\n'
    source, more, target = table_columns(table(tmp_path, "json", data).path, "json")
    assert (source, target) == ("de", "en") and more.startswith("more.x.x")
    assert read(tmp_path, "json", data)[1:3] == (["a"], ["b"])


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        ("csv", b"a,b\n1,2\n", ": source_column = 'de' does not exist; .* a, b"),
        ("csv", b"de,en\na,b\na, b, c\n", ", line 3: .*3 cells.* 2;"),
        ("csv", b'de,en\n\n"a\nb",c\na\n', ", line 5: .*1 cell,.* 2;"),
        ("csv", b'de,en\na,b\n"x,c\nd,e\n', ", line 4: .*CSV"),
        ("csv", b"\n\n", ": source_column = 'de'"),
        ("json", GOOD + b'{"de": 5, "en": "b"}', ", line 2: column 'de' is 5, of type int"),
        ("json", b'[{"de": "a", "en": "b"}]', ", line 1: .*array"),
        ("json", b'[\n  {"de": "a", "en": "b"}\n]', ", line 1, character 2: .*JSON.*array"),
        ("json", GOOD + b'\n{"de": null, "en": "b"}\n', ", line 3: column 'de' is null"),
        ("json", GOOD * 7 + GOOD[:-2] + b"\n", ", line 8, character 22: .*JSON"),
        ("json", b"null\n", ", line 1: .*null"),  # on which `datasets` crashes the process
        ("json", GOOD + b"[" * 100_000 + b"\n", ", line 2, .*recursion"),
        ("json", b'{"de": "\\ud800", "en": "b"}\n', ", line 1: column 'de' is .*ud800"),
        ("tmx", tmx({"de": "a", "fr": "b"}), ": no unit has both 'de' and 'en'; the file has de, fr"),
        ("tmx", tmx(), ": no unit has both .* no text"),
        ("tmx", tmx({"de": "a", "en": "b"})[:-20], ": .*tmx .*ParseError: .*line 3, column"),
        ("tmx", b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><tmx>&b;</tmx>', ": .*EntitiesForbidden"),
        ("po", b'msgid "a"\nmsgstr "b"\n\nmsgid "c\nmsgstr "d"\n', ', line 4: .*msgid "c'),
        ("po", b'msgid "a"\nmsgid "b"\n', ', line 2: .*msgid "b"'),
        ("po", b'# a\n\nmsgstr "b"\n', ', line 3: .*msgstr "b"'),
        ("po", b'msgid "a"\nmsgstr "\xff"\n', ", line 2: .*utf-8"),
        ("po", b"\xde\x12\x04\x95\0\0\0\0\2\0\0\0", ": .*po .*error"),
        ("po", po(["a"], ["b"]).replace(b": en", b": fr"), ": .*de-fr.*de-en"),
        ("parquet", b"nope", ": .*parquet .*ArrowInvalid: "),
        ("parquet", parquet(("de", ["a"]), ("en", [7])), ", row 1: column 'en' is 7, of type int"),
        ("parquet", parquet(("de", [*["a"] * 1500, None]), ("en", ["b"] * 1501)), ", row 1501: column 'de' is null"),
        ("parquet", parquet(("de", pyarrow.array([b"\xff"]).view(pyarrow.string())), ("en", ["b"])), ": .*Unicode"),
        ("parquet", parquet(("de", ["a"]), ("fr", ["b"])), ", row 1: has no 'en', .* keys de, fr"),
    ],
)
def test_bad_tables(tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str, data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=rf"^data\.train\.3: {tmp_path}/t\.{kind}{message}") as caught:
        read(tmp_path, kind, data)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")  # neither progress bars nor log lines of the libraries


def test_the_hub_is_asked_for_what_the_config_says(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets
    from huggingface_hub import constants

    asked = []

    def unreachable() -> None:
        raise OSError("no network")

    def load(*args: object, **options: object) -> datasets.Dataset:
        asked.append((args, options))
        assert constants.HF_HUB_OFFLINE, "it would retry for most of a minute"
        columns = {"translation": [{"de": "eins", "en": "one"}, {"de": "zwei", "en": "two"}]}
        features = datasets.Features({"translation": datasets.Translation(languages=["de", "en"])})
        return datasets.Dataset.from_dict(columns, features=features).select([1])  # as a split such as train[1:] does

    def fail(*args: object, **options: object) -> None:
        raise RuntimeError("generation failed") from ConnectionError("no route to host\nand more")

    monkeypatch.setattr(datasets, "load_dataset", load)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.get_session", unreachable)
    columns = {"source_column": "translation.de", "target_column": "translation.en"}
    hub = HubCorpus(dataset="wmt14", subset="de-en", split="train[1:]", revision="abc", **columns)  # type: ignore[arg-type]
    corpus = read_corpus(hub, key="data.train.0")
    assert corpus[:3] == ("wmt14 (split train[1:], subset de-en, revision abc)", ["zwei"], ["two"])
    assert asked == [(("wmt14", "de-en"), {"split": "train[1:]", "revision": "abc"})]
    monkeypatch.setattr(datasets, "load_dataset", fail)
    with pytest.raises(InputError, match=r"^data\.train\.1: wmt14 \(split train.*ConnectionError: no route to host\)"):
        read_corpus(hub, key="data.train.1")
