"""A corpus without a config: its languages are found, and no held-out sentence is in training, on either side."""

import random
import re
from pathlib import Path

import pytest
from harness import write_lines

from translate.config.data import Direction, HubCorpus, TableCorpus, TextCorpus, TsvCorpus
from translate.data.corpora import ParallelCorpus
from translate.errors import InputError
from translate.lint.near_duplicates import near_duplicate_hashes
from translate.starter.corpus import find_corpora, read_named, split_pairs, write_split


def corpus(sources: list[str], targets: list[str]) -> ParallelCorpus:
    return ParallelCorpus("x", sources, targets, 1.0)


def sentences(number: int, *, seed: int) -> list[str]:
    """Different sentences of invented words; a word has a letter for each digit, so that no two share a key."""
    draw, digits = random.Random(seed), str.maketrans("0123456789", "abcdefghij")
    numbers = (f"{seed}{each}".translate(digits) for each in range(number))
    return [f"{each} {'la ' * draw.randint(3, 5)}".strip() for each in numbers]


def keys(lines: list[str]) -> set[int]:
    return {*near_duplicate_hashes(lines).tolist()}


def parts_of(
    whole: ParallelCorpus, **held_out: ParallelCorpus
) -> tuple[dict[str, tuple[list[str], list[str]]], dict[str, int]]:
    split = split_pairs(whole, held_out)
    sides = {name: [[side[pair] for pair in pairs] for side in whole[1:3]] for name, pairs in split.parts.items()}
    return {name: (each[0], each[1]) for name, each in sides.items()}, split.left_out


def test_held_out_sets_share_no_sentence_with_training() -> None:
    sources, targets = sentences(1500, seed=1), sentences(1500, seed=2)
    sources[600:700] = [f"  {line.upper()}!" for line in sources[500:600]]  # near-duplicates of one side each
    targets[800:900] = [f"„{line}“ " for line in targets[700:800]]
    whole = corpus(sources, targets)
    parts, left_out = parts_of(whole)
    assert [len(each[0]) for each in parts.values()] == [1350, 75, 75] and not left_out
    for side in (0, 1):
        train, validation, test = (keys(each[side]) for each in parts.values())
        assert len(validation) == len(test) == 75 and not validation & test and not train & (validation | test)
    assert parts_of(whole)[0] == parts


def test_a_tenth_is_held_out_where_sentences_repeat() -> None:
    """Such as several translations of each sentence, and numbered headings, whose digits do not count."""
    parts, left_out = parts_of(corpus(sentences(400, seed=1) * 5, sentences(2000, seed=2)))
    assert [len(each[0]) for each in parts.values()] == [1800, 20, 20]
    assert left_out == {"sharing a sentence with a held-out pair": 160}
    numbered = [
        [*sentences(60, seed=len(word)), *(f"{word} {number}" for number in range(1500))] for word in ("Nr", "No.")
    ]
    parts, _ = parts_of(corpus(*numbered))
    train, validation, test = (len(each[0]) for each in parts.values())
    assert train >= 1500 and validation >= test >= 20  # of the 60 others


EQUAL = "equal on both sides (in text of programs, short labels stay, up to 5 % of the pairs)"


def test_what_is_left_out_is_counted_once() -> None:
    sources, targets = sentences(1200, seed=1), sentences(1200, seed=2)
    odd = {"…": "…!", "": "x", "a" * 5001: "b", f" {sources[0]}": targets[0], f"{sources[1].upper()} ": targets[1]}
    parts, left_out = parts_of(corpus([*sources, *odd], [*targets, *odd.values()]))
    counts = {"without a letter or digit on one side": 2, "longer than 5,000 characters": 1}
    counts["repeating an earlier pair"] = 2
    assert left_out == counts and sum(len(each[0]) for each in parts.values()) == 1200
    equal = [f"{line} ok" for line in sources[:13]]
    assert parts_of(corpus(sources + equal[:12], targets + equal[:12]))[1] == {}  # under 1 %, names for example
    assert parts_of(corpus(sources + equal, targets + equal))[1] == {EQUAL: 13}


