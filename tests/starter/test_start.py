"""`init` as a whole, without its dry run: the config that it writes suits the text, and `check` has nothing to say."""

import json
import random
import shutil
from pathlib import Path

import pytest
from harness import corpus_lines, in_order, run_command, succeed, write_lines

from translate.config.data import Augmentation
from translate.config.load import load_config
from translate.errors import InputError
from translate.lint import check
from translate.lint.check import Report
from translate.starter.settings import Choice, choose_in_time, choose_settings, choose_steps
from translate.training.optimizer import learning_rate
from translate.training.preparation import TrainingData

pytestmark = pytest.mark.usefixtures("quick")


@pytest.mark.parametrize(
    ("num_pairs", "device", "preset", "width"),
    [
        (1_000, "cpu", "demo", 64),
        (2_000, "cpu", "demo", 128),
        (5_000, "cpu", "demo", 192),
        (29_000, "cpu", "multi30k", 256),
        (29_000, "cuda", "multi30k", 256),
        (500_000, "cpu", "multi30k", 256),
        (500_000, "cuda", "transformer-base", 512),
    ],
)
def test_what_suits_a_corpus_of_captions(num_pairs: int, device: str, preset: str, width: int) -> None:
    """Of 15 subwords per side. By hand: 28 d² weights per pair of layers, and an embedding for each subword."""
    found, num_epochs, settings = choose_settings([15.0 * num_pairs] * 2, 100, device=device)
    model = load_config(found, {key: each for key, each in settings.items() if key[:5] == "model"}).config.model
    assert (found, model.d_model, model.d_ff) == (preset, width, 4 * width)
    weights = 28 * model.num_encoder_layers * width**2 + settings["tokenizer.vocab_size"] * width
    assert weights <= 50 * 15 * num_pairs  # from which `check` warns
    assert 10 <= num_epochs <= (60 if device == "cpu" else 30)


def test_multi30k_gets_what_its_preset_has() -> None:
    vocab_size = load_config("multi30k").config.tokenizer.vocab_size
    found = choose_settings([450_000.0, 430_000.0], 150, device="cpu")
    assert found == ("multi30k", 22, {"tokenizer.vocab_size": vocab_size})


@pytest.fixture
def choices(quick: None) -> list[Choice]:
    """Three models with steps of 1, 0.5 and 0.1 seconds, 20 of which are an epoch, and validations of 6 seconds."""
    plan = check.TrainingPlan(20, 1, 0.05, 1, 0.0, None, None, [])
    report = Report("x", (), (), (), (), plan, None, [])
    sizes = {"full": (1.0, 1000, 100), "half": (0.5, 300, 40), "small": (0.1, 100, 40)}
    measured = check.dry_run(None)._replace(seconds_per_validation=6.0)  # type: ignore[arg-type,call-arg]
    return [
        Choice(name, {}, report, measured._replace(seconds_per_epoch=20 * step), least, epochs)
        for name, (step, least, epochs) in sizes.items()
    ]


@pytest.mark.parametrize(
    ("minutes", "preset", "num_steps", "num_validations"),
    [
        (60, "full", 2000, 10),  # its 100 epochs
        (30, "full", 1566, 10),  # 0.93 · 1800 s, less 30 s at first, and 13 validations of 6 s: three for the last one
        (20, "full", 1008, 10),
        (10, "half", 800, 10),  # 40 epochs
        (5, "half", 378, 7),  # of at most 45 s
        (2, "small", 456, 3),
        (1, "small", 18, 1),
    ],
)
def test_the_best_model_that_has_its_steps_in_the_time(
    choices: list[Choice], minutes: float, preset: str, num_steps: int, num_validations: int
) -> None:
    if num_steps < 100:
        with pytest.raises(
            InputError, match=r"--minutes 1 .* 100 .* take 2 minutes here; give --minutes 2 or more$"
        ):  # 1.1 · (30 + 24 + 10) s / 0.93
            choose_in_time(choices, minutes, preparation=30.0)
        return
    found = choose_in_time(choices, minutes, preparation=30.0)
    assert (found.preset, found.num_validations) == (preset, num_validations)
    assert found.num_steps == pytest.approx(num_steps, abs=1)  # by rounding
    seconds = found.num_steps * found.measured.seconds_per_epoch / 20
    assert found.seconds == pytest.approx(30.0 + (num_validations + 3) * 6.0 + seconds)
    assert found.seconds <= 0.93 * 60 * minutes


