"""A run's shortlist is learnt from the corpora that its config names."""

from pathlib import Path
from typing import Any

import pytest

from translate.config import Config, DataConfig, DecodingConfig, TextCorpus
from translate.data.tokenizer import EOS_ID
from translate.decoding.loading import read_shortlist
from translate.decoding.shortlists import make_shortlist
from translate.errors import InputError
from translate.runs import add_prefix, create_run, get_parameters, load_run, write_tensors

Toy = Any  # conftest.py's: test modules cannot import each other


@pytest.fixture
def run(toy: Toy, tmp_path: Path) -> Path:
    """A run with two corpora: "Hund Haus" is "dog house" five times, and "läuft" is "runs" three times."""
    corpora = []
    for name, number, source, target in [("one", 5, "Hund Haus", "dog house"), ("two", 3, "läuft", "runs")]:
        paths = [tmp_path / f"{name}.de", tmp_path / f"{name}.en"]
        for path, text in zip(paths, (source, target), strict=True):
            path.write_text(f"{text}\n" * number, encoding="utf-8")
        corpora.append(TextCorpus(kind="text", source=paths[0], target=paths[1]))
    config = Config(
        data=DataConfig(train=tuple(corpora)), model=toy.model.config, decoding=DecodingConfig(device="cpu")
    )
    directory = create_run(tmp_path / "run", config=config, tokenizers=toy.tokenizers, command=["translate", "train"])
    write_tensors(directory.checkpoint("best"), add_prefix(get_parameters(toy.model), "model."), {"step": "3"})
    return directory.path


def test_made_from_all_corpora_and_read_again(toy: Toy, run: Path) -> None:
    made = make_shortlist(run, num_frequent=0, num_translations=20)
    assert (made.file, made.num_pairs) == (run / "shortlist.safetensors", 8)
    assert made.seconds >= 0
    shortlist = read_shortlist(load_run(run, checkpoint="best"))
    source, target = toy.tokenizers.source, toy.tokenizers.target
    for given, allowed, forbidden in [("Hund", "dog house", "runs"), ("läuft", "runs", "dog")]:
        candidates = set(shortlist.candidates(source.encode(given)))
        assert {*target.encode(allowed), EOS_ID} <= candidates
        assert not set(target.encode(forbidden)) <= candidates


def test_numbers_are_those_asked_for(run: Path) -> None:
    make_shortlist(run, num_frequent=2, num_translations=1)
    shortlist = read_shortlist(load_run(run, checkpoint="best"))
    assert int(shortlist.always.sum()) == 2 + 2  # UNK and EOS besides


def test_pairs_that_training_leaves_out_are_left_out(toy: Toy, run: Path) -> None:
    (run.parent / "two.de").write_text("läuft " * 300 + "\nläuft\nläuft\n", encoding="utf-8")
    assert make_shortlist(run, num_frequent=0, num_translations=5).num_pairs == 7


def test_corpora_that_are_gone(run: Path) -> None:
    (run.parent / "two.en").unlink()
    with pytest.raises(InputError, match=r"^data.train.1: .*two.en: no such file$"):
        make_shortlist(run, num_frequent=0, num_translations=5)
    assert not (run / "shortlist.safetensors").exists()


def test_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such run directory"):
        make_shortlist(tmp_path / "nowhere", num_frequent=0, num_translations=5)
