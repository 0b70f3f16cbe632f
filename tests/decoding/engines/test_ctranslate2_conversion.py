"""Every shape of model has its exact counterpart in CTranslate2: log-probabilities within 1e-4 nats of ours."""

import copy
import os
from pathlib import Path
from types import ModuleType

import pytest
import torch
from harness import Toy, model_to_export, write_run
from pretend_device import PretendDevice

from translate.config.schema import Config
from translate.decoding.engines import ctranslate2_conversion
from translate.decoding.engines.ctranslate2_conversion import (
    check_conversion,
    convert_model,
    write_ctranslate2,
)
from translate.decoding.loading import load_own_translator, load_translator
from translate.errors import RunError, import_extra
from translate.runs.checkpoint import add_prefix, write_tensors
from translate.runs.run import open_run
from translate.runs.verify import verify_run
from translate.runs.weights import build_model, get_parameters

ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")


@pytest.mark.parametrize(
    "shape",
    [
        {"norm": "pre", "positions": "relative", "relative_buckets": 11, "relative_max_distance": 37},
        {"norm": "pre", "activation": "swiglu", "scale_embeddings": False, "norm_epsilon": 0.03},
        {"tie_embeddings": "decoder", "vocabulary": "separate", "output_bias": True},
        {"tie_embeddings": "none", "vocabulary": "separate"},
        {"norm": "pre", "norm_kind": "rms", "bias": False, "activation": "geglu", "head_dim": 7},
        {"bias": False, "head_dim": 6, "positions": "rotary", "tie_embeddings": "inputs"},
        {"d_model": 21, "num_heads": 3, "norm": "pre", "positions": "learned", "max_positions": 79},
    ],
    ids=str,
)
def test_options_together(tmp_path: Path, shape: dict[str, object]) -> None:
    """Each choice alone is a row of tests/exchange/test_counterparts.py."""
    write_ctranslate2(*model_to_export(**shape), tmp_path)  # checks what it wrote


def test_scores_of_given_sentences(tmp_path: Path) -> None:
    """Not by our own check: one sentence at a time, the logits of the full forward pass."""
    model, tokenizers = model_to_export(norm="pre", positions="rotary", activation="swiglu")
    write_ctranslate2(model, tokenizers, tmp_path)
    source, target = tokenizers.source.encode("Hund läuft und schläft"), tokenizers.target.encode("dog runs")
    with torch.inference_mode():
        logits = model(torch.tensor([[*source, 3]]), torch.tensor([[2, *target]]))
    expected = logits.log_softmax(dim=-1)[0, range(len(target) + 1), [*target, 3]]
    translator = ctranslate2.Translator(str(tmp_path), compute_type="float32", intra_threads=1)
    [scored] = translator.score_batch([tokenizers.source.pieces(source)], [tokenizers.target.pieces(target)])
    assert scored.log_probs == pytest.approx(expected.tolist(), abs=1e-4)


def test_a_changed_weight_fails_the_check(tmp_path: Path) -> None:
    model, tokenizers = model_to_export()
    write_ctranslate2(model, tokenizers, tmp_path)
    with torch.no_grad():
        model.decoder.layers[2].cross_attention.input_projection.weight[-1] += 0.1
    with pytest.raises(RunError, match=r"its log-probabilities differ by up to .*at most 0\.0001 .*is allowed"):
        check_conversion(tmp_path, model, tokenizers)


def test_a_run_in_bf16(toy: Toy, tmp_path: Path) -> None:
    """The conversion is in bf16 too, and gives the numbers of the widened weights; nothing else is rounded."""
    run = write_run(tmp_path / "run", toy.config, toy.tokenizers, copy.deepcopy(toy.model).bfloat16())
    loaded = open_run(run).load_model(as_stored=True)
    assert {weight.dtype for weight in loaded.model.parameters()} == {torch.bfloat16}
    folder = convert_model(loaded, checkpoint="best")  # compares the numbers
    assert {weight.dtype for weight in loaded.model.parameters()} == {torch.bfloat16}
    whole = write_run(tmp_path / "whole", toy.config, toy.tokenizers, open_run(run).load_model().model)
    exact = convert_model(open_run(whole).load_model(), checkpoint="best")
    sizes = [(each / "model.bin").stat().st_size for each in (folder, exact)]
    assert sizes[0] < 0.7 * sizes[1]  # its table of positions is fp32
    for precision in ("fp32", "int8"):
        options = {"engine": "ctranslate2", "precision": precision, "device": "cpu"}
        translators = [load_translator(each, options=options) for each in (run, whole)]
        found = [[each.text for each in one.translator.translate(toy.sources[:9])] for one in translators]
        assert found[0] == found[1]
        dtypes = [next(one.model.model.parameters()).dtype for one in translators]
        assert dtypes == [torch.bfloat16 if precision == "int8" else torch.float32, torch.float32]
    own = load_own_translator(run, options={"precision": "int8", "device": "cpu"}).translator  # as for scores
    assert {weight.dtype for weight in own.model.parameters()} == {torch.float32}
    mixed = copy.deepcopy(toy.model).bfloat16()
    mixed.encoder.layers[0].self_attention.input_projection.float()  # as LoRA with frozen weights in bf16 stores it
    mixed_run = write_run(tmp_path / "mixed", toy.config, toy.tokenizers, mixed)
    options = {"engine": "ctranslate2", "precision": "int8", "device": "cpu"}
    searching = load_translator(mixed_run, options=options).model.model
    assert {weight.dtype for weight in searching.parameters()} == {torch.float32}


