"""--to and --from: commands with a run that translates both ways."""

import json
from pathlib import Path

import pytest
import yaml
from harness import in_order, write_lines, write_run
from harness import run_command as translate

from translate.decoding.loading import load_own_translator
from translate.decoding.sharded import ShardedDecoder
from translate.runs.run import open_run

pytestmark = pytest.mark.usefixtures("no_shape_checks")

GERMAN, ENGLISH = ["Hund läuft", "Haus", "grün und Hund"], ["dog runs", "house", "green and and dog"]
FRENCH = ["chien court", "maison", "vert et chien"]
OWN = ["--engine", "translate", "--precision", "fp32", "--beam-size", "2"]


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines(Path("toy.de"), GERMAN)
    write_lines(Path("toy.en"), ENGLISH)


def translations(both: Path, lines: list[str], to: str) -> list[str]:
    options = {"precision": "fp32", "beam_size": 2}
    translator = load_own_translator(both, options=options).translator.toward(to=to)
    return [each.text for each in translator.translate(lines)]


def test_decode_and_score(both: Path) -> None:
    for to, lines in (("en", GERMAN), ("de", ENGLISH)):
        found = translate("decode", both, "toy.de" if to == "en" else "toy.en", "--to", to, *OWN)
        assert found.stdout.splitlines() == translations(both, lines, to), found.stderr
    told = translate("decode", both, "toy.de", "--to", "en", "--from", "de", "--format", "jsonl", *OWN)
    records = [json.loads(line) for line in told.stdout.splitlines()]
    assert {(each["source_language"], each["target_language"]) for each in records} == {("de", "en")}
    write_lines(Path("out"), [each["translation"] for each in records])
    scored = [json.loads(line) for line in translate("score", both, "toy.de", "out", "--to", "en").stdout.splitlines()]
    assert all(each["target_language"] == "en" for each in scored)
    other = [json.loads(line) for line in translate("score", both, "toy.de", "out", "--to", "de").stdout.splitlines()]
    assert all(abs(one["log_prob"] - two["log_prob"]) > 1e-3 for one, two in zip(scored, other, strict=True))


