"""Cleaning: what was put into clean text is removed, with its rule, and the rest stays as it is."""

import json
import re
from pathlib import Path

import pytest
import yaml

from translate.config.load import load_config
from translate.errors import InputError
from translate.lint.clean import CleanedCorpus, clean
from translate.lint.findings import KINDS, choose_rules

Lines = list[str]


def write(folder: Path, text: dict[str, Lines]) -> None:
    for name, lines in text.items():
        (folder / name).write_bytes("".join(f"{line}\n" for line in lines).encode())


def read(path: Path) -> Lines:
    return path.read_bytes().decode().removesuffix("\n").split("\n")


def run(config: Path, *overrides: str, rules: tuple[str, ...] | None = None) -> list[CleanedCorpus]:
    loaded = load_config(str(config), overrides, require_files=True)
    return clean(loaded, config.with_name("out"), choose_rules(rules or (), ()))


def removed(folder: Path) -> list[tuple[str, int, str]]:
    header, *rows = read(folder / "out" / "removed.tsv")
    assert header == "corpus\tline\trule\tsource\ttarget"
    return [(key, int(line), rule) for key, line, rule, *_ in (row.split("\t") for row in rows)]


def test_choice_of_rules() -> None:
    assert choose_rules((), ()) == tuple(KINDS)
    assert choose_rules(("leaked", "equal"), ()) == ("equal", "leaked")  # in the table's order
    assert choose_rules(("markup", "equal"), ("equal",)) == ("markup",)
    for only, keep, words in ([["equl"], [], "--rule equl"], [[], ["x"], "--keep x"]):
        with pytest.raises(InputError, match=words):
            choose_rules(only, keep)


def test_clean_text_stays(clean_config: Path, text: dict[str, Lines]) -> None:
    (report,) = run(clean_config)
    assert (report.key, report.num_pairs, report.num_kept, report.removed) == ("data.train.0", 1200, 1200, ())
    assert read(clean_config.with_name("out") / "train.0.de") == text["train.de"]
    assert removed(clean_config.parent) == []


def test_what_is_put_in_is_removed(clean_config: Path, text: dict[str, Lines]) -> None:
    sources, targets = text["train.de"], text["train.en"]
    clean_pairs = list(zip(sources, targets, strict=True))
    put_in: dict[int, str] = {}

    def spoil(line: int, rule: str, source: str | None = None, target: str | None = None) -> None:
        sources[line] = sources[line] if source is None else source
        targets[line] = targets[line] if target is None else target
        put_in[line] = rule

    spoil(30, "empty", source="")
    spoil(40, "equal", target=sources[40].upper())
    spoil(50, "leaked", f"- {text['valid.de'][3]}", "Another\ttranslation\\")
    spoil(60, "repeated", sources[3].upper(), targets[3])
    spoil(70, "near_repeated", f"„{sources[5]}“", targets[5].rstrip("."))
    spoil(120, "source_like_target", source=targets[700])
    spoil(130, "target_like_source", target=sources[700])
    spoil(140, "unrelated", source="Dwóch mężczyzn stoi przed sklepem i rozmawia o pogodzie.")
    spoil(150, "unrelated", target=targets[800])
    spoil(160, "unlikely_length", target=" ".join(targets[160:164]))
    spoil(170, "invisible", source=f"\u200b{sources[170]}")
    spoil(180, "mojibake", source=f"Ã¤{sources[180]}")
    spoil(190, "markup", target=f"<b>{targets[190]}</b>")
    spoil(195, "quoted", target=f'"{targets[195]} ""so"""')
    spoil(200, "repeated", sources[40], sources[40].upper())  # a copy too, and that is the first rule
    put_in[200] = "equal"
    write(clean_config.parent, text)
    (report,) = run(clean_config)
    assert {line - 1: rule for _, line, rule in removed(clean_config.parent)} == put_in
    counts = {each.kind: each.num_pairs for each in report.removed}
    assert counts == {rule: [*put_in.values()].count(rule) for rule in put_in.values()}
    out = clean_config.with_name("out")
    kept = [pair for line, pair in enumerate(clean_pairs) if line not in put_in]
    assert list(zip(read(out / "train.0.de"), read(out / "train.0.en"), strict=True)) == kept
    assert "Another\\ttranslation\\\\" in (out / "removed.tsv").read_text(encoding="utf-8")  # tabs are escaped
    # The next training reads the rest, and nothing else is another config.
    cleaned, given = (load_config(str(path), require_files=True).config for path in (out / "config.yaml", clean_config))
    assert cleaned.data.train[0].source == (out / "train.0.de").resolve()  # type: ignore[union-attr]
    assert cleaned.name != given.name  # a directory of runs may have both
    unlike = {"name": given.name, "data": given.data}
    assert cleaned.model_copy(update=unlike) == given and cleaned.data.validation == given.data.validation


def test_a_block_that_is_shifted(clean_config: Path, text: dict[str, Lines]) -> None:
    targets = text["train.en"]
    targets[600:640] = [*targets[601:640], targets[600]]
    write(clean_config.parent, text)
    run(clean_config, rules=("shifted", "unrelated"))
    found = {line - 1 for _, line, _ in removed(clean_config.parent)}
    assert len(found & {*range(600, 640)}) >= 37 and len(found - {*range(600, 640)}) <= 2