def test_a_model_is_converted_once(toy: Toy, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", toy.config, toy.tokenizers, toy.model)
    first = convert_model(open_run(run).load_model(), checkpoint="best")
    assert first.parent == run / "export" and first.name.startswith("ctranslate2-best-")
    written = (first / "model.bin").stat().st_mtime_ns
    assert convert_model(open_run(run).load_model(), checkpoint="best") == first
    assert (first / "model.bin").stat().st_mtime_ns == written

    other = build_model(toy.config, toy.tokenizers)
    write_tensors(run / "checkpoints" / "best.safetensors", add_prefix(get_parameters(other), "model."), {"step": "9"})
    second = convert_model(open_run(run).load_model(), checkpoint="best")
    assert second != first
    assert {folder.name for folder in (run / "export").iterdir()} == {first.name, second.name}


def test_a_conversion_that_another_process_has_finished_is_kept(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, written = write_run(tmp_path / "run", toy.config, toy.tokenizers, toy.model), list[int]()

    def import_slowly(package: str) -> ModuleType:
        monkeypatch.undo()
        written.append((convert_model(open_run(run).load_model(), checkpoint="best") / "model.bin").stat().st_mtime_ns)
        return import_extra(package)

    monkeypatch.setattr(ctranslate2_conversion, "import_extra", import_slowly)
    assert [(convert_model(open_run(run).load_model(), checkpoint="best") / "model.bin").stat().st_mtime_ns] == written


def test_a_run_of_another_device_is_exported_on_the_cpu(toy: Toy, tmp_path: Path, pretend: PretendDevice) -> None:
    """The same bytes, with the device and on a machine that has none, where CTranslate2 loads them."""
    model, tokenizers = model_to_export(positions="rotary")
    config = toy.config.model_copy(update={"model": model.config})
    there = {"training": {"device": "pretend"}, "decoding": {"device": "pretend"}}
    elsewhere = Config.model_validate(config.model_dump(mode="json") | there)
    write_run(tmp_path / "here", config, tokenizers, model)
    write_run(tmp_path / "there", elsewhere, tokenizers, model.to(pretend.device))
    written = []
    for run in ("here", "there"):
        with pretend.counting() as crossings:
            folder = convert_model(open_run(tmp_path / run).load_model(), checkpoint="best")
        assert not crossings.to_device and ctranslate2.Translator(str(folder), device="cpu")
        written.append((folder / "model.bin").read_bytes())
    assert written[0] == written[1]


@pytest.mark.parametrize("checksums", ["none", "wrong", "right"])
def test_a_damaged_conversion_is_made_again(toy: Toy, tmp_path: Path, checksums: str) -> None:
    """CTranslate2 would read damaged files."""
    run = write_run(tmp_path / "run", toy.config, toy.tokenizers, toy.model)
    folder = convert_model(open_run(run).load_model(), checkpoint="best")
    contents = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / "model.bin").write_bytes(contents["model.bin"][:-1] + b"x")
    if checksums == "none":
        (folder / "SHA256SUMS").unlink()
    elif checksums != "right":
        (folder / "SHA256SUMS").write_text(f"{'0' * 64}  model.bin\n")
    assert [report.state for report in verify_run(run).files if report.name.startswith("export/")] == ["DAMAGED"]
    assert convert_model(open_run(run).load_model(), checkpoint="best") == folder
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == contents


def test_a_conversion_that_lies_elsewhere_is_refused(toy: Toy, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", toy.config, toy.tokenizers, toy.model)
    folder = convert_model(open_run(run).load_model(), checkpoint="best")
    os.rename(folder, tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match=rf"^{folder}: is a link out of {run}, to {tmp_path}/elsewhere; "):
        convert_model(open_run(run).load_model(), checkpoint="best")


@pytest.mark.parametrize(("quantization", "bytes_of_a_weight"), [("int8", 1), ("float16", 2)])
def test_quantised_weights_take_less_room_and_score_alike(
    tmp_path: Path, quantization: str, bytes_of_a_weight: int
) -> None:
    model, tokenizers = model_to_export(norm="pre", positions="rotary", noise=0.02)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    (tmp_path / "fp32").mkdir()
    (tmp_path / "rounded").mkdir()
    write_ctranslate2(model, tokenizers, tmp_path / "fp32")
    write_ctranslate2(model, tokenizers, tmp_path / "rounded", quantization=quantization)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("fp32", "rounded")]
    matrices = sum(tensor.numel() for tensor in model.parameters() if tensor.ndim == 2)
    assert sizes[0] - sizes[1] > 0.8 * (4 - bytes_of_a_weight) * matrices
    pieces = [tokenizers.source.pieces(tokenizers.source.encode("Hund läuft"))]
    scores = [
        ctranslate2.Translator(str(tmp_path / name), intra_threads=1).score_batch(pieces, pieces)[0].log_probs
        for name in ("fp32", "rounded")
    ]
    # Without the CPU's VNNI instructions sums of int8 products are cut, which shows where weights are random.
    assert scores[0] == pytest.approx(scores[1], abs=2.0 if quantization == "int8" else 0.1) and scores[0] != scores[1]
