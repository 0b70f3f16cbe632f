"""Reading tables: cells stay as they are, and whatever is bad is named with its file and line or row."""

import gzip
import io
import json
from pathlib import Path

import pytest

from translate.config.data import HubCorpus, TableCorpus
from translate.data.corpora import read_corpus
from translate.errors import InputError


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def table(
    tmp_path: Path, kind: str, data: bytes, *, source: str = "de", target: str = "en", name: str = "t"
) -> TableCorpus:
    path = write(tmp_path / f"{name}.{kind}", data)
    return TableCorpus(kind=kind, path=path, source_column=source, target_column=target)  # type: ignore[arg-type]


def test_csv_cells_stay_text(tmp_path: Path) -> None:
    data = '\ufeffde,en,id\nnull,123,1\nNA,007,2\n"a, ""b""",nan,3\n 1.50 ,,4\n"x\ny",1e5,5\n'.encode()
    corpus = read_corpus(table(tmp_path, "csv", data), key="data.train.0")
    assert corpus.sources == ["null", "NA", 'a, "b"', " 1.50 ", "x\ny"]
    assert corpus.targets == ["123", "007", "nan", "", "1e5"]


def test_json_cells_stay_text_and_other_columns_may_occur_twice(tmp_path: Path) -> None:
    cells = ["2024-01-01", "1", "true", "null", "NaN", "", "[1]"]
    rows = [{"de": cell, "en": cell} for cell in cells]
    for data in (json.dumps(rows), "\n".join(map(json.dumps, rows))):
        assert read_corpus(table(tmp_path, "json", data.encode()), key="k").sources == cells
    assert read_corpus(table(tmp_path, "csv", b"x,de,en,x\n1,a,b,2\n"), key="k").sources == ["a"]


def test_json_enters_nested_columns(tmp_path: Path) -> None:
    rows = [{"id": 1, "translation": {"de": "ä\u2028b", "en": "c"}}, {"id": 2, "translation": {"de": "d", "en": "e"}}]
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    nested = table(tmp_path, "json", data, source="translation.de", target="translation.en")
    corpus = read_corpus(nested, key="data.train.0")
    assert (corpus.sources, corpus.targets) == (["ä\u2028b", "d"], ["c", "e"])
    array = table(tmp_path, "json", json.dumps(rows, indent=1).encode(), source="translation.de", target="id")
    with pytest.raises(InputError, match="row 1: column 'id' is 1, of type int, where text is needed"):
        read_corpus(array, key="data.train.0")
    array = table(tmp_path, "json", json.dumps(rows).encode(), source="translation.de", target="translation.en")
    assert read_corpus(array, key="data.train.0")[1:3] == (["ä\u2028b", "d"], ["c", "e"])


def test_parquet_whose_name_looks_like_a_pattern(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"de": ["eins", "zwei"], "en": ["one", "two"]}), buffer)
    corpus = read_corpus(table(tmp_path, "parquet", buffer.getvalue(), name="a[1]"), key="data.train.0")
    assert (corpus.sources, corpus.targets) == (["eins", "zwei"], ["one", "two"])


GOOD = b'{"de": "a", "en": "b"}\n'


def parquet(columns: dict[str, list[object]]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), buffer, row_group_size=100)
    return buffer.getvalue()