def test_a_removed_pair_is_not_an_earlier_one(clean_config: Path, text: dict[str, Lines]) -> None:
    sources, targets = text["train.de"], text["train.en"]
    sources[5] += "\u200b"  # nothing of it is left in the key
    sources[9], targets[9] = sources[5].rstrip("\u200b"), targets[5]
    write(clean_config.parent, text)
    run(clean_config)
    assert removed(clean_config.parent) == [("data.train.0", 6, "invisible")]


def test_corpora_keep_their_keys(clean_config: Path, text: dict[str, Lines]) -> None:
    folder = clean_config.parent
    text["train.de"][7] = text["valid.de"][1]
    text["train.en"][9] = text["valid.en"][2].upper()  # the source of the other direction
    write(folder, text)
    more_pairs = [("eins", "one"), ("zwei", "zwei"), ("drei", "three\n"), ("vier\0", "four")]
    rows = [{"source": source, "target": target} for source, target in more_pairs]
    (folder / "more.json").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    config = yaml.safe_load(clean_config.read_text(encoding="utf-8"))
    both = {"kind": "text", "source": "train.de", "target": "train.en", "both_directions": True, "weight": 2.0}
    languages = {"source_language": "de", "target_language": "en"}
    tagged = {"source_tag": "<more>", "augment": {"typos": 0.1}}
    more = {"kind": "json", "path": "more.json", "source_column": "source", "target_column": "target",
            **languages, **tagged}  # fmt: skip
    valid = {"kind": "text", "source": "valid.de", "target": "valid.en", "both_directions": True}
    config["data"] |= {"train": [both | languages, more], "validation": {"set": valid | {"augment": {"typos": 1.0}}}}
    clean_config.write_text(yaml.safe_dump(config), encoding="utf-8")
    first, second = run(clean_config)
    assert (first.key, first.num_kept, second.key, second.num_kept) == ("data.train.0", 1198, "data.train.2", 1)
    assert removed(folder) == [
        ("data.train.0", 8, "leaked"),
        ("data.train.0", 10, "leaked"),
        ("data.train.2", 2, "equal"),
        ("data.train.2", 3, "line_end"),
        ("data.train.2", 4, "control"),
    ]
    assert "\tvier\\0\tfour" in (folder / "out" / "removed.tsv").read_text(encoding="utf-8")
    shown = (folder / "out" / "config.yaml").read_text(encoding="utf-8")
    assert re.search(r"typos: 0.1 +# \S+mine\.yaml:", shown)  # where it was given
    written = yaml.safe_load(shown)["data"]["train"]
    places = [{key: Path(corpus.pop(key)).name for key in ("source", "target")} for corpus in written]
    assert places[0] == {"source": "train.0.de", "target": "train.0.en"}
    languages["kind"] = "text"
    assert written == [languages | {"both_directions": True, "weight": 2.0}, languages | tagged]
    assert len(load_config(str(folder / "out" / "config.yaml"), require_files=True).config.data.train) == 3


def test_what_cannot_be_written(clean_config: Path, text: dict[str, Lines]) -> None:
    folder = clean_config.parent
    (folder / "more.json").write_text(json.dumps({"s": "eins\nzwei", "t": "one two"}), encoding="utf-8")
    corpus = f"data.train=[{{kind: json, path: {folder}/more.json, source_column: s, target_column: t}}]"
    copies = corpus.replace("[", f"[{{kind: text, source: {folder}/valid.de, target: {folder}/valid.de}}, ")
    with pytest.raises(InputError, match=r"data\.train\.1, row 1: .*line_end"):  # before anything is judged
        run(clean_config, copies, rules=("equal",))
    with pytest.raises(InputError, match=r"data\.train\.0: no pair is left of 1,.*--keep line_end"):
        run(clean_config, corpus)
    assert not (folder / "out").exists()


def test_breaks_in_strings_of_catalogs_become_spaces(
    clean_config: Path, text: dict[str, Lines], caplog: pytest.LogCaptureFixture
) -> None:
    """They are no noise there; in other tables `line_end` removes them."""
    caplog.set_level("INFO", "translate")
    pairs = list(zip(text["train.de"], text["train.en"], strict=True))
    entries = [f'msgid "{english} %d"\nmsgstr "{german} %d"\n' for german, english in pairs]
    entries[3] = entries[3].replace(" %d", r"\n%d")
    header = r'msgid ""' + "\n" + r'msgstr "Language: de\n"' + "\n"
    (clean_config.parent / "de.po").write_text("\n".join([header, *entries]), encoding="utf-8")
    corpus = f"data.train=[{{kind: po, path: {clean_config.parent}/de.po, source_column: de, target_column: en}}]"
    (report,) = run(clean_config, corpus, rules=("line_end",))
    assert (
        report.num_kept == report.num_pairs == len(pairs)
        and "data.train.0: breaks within strings, in 1 pairs" in caplog.text
    )
    assert read(clean_config.with_name("out") / "train.0.de")[3] == f"{pairs[3][0]} %d"