def test_labels_of_programs_may_be_equal_on_both_sides() -> None:
    sources, targets = sentences(1200, seed=1), sentences(1200, seed=2)
    labels = [f"Name {number}" for number in range(70)]  # a name, a code: of 1,270 pairs one in twenty may be a label
    assert parts_of(corpus(sources + labels, targets + labels))[1] == {EQUAL: 70 - 1270 // 20}
    stops = [f"{line}." for line in sources], [f"{line}." for line in targets]
    assert parts_of(corpus(stops[0] + labels, stops[1] + labels))[1] == {EQUAL: 70}  # among sentences


def test_sets_that_are_given_stay_as_they_are() -> None:
    whole = corpus(sentences(1100, seed=1), sentences(1100, seed=2))
    given = corpus([f"{whole.sources[7]}!", "new"], ["other", whole.targets[9].title()])
    parts = split_pairs(whole, {"validation": given, "test": given})
    assert parts.left_out == {"sharing a sentence with a held-out pair": 2}
    assert {*range(1100)} - {*parts.parts["train"].tolist()} == {7, 9} and parts.parts["test"].tolist() == [0, 1]


def test_too_little_text_is_refused_with_the_reasons() -> None:
    lines = sentences(999, seed=1)
    with pytest.raises(InputError, match=r"^x: 999 of 1,000 pairs .*1 longer than 5,000 .* 1,000"):
        split_pairs(corpus([*lines, "a" * 10**6], [*sentences(999, seed=2), "b"]), {})
    with pytest.raises(InputError, match="^x: nearly every pair shares a sentence with many others"):
        split_pairs(corpus(sentences(2000, seed=1), sentences(5, seed=2) * 400), {})


def test_a_part_is_written_with_one_sentence_per_line(tmp_path: Path) -> None:
    whole = corpus([f"{line}\r\nzwei\0" for line in sentences(1000, seed=1)], sentences(1000, seed=2))
    direction, _ = find_corpora_in(tmp_path, "a.de", "a.en")
    write_split(split_pairs(whole, {}), {"train": whole}, tmp_path, direction)
    lines = (tmp_path / "train.de").read_bytes().split(b"\n")
    assert len(lines) == 901 and not lines.pop() and all(line.endswith(b"la zwei ") for line in lines)


def find_corpora_in(folder: Path, source: str, target: str | None = None, *codes: str | None) -> tuple:
    from_, to = codes or (None, None)
    for name in filter(None, (source, target)):
        if not (folder / name).exists():
            write_lines(folder / name, ["x"])
    direction, corpora = find_corpora([str(folder / name) for name in (source, target) if name], from_=from_, to=to)
    return direction, {part: tables[0] for part, tables in corpora.items()}


@pytest.mark.parametrize(
    ("names", "codes", "found"),
    [
        (("train.de", "train.en.gz"), (None, None), "de-en"),
        (("a.pt-BR", "a.deu_Latn"), (None, None), "pt-BR-deu_Latn"),
        (("a.txt", "b.txt"), ("gsw", "de"), "gsw-de"),
    ],
)
def test_languages_of_text_files(tmp_path: Path, names: tuple[str, str], codes: tuple[str, str], found: str) -> None:
    direction, corpora = find_corpora_in(tmp_path, *names, *codes)
    assert str(direction) == found and isinstance(corpora["train"], TextCorpus)


def test_text_files_the_other_way_round_are_exchanged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "translate.starter.corpus")
    direction, corpora = find_corpora_in(tmp_path, "a.en", "a.de", "de", "en")
    text = corpora["train"]
    assert (str(direction), text.source.name, text.target.name) == ("de-en", "a.de", "a.en")
    assert "a.en and a.de" in caplog.text


