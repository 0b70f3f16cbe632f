"""`evaluate` is translating and scoring; its report holds all of it; test sets are found by name or refused."""

import hashlib
import itertools
import json
from pathlib import Path

import pytest
import torch
from harness import random_model, write_lines

from translate.config.decoding import DecodingConfig
from translate.config.schema import Config, EvaluationConfig, TokenizerConfig
from translate.data.tokenizer import prepare_tokenizers
from translate.decoding import Translation, Translator
from translate.distributed.process_group import DistributedEnvironment, World
from translate.errors import InputError, RunError
from translate.evaluation.evaluate import evaluate, report_folder, write_report
from translate.evaluation.metrics import SCORES, score_translations
from translate.evaluation.test_sets import choose_test_set, choose_test_sets
from translate.runs.checksums import check_folder, read_checksums
from translate.runs.report import Interval, Metric

SOURCES = ["Ein Hund läuft.", "", "Die Straße ist grün.", "Zwei Hunde schlafen.", "Ein Hund schläft im Gras."]
REFERENCES = ["A dog runs.", "", "The street is green.", "Two dogs sleep.", "A dog sleeps in the grass."]
CONFIG = EvaluationConfig(bootstrap_samples=10)


@pytest.fixture(scope="module")
def translator() -> Translator:
    torch.manual_seed(1)
    tokenizers = prepare_tokenizers(TokenizerConfig(vocab_size=300), SOURCES, REFERENCES)
    decoding = DecodingConfig(beam_size=2, max_length_factor=0.5, max_length_constant=3)
    return Translator(random_model(tokenizers).eval(), tokenizers, decoding)


def test_evaluate_is_translate_and_score(translator: Translator) -> None:
    evaluation = evaluate(translator, SOURCES, REFERENCES, CONFIG)
    translations = translator.translate(SOURCES)
    assert evaluation.translations == translations
    assert evaluation.metrics == score_translations([each.text for each in translations], REFERENCES, CONFIG)
    scores = {metric.name: metric.score for metric in evaluation.metrics}
    assert {name: evaluation.score(name) for name in scores} == scores
    assert list(scores) == [score.name for score in SCORES if score.effort in ("quick", "full")]