def test_a_training_that_ends_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It validates and saves after each tenth; without a time, others are shown, and the config is the usual one."""
    monkeypatch.chdir(tmp_path)
    for code in ("de", "en"):
        write_lines(Path(f"a.{code}"), corpus_lines(f"train.{code}")[:3000])
    seen = check.dry_run(None)._replace(seconds_per_epoch=60.0)  # type: ignore[arg-type,call-arg]
    tried = []

    def dry_run(data: TrainingData, *_: object, tries_longest: bool, max_seconds: float, **options: object) -> object:
        tried[-1].append((data.config.training.optimizer, tries_longest))
        assert max_seconds <= min(4.0, minutes)
        return seen

    monkeypatch.setattr(check, "dry_run", dry_run)
    reports = {}
    minutes = 2
    tried.append([])
    assert run_command("init", "a.de", "a.en", "--minutes", "2").exit_code == 2
    assert tried.pop() == [("muon", False)]  # whose 100 steps take longer
    for minutes in (480, 10, 120):  # 480: a night, without the option
        given = [] if minutes == 480 else ["--minutes", str(minutes)]
        tried.append([])
        told = succeed("init", "a.de", "a.en", "--name", f"of-{minutes}", *given, "--json").stdout
        reports[minutes] = json.loads(told)
    both = [("muon", False), ("adamw", False)]  # memory is not measured
    usual = [("adamw", True), both[0]]
    assert tried == [usual, both[:1], both]  # 30 epochs of a minute do not fit into ten
    assert [*reports[480]["choices"]] == ["--minutes 10", "--minutes 30", "--minutes 120"]
    for minutes in (10, 120):
        report, config = reports[minutes], load_config(f"of-{minutes}.yaml").config
        assert config.training.max_steps == report["num_steps"] and report["seconds"] < 60 * minutes
        assert Path(config.data.root or "").name == f"of-{minutes}"
        tenth = report["num_steps"] / 10
        assert tenth <= config.training.validate_every == config.training.save_every < tenth + 1
        chosen = f"{report['preset']} with "
        assert reports[480]["choices"][f"--minutes {minutes}"].startswith(chosen)
        assert f"# Chosen for {minutes} minutes: {chosen}" in Path(f"of-{minutes}.yaml").read_text()
    assert [reports[minutes]["preset"] for minutes in reports] == ["demo", "multi30k-muon", "demo"]
    assert reports[120]["seconds"] < 60 * 70  # no more epochs than help
    models = [load_config(f"of-{minutes}.yaml").config.model for minutes in (480, 120)]
    assert models[0] == models[1] and models[0].dropout == 0.3


@pytest.mark.parametrize("num_steps", [3_700, 20_000, 300_000])
def test_the_peak_of_the_learning_rate_is_the_presets(num_steps: int) -> None:
    base = load_config("transformer-base").config.training
    config = load_config("transformer-base", choose_steps(num_steps, base)).config.training
    peaks = [max(learning_rate(step, each, d_model=512) for step in range(1, 5_000)) for each in (base, config)]
    assert config.max_steps == num_steps and peaks[0] == pytest.approx(peaks[1], rel=0.01)
    assert config.warmup_steps <= num_steps / 4


def test_a_script_of_thousands_of_characters_fits_its_vocabulary() -> None:
    settings = choose_settings([60_000.0, 40_000.0], 3_100, device="cpu")[2]
    assert settings["tokenizer.vocab_size"] >= 3_100 + 256 and settings["tokenizer.character_coverage"] < 1.0


def test_init_writes_a_config_that_can_be_moved_and_changes_nothing_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for code in ("de", "en"):
        first, *others = corpus_lines(f"train.{code}")[:1200]
        write_lines(Path(f"a.{code}"), [f"{first} &amp;", *others])  # which is worth a note
    # As names go, a preset's and a word that YAML 1.1 takes for a boolean.
    report = json.loads(succeed("init", "a.de", "a.en", "--name", "demo", "--from", "no", "--json").stdout)
    assert report["languages"] == ["no", "en"] and report["num_steps"] % 10 == 0
    assert {key for each in report["findings"] for key in each} == {"severity", "name", "message", "hint", "examples"}
    assert {path.name for path in Path("demo").iterdir()} == {
        f"{part}.{code}" for part in ("train", "validation", "test") for code in ("no", "en")
    }
    before = {path: path.read_bytes() for path in Path().rglob("*.*")}
    again = run_command("init", "a.de", "a.en", "--name", "demo")
    assert again.exit_code == 2 and "demo.yaml, demo, demo/test.en" in again.stderr
    assert {path: path.read_bytes() for path in Path().rglob("*.*")} == before
    Path("moved").mkdir()
    shutil.move("demo", "moved")
    shutil.move("demo.yaml", "moved")
    config = load_config("moved/demo.yaml", require_files=True).config
    assert config.name == "demo" and config.data.test.keys() == {"test"} and config.data.source_language == "no"
    assert config.training.max_steps == report["num_steps"] and config.model.dropout == 0.3
    sizes = {
        key: len(each.source.read_text(encoding="utf-8").splitlines())  # type: ignore[union-attr]
        for key, each in config.data.corpora("train", "validation", "test").items()
    }
    assert [*sizes.values()] == [report["num_pairs"][part] for part in ("train", "validation", "test")]
    found = check.check(config)
    messages = [each.message for each in found.findings if each.severity != "note"]
    assert {message.partition(": ")[2] for message in messages} == {"its source should be no, but looks like de"}
    assert "leakage" not in {finding.name for finding in found.findings}


def test_a_config_that_comes_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for code in ("de", "en"):
        write_lines(Path(f"a.{code}"), corpus_lines(f"train.{code}")[:1000])
    quick = check.dry_run

    def write_other(*arguments: object, **options: object) -> object:
        Path("de-en.yaml").write_text("other")
        return quick(None)  # type: ignore[arg-type,call-arg]

    monkeypatch.setattr(check, "dry_run", write_other)
    told = run_command("init", "a.de", "a.en")
    assert told.exit_code == 1 and in_order(told.stderr, "de-en.yaml: ", "File exists")
    assert Path("de-en.yaml").read_text() == "other" and not Path("de-en").exists()


@pytest.mark.parametrize("name", ["in", "d\udcff"])
def test_no_config_stays_without_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    for code in ("de", "en"):
        write_lines(Path(f"a.{code}"), corpus_lines(f"train.{code}")[:1000])
    quick = check.dry_run

    def write_other(*arguments: object, **options: object) -> object:
        Path("de-en").mkdir()
        Path("de-en/other").touch()
        return quick(None)  # type: ignore[arg-type,call-arg]

    monkeypatch.setattr(check, "dry_run", write_other)
    told = run_command("init", "a.de", "a.en")
    assert (told.exit_code, "d\\udcff" in told.stderr) == ((1, False) if name == "in" else (2, True))
    assert not Path("de-en.yaml").exists() and Path("de-en").exists() == (name == "in")


def test_text_that_cannot_be_trained_on_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for code, first in (("de", 0), ("en", 1)):  # each target translates the source after its own
        write_lines(Path(f"a.{code}"), corpus_lines(f"train.{code}")[first : first + 1100])
    told = run_command("init", "a.de", "a.en")
    assert told.exit_code == 1 and in_order(told.stdout, "Not ready: ", "translate train de-en.yaml --ignore-errors")


def test_a_text_of_few_different_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its vocabulary is the largest that works."""
    monkeypatch.chdir(tmp_path)
    draw, words = random.Random(1), {"de": "rot blau grün gelb weiß grau", "en": "red blue green yellow white grey"}
    drawn = [draw.choices(range(6), k=7) for _ in range(1500)]
    for code, names in words.items():
        write_lines(Path(f"a.{code}"), [" ".join(names.split()[number] for number in line) for line in drawn])
    run_command("init", "a.de", "a.en")  # the languages of so few words may be in doubt
    assert 300 < load_config("de-en.yaml").config.tokenizer.vocab_size < 500


