"""Validation during a training: the same code as `translate eval`, and what it does when memory is out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from translate.config.schema import Config
from translate.errors import RunError
from translate.evaluation.evaluate import evaluate
from translate.export import engine, load_engine
from translate.runs.loading import load_run
from translate.training import validation

Digits = Callable[..., Config]
RunTraining = Callable[..., list[str]]
StateOf = Callable[[Path], Any]
CUDA_MESSAGE = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 139 GiB of which …"


@pytest.mark.parametrize("precision", ["auto", "bf16", "int8"])
def test_validation_bleu_is_what_evaluation_gives(
    run_training: RunTraining,
    digits: Digits,
    tmp_path: Path,
    state_of: StateOf,
    monkeypatch: pytest.MonkeyPatch,
    precision: str,
) -> None:
    """Of the checkpoint, in the precision of the decoding settings; with auto that of CTranslate2, if it is there."""
    monkeypatch.setattr(engine, "CONVERT_FROM", 1)
    config = digits(
        "training.max_steps=60",
        "training.validate_every=60",
        "training.ema_decay=0.9",
        f"decoding.precision={precision}",
    )
    run_training(config, tmp_path / "run")
    logged = next(record for record in state_of(tmp_path / "run").metrics if record["kind"] == "validation")
    loaded = load_run(tmp_path / "run")
    translator = load_engine(
        tmp_path / "run", options={"engine": "auto" if precision == "auto" else "translate"}
    ).translator
    corpus = config.data.validation
    assert corpus is not None and corpus.kind == "text"
    sources, references = (path.read_text(encoding="utf-8").splitlines() for path in (corpus.source, corpus.target))
    evaluation = evaluate(translator, sources, references, loaded.config.evaluation)
    for name in ("BLEU", "BLEU-lc", "chrF"):
        assert logged[name] == evaluation.score(name)
    assert loaded.step == logged["step"] == 60


def test_a_validation_without_memory_can_be_done_later(
    run_training: RunTraining, digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*args: Any, **kwargs: Any) -> Any:
        raise torch.OutOfMemoryError(CUDA_MESSAGE)

    with monkeypatch.context() as patch, pytest.raises(RunError) as caught:
        patch.setattr(validation, "evaluate", refused)
        run_training(digits("training.save_every=100"), tmp_path / "run")
    message = str(caught.value)
    assert message.startswith("out of memory on the validation (CUDA out of memory. Tried to allocate 20.00 MiB).")
    assert "Lower decoding.batch_tokens (now 8192) or decoding.beam_size (now 2), and go on with --resume." in message
    said = run_training(digits("decoding.beam_size=1"), tmp_path / "run", resume=True)
    assert "Going on from step 6" in said
