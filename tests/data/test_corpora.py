"""Reading text: the pairing never shifts, and each way in which a file can be bad names the file and the place."""

import gzip
import io
import json
from pathlib import Path

import pytest

from translate.config import HubCorpus, TableCorpus, TextCorpus, TsvCorpus
from translate.data.corpora import iterate_lines, read_corpus, read_lines
from translate.errors import InputError


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def table(
    tmp_path: Path, kind: str, data: bytes, *, source: str = "de", target: str = "en", name: str = "t"
) -> TableCorpus:
    path = write(tmp_path / f"{name}.{kind}", data)
    return TableCorpus(kind=kind, path=path, source_column=source, target_column=target)  # type: ignore[arg-type]


# Lines


@pytest.mark.parametrize("separator", ["\r", "\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\0"])
def test_only_a_newline_ends_a_line(tmp_path: Path, separator: str) -> None:
    path = write(tmp_path / "a.de", f"ein{separator}s\nzwei\n".encode())
    assert read_lines(path) == [f"ein{separator}s", "zwei"]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n\nb\n", ["a", "", "b"]),
        (b" a \n\tb\n", [" a ", "\tb"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\r\nb", ["a\r", "b"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
    ],
)
def test_lines(tmp_path: Path, data: bytes, lines: list[str]) -> None:
    assert read_lines(write(tmp_path / "a.txt", data)) == lines
    assert read_lines(write(tmp_path / "a.txt.gz", gzip.compress(data))) == lines
    assert list(iterate_lines(io.BytesIO(data), "standard input")) == lines


def test_a_stream_is_read_as_it_comes() -> None:
    lines = iterate_lines(io.BytesIO(b"good\n\xff\n"), "standard input")
    assert next(lines) == "good"
    with pytest.raises(InputError, match=r"^standard input, line 2: byte 1 of the line \(0xff\) is not UTF-8"):
        next(lines)


def test_bad_utf8_names_line_and_byte(tmp_path: Path) -> None:
    path = write(tmp_path / "latin1.de", "eins\nzwölf\n".encode("latin1"))
    with pytest.raises(InputError) as caught:
        read_lines(path)
    assert str(caught.value) == (
        f"{path}, line 2: byte 3 of the line (0xf6) is not UTF-8;"
        " convert the file, for example with iconv -f latin1 -t utf-8"
    )


def test_unreadable_files(tmp_path: Path) -> None:
    whole = gzip.compress(b"a line of text\n" * 97)
    cases = [
        (tmp_path / "missing.de", "no such file"),
        (tmp_path, "is a folder, and a file is needed"),
        (write(tmp_path / "cut.gz", whole[:-11]), "the gzip data are cut short; copy or download the file again"),
        (write(tmp_path / "plain.gz", b"plain text\n"), "not readable as gzip, which its name promises"),
        (write(tmp_path / "broken.gz", whole[:13] + b"\xff\xff" + whole[15:]), "not readable as gzip"),
    ]
    for path, message in cases:
        with pytest.raises(InputError) as caught:
            read_lines(path)
        assert str(caught.value).startswith(f"{path}: {message}")


# Plain text


