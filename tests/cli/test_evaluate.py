"""`translate eval` in its three modes."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from filelock import FileLock
from harness import in_order, succeed, write_lines
from harness import run_command as translate

from translate.evaluation.metrics import SCORES

FULL = [each.name for each in SCORES if each.name != "placeholders"]  # these test sets have none


def test_eval_of_all_test_sets(run: Path, corpus: Path) -> None:
    result = succeed("eval", run, "--samples", "2")
    lines = result.stdout.splitlines()
    heads = [line for line in lines if ", best checkpoint (step " in line]
    assert [head.split(",")[0] for head in heads] == ["first", "second"]
    assert "beam 2: 3 lines, " in heads[0] and "beam 2: 1 line, " in heads[1]
    assert [line.split()[0] for line in lines if "|version:" in line] == FULL
    assert lines[lines.index("Signatures") - 1] == ""
    assert result.stdout.count("  source:      ") == 2 + 1
    sources = (corpus / "valid.de").read_text(encoding="utf-8").splitlines()
    assert f"  source:      {sources[0]}\n" in result.stdout
    for name, number in [("first", 3), ("second", 1)]:
        kept = run / "evaluation" / name
        assert (kept / "hypotheses.txt").read_bytes().count(b"\n") == number
        report = json.loads((kept / "report.json").read_text())
        # For so few lines our own model searches, even where CTranslate2 is installed.
        assert report["num_lines"] == number and report["decoding"]["engine"] == "translate"


def test_scores_of_a_run_that_cannot_be_written(copied: Path) -> None:
    shutil.rmtree(copied / "evaluation", ignore_errors=True)
    (copied / "evaluation").touch()
    result = translate("eval", copied)
    heads = [line.split(",")[0] for line in result.stdout.splitlines() if ", best checkpoint (step " in line]
    assert heads == ["first", "second"] and result.stdout.count("  BLEU  ") == 3
    assert result.exit_code == 1 and in_order(result.stderr, "evaluation/first", "cannot be written")


def test_eval_of_two_files(run: Path, corpus: Path, tmp_path: Path) -> None:
    result = succeed("eval", run, "--source", corpus / "train.de", "--reference", corpus / "train.en")
    assert result.stdout.startswith("train.de, best checkpoint")
    hypotheses = run / "evaluation" / "train.de" / "hypotheses.txt"
    assert hypotheses.read_bytes() == translate("decode", run, corpus / "train.de").stdout_bytes

    write_lines(tmp_path / "some.en", ["a", " ", ""])
    write_lines(tmp_path / "other.en", ["a", "", "c"])
    given = succeed("eval", "--hypotheses", tmp_path / "some.en", "--reference", tmp_path / "other.en").stdout
    assert given.splitlines()[0].endswith("some.en: 3 lines, 2 empty, 1 empty references")

    # The kept hypotheses, scored without the run, have the same scores.
    again = succeed("eval", "--hypotheses", hypotheses, "--reference", corpus / "train.en")
    scores = [line.split()[:2] for line in result.stdout.splitlines()[1:5]]
    assert scores == [line.split()[:2] for line in again.stdout.splitlines()[1:5]] and scores[0][0] == "BLEU"


def test_a_tokenizer_for_bleu(run: Path, corpus: Path) -> None:
    files = ["--hypotheses", corpus / "valid.en", "--reference", corpus / "valid.en"]
    for given in (files, [run, "--set", "first"]):
        assert "tok:char|" in succeed("eval", *given, "--tokenize", "char").stdout


def test_scores_by_other_programs(run: Path, corpus: Path, tmp_path: Path) -> None:
    """Beside sacreBLEU's, in the report too; those of a program that fails are missing, and the others stay."""
    count = f"lines={sys.executable} -c 'import sys; print(len(open(sys.argv[1]).readlines()))'"
    result = translate("eval", run, "--set", "first", "--metric", f"{count} {{hypothesis}}")
    assert result.exit_code == 0 and " lines 3.0000" in " ".join(result.stdout.split()), result.stdout
    kept = json.loads((run / "evaluation" / "first" / "report.json").read_text())["metrics"][-1]
    assert (kept["name"], kept["score"], kept["interval"]) == ("lines", 3.0, None) and "version:" in kept["signature"]
    files = ["--hypotheses", corpus / "valid.en", "--reference", corpus / "valid.en"]
    failed = translate("eval", *files, "--metric", "none=false {hypothesis}", "--metric", f"{count} {{hypothesis}}")
    shown = " ".join(failed.stdout.split())
    assert failed.exit_code == 1 and " lines 3.0000" in shown and " BLEU 100.00 " in shown
    assert "--metric none: false failed with exit code 1" in failed.stderr
    needs_source = translate("eval", *files, "--metric", f"{count} {{source}} {{hypothesis}}")
    assert needs_source.exit_code == 2 and "--source F" in needs_source.stderr
    given = translate("eval", *files, "--source", corpus / "valid.de", "--metric", f"{count} {{source}} {{hypothesis}}")
    assert given.exit_code == 0, given.stderr
    write_lines(tmp_path / "a.de", "abcdefghij")  # enough lines to tell that they are not translated
    write_lines(tmp_path / "a.en", "klmnopqrst")
    copied = ["--hypotheses", tmp_path / "a.de", "--reference", tmp_path / "a.en", "--source", tmp_path / "a.de"]
    told = succeed("eval", *copied).stderr
    assert in_order(told, "a.de: 10 of 10 lines of the translations are equal to those of the sources")
    given_twice = ["--source", tmp_path / "a.de", "--reference", tmp_path / "a.de"]
    assert "Warning: a.de: 10 of 10 lines of the references are equal" in succeed("eval", run, *given_twice).stderr
    compared = translate("compare", run, corpus / "valid.en", "--set", "first", "--metric", f"{count} {{hypothesis}}")
    assert compared.exit_code == 0 and compared.stdout.count("  lines    ") == 3, compared.stdout
    failed = translate("compare", run, corpus / "valid.en", "--set", "first", "--metric", "none=false {hypothesis}")
    assert failed.exit_code == 1