UNIT = '<tu><tuv xml:lang="{}"><seg>a</seg></tuv><tuv xml:lang="{}"><seg>b</seg></tuv></tu>'
TABLES = {  # content, options, columns that are found and the direction
    "a.csv": ("id,de,note,en\n1,a,,b\n", (None, None), "de en de-en"),
    "b.csv": ("de,en\na,b\n", ("en", "de"), "en de en-de"),
    "excel.csv": ("sep=;\nde; en\na;b\n", (None, None), "de en de-en"),
    "source.csv": ("id,source,de,en\n1,web,a,b\n", ("de", "en"), "de en de-en"),
    "c.csv": ("id,Source,TARGET\n1,a,b\n", ("de", "en"), "Source TARGET de-en"),
    "left.jsonl": ('{"left": "a", "right": "b"}', ("de", "en"), "left right de-en"),
    "a.tsv": ("Ein Hund\tA dog\n", ("de", "en"), "0 1 de-en"),
    "words.tsv": ("Ja\tNo\n", ("de", "en"), "0 1 de-en"),
    "names.csv": ("ID,English,German\n1,a,b\n", (None, None), "English German en-de"),
    "own names.csv": ("Deutsch;Englisch;Notiz\na;b;c\n", ("en", "de"), "Englisch Deutsch en-de"),
    "sides.csv": ("Source (English),target (Deutsch)\na,b\n", (None, None), "Source (English) target (Deutsch) en-de"),
    "regions.csv": (
        "Portuguese (Brazil),Portuguese (Portugal)\na,b\n",
        (None, None),
        "Portuguese (Brazil) Portuguese (Portugal) pt-BR-pt-PT",
    ),
    "scripts.csv": (
        "Chinese (Simplified),English (source)\na,b\n",
        (None, None),
        "Chinese (Simplified) English (source) zh-Hans-en",
    ),
    "words.csv": ("Mono,English,German,Even,TM\n,a,b,,\n", (None, None), "English German en-de"),
    "regions.tsv": ("deu\ten-US\na\tb\n", (None, None), "deu en-US de-en-US"),
    "names.tsv": ("Français\tEnglish\nun\tone\n", ("en", "fr"), "English Français en-fr"),
    "a pair.tsv": ("English\tEnglisch\n", ("en", "de"), "0 1 en-de"),
    "another.tsv": ("German\tDeutsch\n", ("en", "de"), "0 1 en-de"),
    "short.tsv": ("the\tder\n", ("en", "de"), "0 1 en-de"),  # codes of Chitwania Tharu and Deori
    "b.tsv": ("en\tde\nA dog\tEin Hund\n", ("de", None), "de en de-en"),
    "a.jsonl": ('{"id": 1, "t": {"de": "a", "en": "b"}}\n', (None, None), "t.de t.en de-en"),
    "a.json": ('{"source": "a", "target": "b", "x": null}', ("de", "en"), "source target de-en"),
    "a.tmx": (f"<tmx>{UNIT.format('de-AT', 'EN')}{UNIT.format('en-GB', 'de-DE')}</tmx>", (None, None), "de en de-en"),
    "b.tmx": (f"<tmx>{UNIT.format('en', 'fr')}{UNIT.format('de-DE', 'en')}</tmx>", ("de", "en"), "de en de-en"),
}


@pytest.mark.parametrize("name", TABLES)
def test_columns_and_languages_of_tables(tmp_path: Path, name: str) -> None:
    content, codes, found = TABLES[name]
    (tmp_path / name).write_text(content)
    direction, corpora = find_corpora_in(tmp_path, name, None, *codes)
    table = corpora["train"]
    assert isinstance(table, TableCorpus | TsvCorpus)
    assert f"{table.source_column} {table.target_column} {direction}" == found