def test_text_corpus(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a.de", b"eins\nzwei\n"), write(tmp_path / "a.en", b"one\ntwo")
    corpus = read_corpus(TextCorpus(source=source, target=target, weight=2.5), key="data.train.0")
    assert corpus == (f"{source}, {target}", ["eins", "zwei"], ["one", "two"], 2.5)


def test_a_lost_line_is_located(tmp_path: Path) -> None:
    lengths = [7, 61, 23, 5, 47, 13, 89, 31, 3, 71, 17, 41]  # unlike neighbours, as in real text
    source = write(tmp_path / "a.de", b"".join(b"x" * length + b"\n" for length in lengths))
    del lengths[6]  # line 7
    target = write(tmp_path / "a.en", b"".join(b"y" * length + b"\n" for length in lengths))
    with pytest.raises(InputError) as caught:
        read_corpus(TextCorpus(source=source, target=target), key="data.train.0")
    assert str(caught.value) == (
        f"data.train.0: {source} has 12 lines and {target} has 11; line N of one must translate line N of the other."
        " Judging by the lengths of the lines, they part near line 7"
    )


def test_an_empty_corpus_is_an_error(tmp_path: Path) -> None:
    empty = write(tmp_path / "empty", b"")
    with pytest.raises(InputError, match="^data.validation: .*empty has no sentence pair$"):
        read_corpus(TextCorpus(source=empty, target=empty), key="data.validation")
    with pytest.raises(InputError, match="has 0 lines and .* has 1; line N of one must translate line N of the other$"):
        read_corpus(TextCorpus(source=empty, target=write(tmp_path / "one", b"one\n")), key="data.validation")


# Tab-separated


def test_tsv_has_columns_and_no_quoting(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", b'id\t"one\t"eins\nid2\ttwo\tzwei\textra\r\n')
    corpus = read_corpus(TsvCorpus(path=path, source_column=2, target_column=1), key="data.train.0")
    assert (corpus.sources, corpus.targets) == (['"eins', "zwei"], ['"one', "two"])


def test_tsv_with_too_few_columns_names_the_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", b"a\tb\nno tab here\n")
    with pytest.raises(InputError) as caught:
        read_corpus(TsvCorpus(path=path), key="data.test.news")
    assert str(caught.value) == (
        f"data.test.news: {path}, line 2: 1 tab-separated column, but source_column = 0 and target_column = 1,"
        " counted from 0, need 2"
    )


# Tables


def test_csv_cells_stay_text(tmp_path: Path) -> None:
    data = '\ufeffde,en,id\nnull,123,1\nNA,007,2\n"a, ""b""",nan,3\n 1.50 ,,4\n"x\ny",1e5,5\n'.encode()
    corpus = read_corpus(table(tmp_path, "csv", data), key="data.train.0")
    assert corpus.sources == ["null", "NA", 'a, "b"', " 1.50 ", "x\ny"]
    assert corpus.targets == ["123", "007", "nan", "", "1e5"]


def test_json_enters_nested_columns(tmp_path: Path) -> None:
    rows = [{"id": 1, "translation": {"de": "ä\u2028b", "en": "c"}}, {"id": 2, "translation": {"de": "d", "en": "e"}}]
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    nested = table(tmp_path, "json", data, source="translation.de", target="translation.en")
    corpus = read_corpus(nested, key="data.train.0")
    assert (corpus.sources, corpus.targets) == (["ä\u2028b", "d"], ["c", "e"])


def test_parquet_whose_name_looks_like_a_pattern(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"de": ["eins", "zwei"], "en": ["one", "two"]}), buffer)
    corpus = read_corpus(table(tmp_path, "parquet", buffer.getvalue(), name="a[1]"), key="data.train.0")
    assert (corpus.sources, corpus.targets) == (["eins", "zwei"], ["one", "two"])


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        ("csv", b"a,b\n1,2\n", "source_column = 'de' does not exist; the columns are a, b"),
        ("csv", b"de,fr\n1,2\n", "target_column = 'en' does not exist; the columns are de, fr"),
        ("csv", b"de,en\na, b, c\n", "cannot be read as csv (ParserWarning: Length of header"),
        (
            "csv",
            b"de,en\na,b\na,b,c\n",
            "cannot be read as csv (ParserError: Error tokenizing data. C error: Expected 2",
        ),
        ("csv", b"de,en\n\xff,b\n", "cannot be read as csv (UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff"),
        ("csv", b"", "the file is empty"),
        ("json", b'{"de": "a", "en": "b"}\n{"de": "a"}\n', "row 2 of column 'en' is null where text is needed"),
        ("json", b'{"de": 7, "en": "b"}\n', "row 1 of column 'de' is 7, of type int, where text is needed"),
        ("json", b'{"de": {"x": "a"}, "en": "b"}\n', "source_column = 'de' does not exist; the columns are de.x, en"),
        ("json", b"{nope\n", "cannot be read as json (ArrowInvalid: JSON parse error"),
        ("parquet", b"nope", "cannot be read as parquet (ArrowInvalid: "),
    ],
)
def test_bad_tables(tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str, data: bytes, message: str) -> None:
    corpus = table(tmp_path, kind, data)
    with pytest.raises(InputError) as caught:
        read_corpus(corpus, key="data.train.3")
    assert str(caught.value).startswith(f"data.train.3: {corpus.path}: {message}")
    assert capfd.readouterr() == ("", "")  # neither progress bars nor log lines of the libraries


def test_a_missing_table(tmp_path: Path) -> None:
    corpus = TableCorpus(kind="json", path=tmp_path / "gone.json", source_column="de", target_column="en")
    with pytest.raises(InputError, match=r"^data.train.0: .*gone\.json: no such file$"):
        read_corpus(corpus, key="data.train.0")


# The Hub, without a network


def test_hub_passes_on_what_the_config_says(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    asked = []

    def load(*args: object, **options: object) -> datasets.Dataset:
        asked.append((args, options))
        columns = {"translation": [{"de": "eins", "en": "one"}, {"de": "zwei", "en": "two"}]}
        features = datasets.Features({"translation": datasets.Translation(languages=["de", "en"])})
        return datasets.Dataset.from_dict(columns, features=features).select([1])  # as a split such as train[1:] does

    monkeypatch.setattr(datasets, "load_dataset", load)
    hub = HubCorpus(
        dataset="wmt14",
        subset="de-en",
        split="train[1:]",
        revision="abc",
        source_column="translation.de",
        target_column="translation.en",
    )
    assert read_corpus(hub, key="data.train.0") == ("wmt14[train[1:]]", ["zwei"], ["two"], 1.0)
    assert asked == [(("wmt14", "de-en"), {"split": "train[1:]", "revision": "abc"})]


def test_hub_failure_says_what_was_tried_and_the_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    def load(*args: object, **options: object) -> None:
        raise RuntimeError("generation failed") from ConnectionError("no route to host\nand more")

    monkeypatch.setattr(datasets, "load_dataset", load)
    hub = HubCorpus(dataset="a/b", split="train", source_column="de", target_column="en")
    with pytest.raises(InputError) as caught:
        read_corpus(hub, key="data.train.1")
    assert str(caught.value) == (
        "data.train.1: a/b (split train) could not be loaded from the Hugging Face Hub (ConnectionError: no route to"
        " host); check the network and the names, or download the data and give them as kind text, tsv, json, csv or"
        " parquet"
    )