def twice() -> bytes:
    """Parquet with two columns of one name."""
    import pyarrow
    import pyarrow.parquet

    buffer = io.BytesIO()
    column = pyarrow.array(["a"])
    pyarrow.parquet.write_table(pyarrow.table([column] * 3, names=["de", "en", "de"]), buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        ("csv", b"a,b\n1,2\n", ": source_column = 'de' does not exist; the columns are a, b"),
        ("csv", b"de,fr\n1,2\n", ": target_column = 'en' does not exist; the columns are de, fr"),
        (
            "csv",
            b"de,en\na,b\na, b, c\n",
            ", line 3: has 3 cells, and the header has 2; put a cell with commas in double quotes",
        ),
        ("csv", b"de,en,de\na,b,c\n", ": source_column = 'de' is the name of several columns; rename them"),
        ("csv", b"en,de,en\na,b,c\n", ": target_column = 'en' is the name of several columns; rename them"),
        ("json", b'{"de": "a", "en": "b", "de": "c"}\n', ", line 1: is not JSON (an object gives a key twice); each"),
        (
            "json",
            b'[{"de": "a", "de": "c", "en": "b"}]',
            ": begins like a JSON array, but cannot be read as one (an object",
        ),
        ("json", b'[null, {"de": "a", "en": "b"}]', ", row 1: is JSON but not an object: null"),
        (
            "json",
            b'[{"de": "a", "en": "b"}, {"de": 5, "en": "b"}]',
            ", row 2: column 'de' is 5, of type int, where text",
        ),
        ("json", b'[{"de": "a", "en": null}]', ", row 1: column 'en' is null where text is needed"),
        ("parquet", twice(), ": source_column = 'de' is the name of several columns; rename them"),
        ("csv", b'de,en\n\n"a\nb",c\na\n', ", line 5: has 1 cell, and the header has 2; a cell with"),
        ("csv", b'de,en\na,b\n"x,c\nd,e\n', ", line 4: is not CSV (unexpected end of data)"),
        ("csv", b'de,en\n"x"y,c\n', ", line 2: is not CSV (',' expected after '\"')"),
        ("csv", b"de,en\na\rb,c\n", ", line 2: is not CSV (new-line character seen in unquoted field"),
        ("csv", b"de,en\na,b\n\xff,b\n", ", line 3: byte 1 of the line (0xff) is not UTF-8"),
        ("csv", b"\n\n", ": the file has no header"),
        ("csv", b"", ": the file is empty"),
        ("json", GOOD + b'{"de": "a"}\n', ", line 2: has no 'en', which column 'en' needs, but the keys de"),
        ("json", b'{"de": 7, "en": "b"}\n', ", line 1: column 'de' is 7, of type int, where text is needed"),
        ("json", GOOD + b'\n{"de": null, "en": "b"}\n', ", line 3: column 'de' is null where text is needed"),
        ("json", b'{"de": {"x": "a"}, "en": "b"}\n', ', line 1: column \'de\' is {"x": "a"}, of type dict, where text'),
        ("json", b"{nope\n", ", line 1, character 2: is not JSON (Expecting property name enclosed in double quotes)"),
        ("json", GOOD * 7 + GOOD[:-2] + b"\n", ", line 8, character 22: is not JSON (Expecting ',' delimiter)"),
        ("json", GOOD + b"null\n", ", line 2: is JSON but not an object: null"),
        ("json", b"null\n", ", line 1: is JSON but not an object: null"),  # `datasets` dies of it with the process
        ("json", GOOD + b"[" * 100_000 + b"\n", ", line 2: is nested too deeply"),
        ("json", b'{"de": "\\ud800", "en": "b"}\n', ", line 1: column 'de' has half a surrogate pair"),
        ("json", b'{"de": "\xff", "en": "b"}\n', ", line 1: byte 9 of the line (0xff) is not UTF-8"),
        ("json", b'[{"de": "a", "en": "b"}, {"de": "a"}]', ", row 2: has no 'en', which column"),
        ("json", b'[{"de": "a"', ": begins like a JSON array, but cannot be read as one ("),
        ("parquet", b"nope", ": cannot be read as parquet (ArrowInvalid: "),
        (
            "parquet",
            parquet({"de": ["a"] * 300, "en": ["b"] * 300})[:-9],
            ": cannot be read as parquet (ArrowInvalid: ",
        ),
        (
            "parquet",
            parquet({"de": ["a"], "en": [7]}),
            ": row 1 of column 'en' is 7, of type int, where text is needed",
        ),
        (
            "parquet",
            parquet({"de": [*["a"] * 1500, None], "en": ["b"] * 1501}),
            ": row 1501 of column 'de' is null where text is needed",
        ),
    ],
)
def test_bad_tables(tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str, data: bytes, message: str) -> None:
    corpus = table(tmp_path, kind, data)
    with pytest.raises(InputError) as caught:
        read_corpus(corpus, key="data.train.3")
    assert str(caught.value).startswith(f"data.train.3: {corpus.path}{message}")
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")  # neither progress bars nor log lines of the libraries


def test_a_nested_key_that_is_missing_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    rows = b'{"translation": {"de": "a", "en": "b"}}\n{"translation": {"de": "a", "fr": "b"}}\n'
    corpus = table(tmp_path, "json", rows, source="translation.de", target="translation.en")
    with pytest.raises(InputError) as caught:
        read_corpus(corpus, key="data.train.0")
    assert str(caught.value) == (
        f"data.train.0: {corpus.path}, line 2: 'translation' has no 'en', which column 'translation.en' needs, but the"
        " keys de, fr"
    )


def test_compressed_tables(tmp_path: Path) -> None:
    for kind, data in (("json", GOOD * 3), ("csv", b"de,en\n" + b"a,b\n" * 3)):
        path = write(tmp_path / f"t.{kind}.gz", gzip.compress(data))
        corpus = TableCorpus(kind=kind, path=path, source_column="de", target_column="en")  # type: ignore[arg-type]
        assert read_corpus(corpus, key="data.train.0")[1:3] == (["a"] * 3, ["b"] * 3)


def test_cells_may_be_long_and_odd(tmp_path: Path) -> None:
    cells = ["x" * 200_000, "\0", "\u2028\x85\r\n\x0b", "", " "]
    rows = "".join(json.dumps({"de": cell, "en": cell}) + "\n" for cell in cells).encode()
    assert read_corpus(table(tmp_path, "json", rows), key="k").sources == cells
    assert read_corpus(table(tmp_path, "parquet", parquet({"de": cells, "en": cells})), key="k").sources == cells
    data = "de,en\n" + "".join(f'"{cell}","{cell}"\n' for cell in ["x" * 200_000, "", "\u2028\x85\n"])
    assert read_corpus(table(tmp_path, "csv", data.encode()), key="k").sources == ["x" * 200_000, "", "\u2028\x85\n"]


def test_a_file_that_was_changed_is_read_anew(tmp_path: Path) -> None:
    for text in ("a", "b"):
        assert read_corpus(table(tmp_path, "json", GOOD.replace(b"a", text.encode())), key="k").sources == [text]
        assert read_corpus(table(tmp_path, "csv", f"de,en\n{text},x\n".encode()), key="k").sources == [text]


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
    assert read_corpus(hub, key="data.train.0") == ("wmt14[train[1:]]", ["zwei"], ["two"], 1.0, None, None)
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
        " host); check the network and the names, or download the data and use kind text, tsv, json, csv or"
        " parquet"
    )