@pytest.mark.parametrize(
    ("name", "content", "codes", "message"),
    [
        ("a.csv", "fr,de,en\n", (None, None), "columns fr, de, en: .*--from"),
        ("a.csv", "fr,de\n", ("de", "en"), "de and en, .* fr, de"),
        ("a.csv", "source,target\n", (None, None), "source, target: .*--from"),
        ("a.csv", "Ein Hund,A dog\n", ("de", "en"), "de and en, .* Ein Hund, A dog; .*first line"),
        ("a.csv", "\n", (None, None), "a.csv: has no text"),
        ("a.jsonl", '["a"]', (None, None), "a.jsonl, line 1: is .'a'., "),
        ("a.tsv", "one\n", ("de", "en"), "de and en"),
        (
            "a.tmx",
            f"<tmx>{UNIT.format('de', 'en')}{UNIT.format('de', 'fr')}</tmx>",
            (None, None),
            "de, en, fr: .*--from",
        ),
        ("a.csv", "de,en\n", ("d/e", "en"), "--from d/e"),
        ("a.docx", "{\\rtf1 one", ("de", "en"), "a.docx: is an RTF file"),
        ("a.txt", "one", ("de", "en"), "a.txt: name the file with its translations .*tmx"),
    ],
)
def test_unclear_tables_are_refused(
    tmp_path: Path, name: str, content: str, codes: tuple[str, str], message: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        find_corpora_in(tmp_path, name, None, *codes)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("a.de a.tmx", "a.de, .*: name the two text files"),
        ("a.de a.en b.de", "a.de, .*: name the two text files"),
        ("empty", "empty: is a folder without .*[.]tsv"),
        ("*.en", r"\*.en: matches no file"),
    ],
)
def test_files_that_are_no_corpus(tmp_path: Path, names: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("a.de", "b.de", "a.tmx"):
        (tmp_path / name).touch()
    (tmp_path / "a.en" if "a.en" in names else tmp_path / "x").touch()
    with pytest.raises(InputError, match=message):
        find_corpora([str(tmp_path / name) for name in names.split()], from_="de", to="en")


def write_memories(folder: Path, **languages: str) -> None:
    """A TMX for each name with one unit: its texts are their languages followed by the name."""
    for name, codes in languages.items():
        texts = (f'<tuv xml:lang="{code}"><seg>{code} {name}</seg></tuv>' for code in codes.split())
        (folder / "more").mkdir(exist_ok=True)
        (folder / ("more" if name > "b" else "") / f"{name}.tmx").write_text(f"<tmx><tu>{''.join(texts)}</tu></tmx>")


@pytest.mark.parametrize("texts", [["."], ["*.tmx", "more/*"], ["**/*.tmx"], ["a.tmx", "b.tmx", "more/c.tmx", "more/"]])
def test_several_tables_are_one_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, texts: list[str]
) -> None:
    caplog.set_level("INFO", "translate")
    monkeypatch.chdir(tmp_path)
    write_memories(tmp_path, a="en de", b="en fr", c="en-GB de-AT", d="en sv")
    direction, corpora = find_corpora(texts, from_=None, to="de")
    read = read_named(corpora, direction)["train"]
    assert str(direction) == "en-de" and read.name.endswith("a.tmx and 1 more")
    assert [*read.sources, *read.targets] == ["en a", "en-GB c", "de a", "de-AT c"]
    assert [message for message in caplog.messages if "2 of 4 files" in message]
    assert all(name in caplog.text for name in ("b.tmx", "d.tmx"))
    with pytest.raises(InputError, match=r"en-de \(2 files\), en-fr \(1 files?\), en-sv .*--to"):
        find_corpora(texts, from_=None, to=None)
    with pytest.raises(InputError, match="a.tmx: has en, de, and not it and de"):
        find_corpora(texts, from_="it", to="de")


def test_tables_of_several_kinds_are_one_corpus(tmp_path: Path) -> None:
    write_memories(tmp_path, a="en de")
    write_lines(tmp_path / "b.tsv", ["German\tEnglish", "de b\ten b"])
    write_lines(tmp_path / "c.csv", ["fr,it", "x,y"])
    direction, corpora = find_corpora([str(tmp_path)], from_="en", to="de")
    assert [*read_named(corpora, direction)["train"].targets] == ["de a", "de b"]
    for name in ("e.po", "e.mo"):  # compiled from it, or damaged
        write_lines(tmp_path / name, ['msgid ""', r'msgstr "Language: de\n"', "", 'msgid "en e"', 'msgstr "de e"'])
    direction, corpora = find_corpora([str(tmp_path)], from_="en", to="de")
    assert [*read_named(corpora, direction)["train"].targets] == ["de a", "de b", "de e"]
    (tmp_path / "d.tmx").write_text("<tmx>")
    with pytest.raises(InputError, match="d.tmx: cannot be read as tmx"):
        find_corpora([str(tmp_path)], from_="en", to="de")