def test_finished_parts_belong_to_a_language(both: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that was translated to one language is not reused for another."""
    with monkeypatch.context() as patch:
        patch.setattr(ShardedDecoder, "join_parts", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            translate("decode", both, "toy.de", "-o", "out", "--to", "en", "--resume", *OWN)
    assert list(Path("out.parts").glob("*.part"))
    result = translate("decode", both, "toy.de", "-o", "out", "--to", "de", "--resume", *OWN)
    assert Path("out").read_text().splitlines() == translations(both, GERMAN, "de"), result.stderr


def test_eval_and_compare_with_given_texts(both: Path) -> None:
    result = translate("eval", both, "--source", "toy.en", "--reference", "toy.de", "--to", "de", *OWN)
    assert result.exit_code == 0, result.stderr
    (hypotheses,) = (both / "evaluation").glob("*/hypotheses.txt")
    assert hypotheses.read_text().splitlines() == translations(both, ENGLISH, "de")
    texts = ["--source", "toy.en", "--reference", "toy.de"]
    compared = translate("compare", both, hypotheses, *texts, "--to", "de", "--json")
    assert json.loads(compared.stdout)["metrics"]["BLEU"][1]["difference"] == 0.0, compared.stderr
    unnamed = translate("compare", both, hypotheses, *texts)
    assert unnamed.exit_code == 2 and "--to" in unnamed.stderr


def test_compare_refuses_a_set_that_a_run_cannot_translate(both: Path, run: Path) -> None:
    refused = translate("compare", both, run, "--set", "toy-en-de")
    assert refused.exit_code == 2 and refused.stdout == ""
    assert f"{run} translates to en, but the test set toy-en-de is en-de:" in refused.stderr
    found = translate("compare", both, run, "--set", "toy-de-en", "--json")
    assert json.loads(found.stdout)["systems"] == ["source", "run"], found.stderr
    loaded, codes = open_run(run).load_model(), {"source_language": "deu_Latn", "target_language": "eng_Latn"}
    config = loaded.config.model_copy(update={"data": loaded.config.data.model_copy(update=codes)})
    other = write_run(Path("other"), config, loaded.tokenizers, loaded.model)
    for systems in ([both, other, "--set", "toy-de-en"], [other, both, "--set", "first"]):
        found = translate("compare", *systems)
        assert found.exit_code == 0, found.stderr


@pytest.mark.parametrize("command", ["distill", "backtranslate"])
def test_a_synthetic_corpus_has_languages(both: Path, command: str) -> None:
    text = ["toy.en"] if command == "backtranslate" else []
    result = translate(command, both, *text, "-o", "out", "--to", "de", *OWN)
    assert result.exit_code == 0, result.stderr
    rows = [json.loads(line) for line in Path("out/corpus.jsonl").read_text().splitlines()]
    made, given = ("source", "target") if command == "backtranslate" else ("target", "source")
    assert [row[given] for row in rows] == ENGLISH  # of distill: the corpora from English alone
    assert [row[made] for row in rows] == translations(both, ENGLISH, "de")
    (corpus,) = yaml.safe_load(result.stdout)["data"]["train"]
    assert (corpus[f"{given}_language"], corpus[f"{made}_language"]) == ("en", "de")


def test_a_corpus_of_several_languages_does_not_claim_one(both: Path) -> None:
    """Unless --from chooses the training corpora of one."""
    write_lines(Path("toy.fr"), FRENCH)
    loaded = open_run(both).load_model()
    data = loaded.config.data
    french = data.train[0].model_copy(update={"source": Path("toy.fr"), "source_language": "fr"})
    config = loaded.config.model_copy(update={"data": data.model_copy(update={"train": (*data.train, french)})})
    run = write_run(Path("run"), config, loaded.tokenizers, loaded.model)
    for chosen, expected, sources in (([], "und", GERMAN + FRENCH), (["--from", "fr"], "fr", FRENCH)):
        out = f"out-{expected}"
        result = translate("distill", run, "-o", out, "--to", "en", *chosen, *OWN)
        (corpus,) = yaml.safe_load(result.stdout)["data"]["train"]
        assert (corpus["source_language"], corpus["target_language"]) == (expected, "en")
        rows = [json.loads(line) for line in Path(out, "corpus.jsonl").read_text().splitlines()]
        assert [row["source"] for row in rows] == sources
        assert in_order(result.stderr, "und", "--from") == (not chosen)


def test_the_source_of_a_fine_tuning_is_not_assumed(both: Path) -> None:
    """With --to alone, nothing says which language a text is in, unless only one was trained to be translated so."""
    loaded = open_run(both).load_model()
    (german, _), languages = loaded.config.data.train, ("de", "en", "fr")
    data = {"train": (german.model_copy(update={"source_language": "fr"}),), "languages": languages}
    config = loaded.config.model_copy(update={"data": loaded.config.data.model_copy(update=data)})
    run = write_run(Path("run"), config, loaded.tokenizers, loaded.model)
    for to, source in (("de", None), ("en", "fr")):
        found = translate("decode", run, "toy.en", "--to", to, "--format", "jsonl", *OWN)
        assert {json.loads(line)["source_language"] for line in found.stdout.splitlines()} == {source}, found.stderr
        scored = translate("score", run, "toy.en", "toy.de", "--to", to)
        assert {json.loads(line)["source_language"] for line in scored.stdout.splitlines()} == {source}, scored.stderr
    made = translate("backtranslate", run, "toy.en", "--to", "de", "-o", "out", *OWN)
    (corpus,) = yaml.safe_load(made.stdout)["data"]["train"]
    assert corpus["target_language"] == "und" and "--from" in made.stderr
    refused = translate("decode", run, "toy.en", "--to", "de", "--reverse", run, *OWN)
    assert refused.exit_code == 2 and "--from" in refused.stderr