def test_what_a_training_takes_is_said_and_held_to_a_night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for code in ("de", "en"):
        write_lines(Path(f"a.{code}"), corpus_lines(f"train.{code}")[:1000])
    told = succeed("init", "a.de", "a.en").stdout
    assert "docs/opus-mt.md" in told and "translate train de-en.yaml" in told and "translate serve runs/de-en" in told
    seen = check.dry_run(None)._replace(seconds_per_epoch=3600.0)  # type: ignore[arg-type,call-arg]
    monkeypatch.setattr(check, "dry_run", lambda *arguments, **options: seen)
    report = json.loads(succeed("init", "a.de", "a.en", "--name", "slow", "--json").stdout)
    assert 7 * 3600 < report["seconds"] < 9 * 3600
    assert load_config("slow.yaml").config.training.max_steps == report["num_steps"]
    assert "would be better" in Path("slow.yaml").read_text()


@pytest.mark.parametrize(("num_placeholders", "is_copied"), [(10, False), (40, True)])
def test_text_of_programs_is_copied(
    num_placeholders: int, is_copied: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over 2 % of the lines have placeholders, or under it."""
    monkeypatch.chdir(tmp_path)
    for code in ("de", "en"):
        lines = corpus_lines(f"train.{code}")[:1100]
        write_lines(
            Path(f"a.{code}"), [f"{line} %s" if place < num_placeholders else line for place, line in enumerate(lines)]
        )
    succeed("init", "a.de", "a.en")
    config = load_config("de-en.yaml").config
    assert config.tokenizer.add_pieces == (("<placeholders>",) if is_copied else ())
    assert config.data.train[0].augment == (Augmentation(copy=0.1) if is_copied else None)


def test_text_without_spaces_is_scored_and_kept_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chinese: with 13a, BLEU would be 0, and with nmt_nfkc each full-width mark would become an ASCII one."""
    monkeypatch.chdir(tmp_path)
    english = corpus_lines("train.en")[:1000]
    write_lines(Path("a.de"), corpus_lines("train.de")[:1000])
    words = {word: chr(0x4E00 + number) for number, word in enumerate(sorted({*" ".join(english).split()}))}
    write_lines(Path("a.zh"), ["，".join(words[word] for word in line.split()) + "！" for line in english])
    report = json.loads(succeed("init", "a.de", "a.zh", "--json").stdout)
    assert {*report["choices"]["kept"][:3]} == {*"！ ，"}
    config = load_config("de-zh.yaml").config
    assert (config.evaluation.bleu_tokenizer, config.tokenizer.normalization) == ("zh", "identity")
    assert not {each["name"] for each in report["findings"]} & {"targets_normalized", "bleu_without_spaces"}


def test_a_character_in_one_line_of_a_hundred_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in interface text, whose ellipses nmt_nfkc would change to three full stops."""
    monkeypatch.chdir(tmp_path)
    for code in ("de", "en"):
        lines = corpus_lines(f"train.{code}")[:2000]
        write_lines(
            Path(f"a.{code}"), [f"{line} …" if number % 100 == 0 else line for number, line in enumerate(lines)]
        )
    report = json.loads(succeed("init", "a.de", "a.en", "--json").stdout)
    assert load_config("de-en.yaml").config.tokenizer.normalization == "identity"
    assert report["choices"]["kept"].startswith("… ")