def test_a_data_set_of_the_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import datasets

    rows = datasets.Dataset.from_dict({"translation": [{"de": "eins", "en": "one"}]})
    splits = datasets.DatasetDict(test=rows, train=rows, validation=rows)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets, "get_dataset_config_names", lambda name: ["cs-en", "de-en"])
    monkeypatch.setattr(datasets, "get_dataset_default_config_name", lambda name: None)
    monkeypatch.setattr(datasets, "load_dataset", lambda name, subset, **options: splits)
    direction, corpora = find_corpora(["wmt/wmt14"], from_="en", to="de")
    columns = {"source_column": "translation.en", "target_column": "translation.de"}
    wanted = {name: [HubCorpus(dataset="wmt/wmt14", subset="de-en", split=name, **columns)] for name in corpora}  # type: ignore[arg-type]
    assert (str(direction), corpora) == ("en-de", wanted) and corpora.keys() == splits.keys()
    with pytest.raises(InputError, match="wmt/wmt14: .*--from.* cs-en, de-en"):
        find_corpora(["wmt/wmt14"], from_=None, to=None)
    del splits["test"]
    assert find_corpora(["wmt/wmt14"], from_="de", to="en")[1].keys() == {"train"}
    monkeypatch.setattr(datasets, "get_dataset_config_names", lambda name: splits["test"])
    with pytest.raises(InputError, match="^wmt/wmt14: cannot be read"):
        find_corpora(["wmt/wmt14"], from_="de", to="en")


def test_two_sides_in_one_language_are_refused(tmp_path: Path) -> None:
    data = Path(__file__).resolve().parents[2] / "data"
    lines = (data / "train.de").read_text(encoding="utf-8").splitlines()[:1500]
    write_lines(tmp_path / "a.de", lines[:750])
    write_lines(tmp_path / "a.en", lines[750:])
    _, corpora = find_corpora_in(tmp_path, "a.de", "a.en")
    with pytest.raises(InputError, match=re.escape(f"{tmp_path / 'a.de'}, {tmp_path / 'a.en'}: both sides")):
        read_named({"train": [corpora["train"]]}, Direction("de", "en"))


@pytest.mark.parametrize("rows", [300, 1014])
def test_each_table_is_judged_by_its_own_text(tmp_path: Path, rows: int) -> None:
    """Columns that are named stay, whatever their text is; of the others those are exchanged that are wrong."""
    data = Path(__file__).resolve().parents[2] / "data"
    german, english = ((data / f"train.{code}").read_text(encoding="utf-8").splitlines() for code in ("de", "en"))
    pairs = [*zip(german[:2028], english, strict=False)]
    for name, reverse, header in (("a", 0, ""), ("b", 1, ""), ("c", 1, "English\tGerman"), ("d", 0, "de\ten")):
        part = pairs[: 1014 if name in "ac" else rows] if name < "c" else pairs[1014 : 1014 + rows]
        write_lines(
            tmp_path / f"{name}.tsv",
            [*filter(None, [header]), *("\t".join(pair[:: -1 if reverse else 1]) for pair in part)],
        )
    direction, corpora = find_corpora([str(tmp_path)], from_="en", to="de")
    read = read_named(corpora, direction)["train"]
    expected = [*pairs[:1014], *pairs[:rows], *pairs[1014 : 1014 + rows], *pairs[1014 : 1014 + rows]]
    assert [
        *zip(read.targets, read.sources, strict=True)
    ] == expected and read.name == f"{tmp_path / 'a.tsv'} and 3 more"


def test_sides_the_other_way_round_are_exchanged(caplog: pytest.LogCaptureFixture) -> None:
    """The text decides, if it is long enough to show its languages."""
    caplog.set_level("INFO", "translate.starter.corpus")
    data = Path(__file__).resolve().parents[2] / "data"
    named = {"train": [TextCorpus(source=data / "train.de", target=data / "train.en")]}
    straight = read_named(named, Direction("de", "en"))["train"]
    assert straight.sources[0] == (data / "train.de").read_text(encoding="utf-8").split("\n")[0] and not caplog.messages
    swapped = read_named(named, Direction("en", "de"))["train"]
    assert swapped[1:3] == straight[2:0:-1] and "other way round" in caplog.text
    assert read_named(named, Direction("fr", "de"))["train"][1:3] == straight[1:3]