def test_processes_sample_what_one_samples(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample depends on the number of its line, whichever process translates it."""
    monkeypatch.setattr("translate.evaluation.evaluate.score_translations", lambda *args, **options: [])
    sampling = translator.with_options(search="sample")
    shares = [
        evaluate(sampling, SOURCES, REFERENCES, CONFIG, world=World(DistributedEnvironment(rank, 3, rank, 3), None))
        for rank in range(3)
    ]
    together = itertools.chain.from_iterable(share.translations for share in shares)
    alone = evaluate(sampling, SOURCES, REFERENCES, CONFIG).translations
    assert [each.text for each in together] == [each.text for each in alone]


def translation(text: str, **changes: bool) -> Translation:
    plain = Translation("Größe", text, [5], -1.5, -1.25, truncated=False, source_truncated=False)
    return plain._replace(**changes)


def test_report_by_hand(tmp_path: Path) -> None:
    cut = translation("é\u2028x", truncated=True, source_truncated=True)
    cut_source = translation("size", source_truncated=True)
    translations = [translation("size", truncated=True), translation(""), cut, cut_source, cut_source]
    metrics = (Metric("BLEU", 12.5, Interval(10.0, 15.0), "case:mixed"), Metric("TER", 50.0, None, "tok:tercom"))
    directory = tmp_path / "evaluation" / "news"
    scores = {"metrics": [metric._asdict() for metric in metrics], "warnings": []}
    for given in (([], {}), (translations, scores)):  # the second replaces the first
        write_report(directory, *given, name="news", step=7, settings={"beam_size": 5})
    hypotheses = (directory / "hypotheses.txt").read_bytes()
    assert hypotheses == "size\n\né\u2028x\nsize\nsize\n".encode()
    report = json.loads((directory / "report.json").read_text(encoding="utf-8"))
    assert report.pop("versions").keys() == {"translate", "python", "torch", "sentencepiece", "sacrebleu"}
    check_folder(directory)
    assert read_checksums(directory).keys() == {"hypotheses.txt", "report.json"}
    assert report == {
        "name": "news",
        "step": 7,
        "hypotheses": f"sha256:{hashlib.sha256(hypotheses).hexdigest()}",
        **{"num_lines": 5, "num_empty": 1, "num_truncated": 2, "num_source_truncated": 3, "num_split": 0},
        **dict.fromkeys(
            ("num_repetitive", "num_length_ratio", "num_unspellable", "num_tagged", "num_unmet", "num_placeholders"), 0
        ),
        "metrics": [
            {"name": "BLEU", "score": 12.5, "interval": [10.0, 15.0], "signature": "case:mixed"},
            {"name": "TER", "score": 50.0, "interval": None, "signature": "tok:tercom"},
        ],
        "warnings": [],
        "decoding": {"beam_size": 5},
    }
    assert sorted(path.name for path in directory.iterdir()) == ["SHA256SUMS", "hypotheses.txt", "report.json"]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    for number, name in enumerate(("valid", "first", "second"), start=1):
        write_lines(tmp_path / f"{name}.de", SOURCES[:number])
        write_lines(tmp_path / f"{name}.en", REFERENCES[:number])

    def corpus(name: str) -> dict[str, str]:
        return {"kind": "text", "source": str(tmp_path / f"{name}.de"), "target": str(tmp_path / f"{name}.en")}

    test = {"first": corpus("first"), "second": corpus("second")}
    also = {"upper": corpus("second") | {"augment": {"upper_case": 1.0}}, "second": corpus("first")}
    return Config.model_validate({"data": {"validation": corpus("valid"), "validation_also": also, "test": test}})


def rename_test_set(config: Config, old: str, new: str) -> Config:
    test = {new if name == old else name: corpus for name, corpus in config.data.test.items()}
    return config.model_copy(update={"data": config.data.model_copy(update={"test": test})})


def chosen(config: Config, name: str | None) -> list[tuple[str, int]]:
    test_sets = choose_test_sets(config, name=name)
    return [(each, len(pairs.sources)) for each, pairs in test_sets.items()]


def test_choosing_test_sets(config: Config) -> None:
    assert chosen(config, None) == [("first", 2), ("second", 3)]
    assert chosen(config, "second") == [("second", 3)]
    assert chosen(config, "validation_also.second") == [("validation_also.second", 2)]
    assert [*config.data.keys_by_name()] == ["validation", "first", "second", "upper", "validation_also.second"]
    assert chosen(config, "validation") == [("validation", 1)]
    renamed = rename_test_set(config, "second", "validation")  # it does not take the place of the validation set
    assert chosen(renamed, "validation") == [("validation", 1)] and chosen(renamed, None)[1] == ("test.validation", 3)
    assert chosen(renamed, "test.validation") == [("test.validation", 3)]
    upper = choose_test_sets(config, name="upper")["upper"]
    assert list(upper.sources) == [line.upper() for line in SOURCES[:3]]
    assert list(upper.targets) == [line.upper() for line in REFERENCES[:3]]


def test_validations_of_several_directions(config: Config) -> None:
    values = config.model_dump(mode="json")
    values["data"]["train"] = [{**values["data"]["validation"], "both_directions": True}]
    values["data"]["validation"]["both_directions"] = values["data"]["test"]["second"]["both_directions"] = True
    both = Config.model_validate_json(json.dumps(values))
    assert chosen(both, None) == [("first", 2), ("second-de-en", 3), ("second-en-de", 3)]
    assert chosen(both, "validation") == [("validation-de-en", 1), ("validation-en-de", 1)]
    assert chosen(both, "en-de") == chosen(both, "validation-en-de") == [("validation-en-de", 1)]
    assert chosen(rename_test_set(both, "first", "en-de"), "en-de") == [("en-de", 2)]
    for name in ("validation", "validation-en-de"):
        renamed = rename_test_set(both, "first", name)
        assert chosen(renamed, "validation") == [("validation-de-en", 1), ("validation-en-de", 1)]
        assert chosen(renamed, "validation-en-de") == [("validation-en-de", 1)]
    back = choose_test_sets(both, name="en-de")["validation-en-de"]
    assert list(back.sources) == REFERENCES[:1] and back.direction == ("en", "de")
    with pytest.raises(InputError, match="--set third: .* validation-de-en, validation-en-de"):
        chosen(both, "third")
    with pytest.raises(InputError, match="validation-de-en, validation-en-de: name one"):
        choose_test_set(both, name="validation")


def test_a_test_set_that_is_not_there(config: Config, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--set third.*none"):
        chosen(Config(), "third")
    with pytest.raises(InputError, match="data.validation.*none") as error:
        chosen(Config(), "validation")
    assert "--set" not in str(error.value), "nobody may have given it"
    with pytest.raises(InputError, match="data.test.*--source and --reference"):
        chosen(Config(), None)
    (tmp_path / "second.en").unlink()
    with pytest.raises(InputError, match=rf"^data.test.second: {tmp_path}/second.en: no such file"):
        chosen(config, "second")
    with pytest.raises(InputError, match="^--source and --reference: .*first.de has 2 lines and .*valid.en has 1"):
        choose_test_sets(config, source=tmp_path / "first.de", references=[tmp_path / "valid.en"], name=None)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.po", 'msgid ""\nmsgstr "Language: en\\nX-Source-Language: de\\n"\n\nmsgid "Ja"\nmsgstr "Yes"\n', ["Yes"]),
        ("a.tsv", "en\tde\nYes\tJa\nNo\tNein\n", ["Yes", "No"]),
        ("a.csv", "English,German\nYes,Ja\n", "--source: .*a.csv.*'de' does not exist"),
        ("a.mo.txt", "Ja\n", "--source and --reference go together"),
    ],
)
def test_a_file_of_pairs_is_a_test_set(
    config: Config, tmp_path: Path, name: str, content: str, expected: object
) -> None:
    (tmp_path / name).write_text(content)
    if isinstance(expected, str):
        with pytest.raises(InputError, match=expected):
            choose_test_set(config, source=tmp_path / name, name=None)
    else:
        assert choose_test_set(config, source=tmp_path / name, name=None)[1].targets == expected


def test_a_file_of_pairs_in_one_of_several_languages(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("en\tde\tfr\nYes\tJa\tOui\n")
    data = {"languages": ["de", "fr", "en"], "language_tags": "target"}
    config = Config.model_validate({"data": data})
    _, pairs = choose_test_set(config, source=tmp_path / "a.tsv", name=None, to="fr", from_="en")
    assert [*pairs.sources, *pairs.targets] == ["Yes", "Oui"]


def test_where_a_report_is_not_written(tmp_path: Path) -> None:
    """Where a file is in the way of its folder; and through a link, which a run from elsewhere could have there."""
    (tmp_path / "evaluation").mkdir()
    (tmp_path / "victim").mkdir()
    (tmp_path / "evaluation" / "news").symlink_to(tmp_path / "victim")
    (tmp_path / "file").touch()
    for folder, reason in (("evaluation", f"is a link out of {tmp_path}"), ("file", "cannot be written: Not a dir")):
        with pytest.raises(RunError, match=rf"^{tmp_path}/{folder}/news: {reason}"):
            write_report(tmp_path / folder / "news", [], {}, name="news", step=7, settings={})
    assert list((tmp_path / "victim").iterdir()) == []


def test_files_of_one_name_have_reports_of_their_own(tmp_path: Path) -> None:
    first, second, reports = tmp_path / "a" / "x.de", tmp_path / "b" / "x.de", tmp_path / "evaluation"
    english, french = tmp_path / "x.en", tmp_path / "x.fr"

    test = {"first": {"kind": "text", "source": "x.de", "target": "x.en"}}
    config = Config.model_validate({"data": {"test": test, "source_language": "de", "target_language": "en"}})

    def given(*files: Path) -> dict[str, str]:
        return dict(zip(("source", "reference"), map(str, files), strict=False))

    def folder(name: str, *files: Path) -> str:
        return report_folder(reports, name, given=given(*files), config=config).name

    assert folder("x.de", first, english) == "x.de"
    write_report(reports / "x.de", [], {"metrics": []}, name="x.de", given=given(first, english), step=1, settings={})
    assert folder("x.de", first, english) == "x.de"
    assert folder("x.de", second, english) == folder("x.de", first, french) == "x.de-2"
    assert folder("first", tmp_path / "first", english) == "first-2"
    assert folder("first") == "first"
    changed: dict[str, object] = {"changed": {"beam_size": 1}}
    assert report_folder(reports, "new", given=changed, config=config).name == "new-2"  # `new` is for the run's own
    # Older versions kept no `changed`.
    settings: dict[str, object] = {"beam_size": 1, "batch_tokens": 3}
    write_report(reports / "new-2", [], {"metrics": []}, name="new", step=1, settings=settings)
    assert report_folder(reports, "new", given=changed, config=config).name == "new-2"
    assert report_folder(reports, "new", given={"changed": {"beam_size": 2}}, config=config).name == "new-3"