def test_several_references(run: Path, corpus: Path, tmp_path: Path) -> None:
    """Each translation is one of the references of its line. A program that reads one file of them is refused."""
    lines = (corpus / "valid.en").read_text().splitlines()
    write_lines(tmp_path / "a.en", [lines[0], "x", "x"])
    write_lines(tmp_path / "b.en", ["x", *lines[1:]])
    references = ["--reference", tmp_path / "a.en", "--reference", tmp_path / "b.en"]
    given = succeed("eval", "--hypotheses", corpus / "valid.en", *references).stdout
    assert given.count(" 100.00 ") == 3 and given.count("nrefs:2|") == len(FULL)
    source = ["--source", corpus / "valid.de", *references]
    document = json.loads(succeed("eval", run, *source, "--json").stdout)["evaluations"][0]
    assert document["reference"] == [str(tmp_path / "a.en"), str(tmp_path / "b.en")]
    other = json.loads(succeed("eval", run, *source[:4], "--json").stdout)["evaluations"][0]
    assert Path(document["folder"]).name == "valid.de" and Path(other["folder"]).name == "valid.de-2"
    compared = json.loads(succeed("compare", corpus / "valid.en", tmp_path / "a.en", *source, "--json").stdout)
    assert compared["metrics"]["BLEU"][0]["value"] == pytest.approx(100.0)
    assert all("nrefs:2|" in signature for signature in compared["signatures"].values())
    refused = translate("eval", run, *source, "--metric", "x=cat {hypothesis} {reference}")
    assert refused.exit_code == 2 and "--reference" in refused.stderr


def test_other_settings_than_the_runs_own_have_folders_of_their_own(copied: Path) -> None:
    def evaluated(*options: str) -> tuple[str, dict[str, object]]:
        document = json.loads(succeed("eval", copied, "--set", "first", *options, "--json").stdout)["evaluations"][0]
        return Path(document["folder"]).name, document.get("changed", {})

    shutil.rmtree(copied / "evaluation", ignore_errors=True)
    assert evaluated() == ("first", {})
    own = (copied / "evaluation/first/report.json").read_bytes()
    others: list[tuple[list[str], dict[str, object]]] = [
        (["--beam-size", "1"], {"beam_size": 1}),
        (["--checkpoint", "last"], {"checkpoint": "last"}),
        (["--tokenize", "char", "--length-penalty", "0"], {"tokenize": "char", "length_penalty": 0.0}),
    ]
    for number, (options, changed) in [*enumerate(others, start=2), *enumerate(others, start=2)]:
        assert evaluated(*options) == (f"first-{number}", changed)
    assert (copied / "evaluation/first/report.json").read_bytes() == own
    assert evaluated("--beam-size", "2", "--device", "cpu", "--batch-tokens", "99") == ("first", {})  # as in the run
    shown = " ".join(succeed("eval", copied, "--set", "first", "--beam-size", "1").stdout.split())
    assert f"kept in {copied}/evaluation/first-2, because of beam_size = 1" in shown
    assert [*json.loads(succeed("info", copied, "--json").stdout)["test_bleu"]] == ["first"]


def test_a_program_of_the_config_runs_only_when_it_is_named(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    marked = f'programs:\n    mine: {sys.executable} -c \'open("{tmp_path}/ran", "w"); print(1)\' {{hypothesis}}'
    text = (copy / "config.yaml").read_text()
    assert "programs: {}" in text
    (copy / "config.yaml").write_text(text.replace("programs: {}", marked))
    assert translate("eval", copy).exit_code == 0 and not (tmp_path / "ran").exists()
    named = translate("eval", copy, "--metric", "mine")
    assert named.exit_code == 0 and (tmp_path / "ran").exists(), named.stderr
    unknown = translate("eval", copy, "--metric", "other")
    assert unknown.exit_code == 2 and "one of evaluation.programs: mine" in unknown.stderr


def test_tuned_settings_become_the_defaults_of_the_run(run: Path, tmp_path: Path) -> None:
    tuned = tmp_path / "tuned"
    shutil.copytree(run, tuned)
    dry = succeed("tune-decode", tuned, "--dry-run")
    assert (tuned / "config.yaml").read_bytes() == (run / "config.yaml").read_bytes()
    result = translate("tune-decode", tuned)
    lines = result.stdout.splitlines()
    assert lines[:2] == ["validation, 3 lines", "  beam  length penalty    BLEU"]
    settings = lines[-1].removeprefix(f"Now the defaults of {tuned}: ")
    assert dry.stdout.splitlines() == [*lines[:-1], f"Best: {settings}"]
    shown = translate("config", "show", tuned).stdout
    for setting in settings.split():
        key, _, value = setting.removeprefix("decoding.").partition("=")
        assert f"  {key}: {value}" in shown
    succeed("verify", tuned)
    with FileLock(tuned / "lock"):
        locked = translate("tune-decode", tuned)
    assert (locked.exit_code, locked.stdout) == (2, ""), "before all searches"
    config = tuned / "config.yaml"
    config.write_text(re.sub("length_penalty_kind: [a-z]+", "length_penalty_kind: none", config.read_text()))
    penalties = [line[6:22].strip() for line in succeed("tune-decode", tuned, "--dry-run").stdout.splitlines()[2:-1]]
    assert "none" in penalties and not any(each.startswith("none.") for each in penalties)
