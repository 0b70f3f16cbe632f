"""T5 1.1, mT5 and MADLAD-400 folders: numbers and lines are those of transformers, there and back, and pruned."""

import json
import logging
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import Sentences, files_up_to, import_, teach, toy_sentences, train_spm, write_lines
from safetensors.torch import load_file, save_file
from trainings import run_training

from translate.config.load import load_config
from translate.decoding.loading import load_own_translator, load_translator
from translate.errors import InputError, RunError
from translate.exchange import export_run
from translate.exchange.importing import convert, import_model
from translate.exchange.language_tokenizers import load_tokenizer
from translate.exchange.pretrained import read_pretrained
from translate.model import Transformer
from translate.model.positions import distance_buckets
from translate.runs.run import open_run
from translate.runs.weights import get_parameters

transformers = pytest.importorskip("transformers", reason="the extra `huggingface` is not installed")

pytestmark = [
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses:UserWarning"),
    pytest.mark.usefixtures("no_shape_checks"),
]

KINDS = ("t5", "mt5", "madlad")
T5_SPM = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
MADLAD_SPM = {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1}
TAGS = ["\n", "<2de>", "<2en>", "<2fr>", "<2gsw_Latn>", "<2zxx_xx_dtynoise>"]  # the first and the last name no language


MT5_SENTINELS = [f"▁<extra_id_{number}>" for number in reversed(range(9))]


def make_t5(folder: Path, kind: str, *, lines: Sequence[str] = (), **settings: Any) -> Path:
    """A folder with the files of T5 1.1, mT5 or MADLAD-400, small and untrained."""
    folder.mkdir(parents=True)
    is_mt5, is_madlad = kind == "mt5", kind == "madlad"
    symbols = {"pad_token_id": 1, "eos_token_id": 2} if is_madlad else {"pad_token_id": 0, "eos_token_id": 1}
    symbols["decoder_start_token_id"] = 0
    lines = lines or [line for side in toy_sentences(300, longest=6, draw=random.Random(1)) for line in side]
    options: dict[str, Any] = {"vocab_size": 60, **(MADLAD_SPM if is_madlad else T5_SPM)}
    options |= {"user_defined_symbols": TAGS} if is_madlad else {}
    options |= {"user_defined_symbols": MT5_SENTINELS} if is_mt5 else {}
    options |= {"byte_fallback": True, "vocab_size": 320} if kind != "t5" else {}
    spm = train_spm(lines, model_type="unigram", hard_vocab_limit=False, **options)
    (folder / "spiece.model").write_bytes(spm)
    tokenizer_config = {"tokenizer_class": "T5Tokenizer", "clean_up_tokenization_spaces": True}
    tokenizer_config |= {} if kind == "t5" else {"extra_ids": 0}
    tokenizer_config |= {"pad_token": "<s>"} if is_madlad else {}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    size = len(load_spm(folder)) + {"t5": 107, "mt5": 7, "madlad": 0}[kind]  # sentinels, and rows that have no name
    shape = {
        "vocab_size": size, "d_model": 24, "d_kv": 7, "d_ff": 30, "num_layers": 2, "num_heads": 4,
        "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "relative_attention_num_buckets": 10,
        "relative_attention_max_distance": 37, "dropout_rate": 0.0,
    }  # fmt: skip
    classes = ("MT5Config", "MT5ForConditionalGeneration") if is_mt5 else ("T5Config", "T5ForConditionalGeneration")
    made, model_class = (getattr(transformers, name) for name in classes)
    torch.manual_seed(7)
    model = model_class(made(**shape | symbols | settings)).eval()
    if not (shape | settings)["tie_word_embeddings"]:
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(std=0.3)
            if "norm.weight" in name:
                parameter.mul_(0.3).add_(1.0)
            elif "block" in name and "relative" not in name:
                torch.nn.init.xavier_uniform_(parameter)
    model.generation_config = transformers.GenerationConfig(**symbols, max_length=20, num_beams=4)
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    tying = (shape | settings)["tie_word_embeddings"]  # as earlier versions of transformers write it
    (folder / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": tying}))
    return folder


def load_spm(folder: Path) -> list[str]:
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spiece.model"))
    return [processor.id_to_piece(token) for token in range(processor.get_piece_size())]


def tagged(kind: str, lines: list[str]) -> list[str]:
    """Lines to translate to English, as the tokenizer in transformers reads them."""
    return [f"<2en> {line}" for line in lines] if kind == "madlad" else lines


class Trained:
    """A folder with a trained model, the run that was imported from it, and sentences that it has not seen."""

    def __init__(self, path: Path, kind: str) -> None:
        self.kind, self.folder, self.run = kind, make_t5(path / "folder", kind), path / "run"
        self.to = "en" if kind == "madlad" else None
        self.languages = ("de", "en") if kind == "madlad" else ("und", "und")
        imported = import_(self.folder, path / "untrained")
        sources, targets = toy_sentences(1500, longest=5, draw=random.Random(1))
        sentences: Sentences = (tagged(kind, sources), targets)

        def rate(step: int) -> float:
            return 8e-3 * min(1.0, step / 30, (201 - step) / 90)

        teach(imported.model, imported.tokenizers, sentences, num_steps=200, batch_size=24, rate=rate)
        write_taught(imported, path / "taught")
        export_run(path / "taught", to="huggingface", output=path / "exported")
        shutil.copyfile(path / "exported" / "model.safetensors", self.folder / "model.safetensors")
        import_(self.folder, self.run)
        self.lines, self.references = toy_sentences(25, longest=5, draw=random.Random(3))

    def translate(self, run: Path | None = None, **options: Any) -> list[str]:
        options = {"device": "cpu", "precision": "fp32", "engine": "translate", "patience": 0} | options
        translator = load_translator(run or self.run, options=options).translator
        return [each.text for each in translator.translate(self.lines, to=self.to)]

    def generate(self, folder: Path, **options: Any) -> list[str]:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
        batch = tokenizer(tagged(self.kind, self.lines), return_tensors="pt", padding=True)
        inputs = {key: batch[key] for key in ("input_ids", "attention_mask")}
        found = model.generate(**inputs, **options)
        return [tokenizer.decode(ids, skip_special_tokens=True) for ids in found]


def write_taught(imported: Any, path: Path) -> None:
    from harness import write_run

    write_run(path, imported.config, imported.tokenizers, imported.model)


@pytest.fixture(scope="module", params=KINDS)
def trained(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Trained:
    return Trained(tmp_path_factory.mktemp(request.param), request.param)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_lines_are_those_of_generate(trained: Trained, beam_size: int) -> None:
    expected = trained.generate(trained.folder, num_beams=beam_size)
    found = trained.translate(beam_size=beam_size)
    assert found == expected
    assert (
        sum(map(str.__eq__, found, trained.references)) > 4 and len({*found}) > 18
    )  # it has learnt some of the language
    config = open_run(trained.run).config
    assert config.model.tie_embeddings == "inputs" and config.model.activation == "geglu"
    assert (config.data.language_tags, config.data.languages) == (
        ("source", ("de", "en", "fr", "gsw_Latn")) if trained.kind == "madlad" else (None, ())
    )


def test_the_other_engine_and_other_batches(trained: Trained) -> None:
    pytest.importorskip("ctranslate2")
    expected = trained.translate(patience=2)
    assert trained.translate(engine="ctranslate2", patience=2) == expected
    rounded = trained.translate(engine="ctranslate2", precision="int8", patience=2)
    assert sum(map(str.__eq__, rounded, expected)) > 20
    translator = load_own_translator(trained.run, options={"device": "cpu"}).translator
    together = translator.translate(trained.lines, to=trained.to)
    for line, each in zip(trained.lines[:5], together, strict=False):
        alone = translator.translate(line, to=trained.to)
        assert alone.text == each.text and alone.score == pytest.approx(each.score, abs=1e-5)


def test_there_and_back(trained: Trained, tmp_path: Path) -> None:
    """The export is a T5 model with the original weights, gives the same lines, and is imported to the same run."""
    export_run(trained.run, to="huggingface", output=tmp_path / "back")
    assert trained.generate(tmp_path / "back", num_beams=4) == trained.generate(trained.folder, num_beams=4)
    before, after = (
        transformers.AutoModelForSeq2SeqLM.from_pretrained(each) for each in (trained.folder, tmp_path / "back")
    )
    assert type(after) is transformers.T5ForConditionalGeneration
    assert json.loads((tmp_path / "back" / "config.json").read_text())["tie_word_embeddings"] is False
    weights = after.state_dict()
    for name, tensor in before.state_dict().items():
        torch.testing.assert_close(weights[name], tensor, rtol=1e-6, atol=0, msg=name)
    again, run = import_(tmp_path / "back", tmp_path / "again"), open_run(trained.run).load_model()
    assert again.tokenizers.source.all_pieces == run.tokenizers.source.all_pieces
    assert again.config.model == run.config.model and again.config.decoding.beam_size == 4
    for name, tensor in get_parameters(run.model).items():
        torch.testing.assert_close(get_parameters(again.model)[name], tensor, rtol=1e-6, atol=0, msg=name)
    keys = ("languages", "language_tags", "language_tag", "source_language", "target_language")
    assert [getattr(again.config.data, key) for key in keys] == [getattr(run.config.data, key) for key in keys]


@pytest.mark.parametrize(("to", "package"), [("ctranslate2", "ctranslate2"), ("onnx", "onnxruntime")])
def test_other_exports(trained: Trained, tmp_path: Path, to: Any, package: str) -> None:
    pytest.importorskip(package)
    export_run(trained.run, to=to, output=tmp_path / "out")  # compares the numbers
    sentinel = {"t5": "<extra_id_7>", "mt5": "▁<extra_id_7>", "madlad": "<s>"}[trained.kind]
    assert to == "onnx" or f'["{sentinel}"]' in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")


def finetune(trained: Trained, base: Path, run: Path, **sections: Any) -> Path:
    """Three steps on the same language with the words in reverse."""
    folder = run.parent
    write_lines(folder / "train.in", trained.lines)
    write_lines(folder / "train.out", [" ".join(reversed(text.split())) for text in trained.references])
    corpus = {"kind": "text", "source": str(folder / "train.in"), "target": str(folder / "train.out")}
    languages = sections.pop("languages", trained.languages)
    corpus |= dict(zip(("source_language", "target_language"), languages, strict=True))
    training = {"initialize_from": str(base), "max_steps": 3, "learning_rate": 0.01, "warmup_steps": 1, "device": "cpu"}
    training |= {"schedule": "constant", "precision": "fp32", "batch_tokens": 200} | sections.pop("training", {})
    sections |= {"data": {"train": [corpus]}, "training": training}
    run_training(load_config(sections, require_files=True).config, run)
    return run


@pytest.mark.parametrize(
    "training",
    [{}, {"freeze": ["embeddings", "encoder.0"]}, {"lora_rank": 4, "lora_targets": ["query", "feed_forward"]}],
)
def test_fine_tuned_it_is_a_t5_model_again(trained: Trained, tmp_path: Path, training: dict[str, Any]) -> None:
    tuned = finetune(trained, trained.run, tmp_path / "tuned", training=training)
    before, after = (open_run(each).load_model().model for each in (trained.run, tuned))
    changed = {name for name, tensor in get_parameters(after).items() if not tensor.equal(get_parameters(before)[name])}
    assert "output.bias" not in changed and "decoder.layers.1.self_attention.input_projection.weight" in changed
    assert ("encoder.embedder.tokens.weight" in changed) == (not training)
    export_run(tuned, to="huggingface", output=tmp_path / "out")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["model_type"] == "t5"
    found = trained.translate(tuned, beam_size=4)
    assert found == trained.generate(tmp_path / "out", num_beams=4) != trained.translate(beam_size=4)


@pytest.mark.parametrize("trained", ["madlad"], indirect=True)
def test_a_language_is_added(trained: Trained, tmp_path: Path) -> None:
    added = {"tokenizer": {"add_languages": {"nl": "de"}}, "languages": ("en", "nl")}
    tuned = finetune(trained, trained.run, tmp_path / "tuned", **added)
    export_run(tuned, to="huggingface", output=tmp_path / "out")
    again = import_(tmp_path / "out", tmp_path / "again")
    assert {"de", "en", "fr", "nl"} <= {*again.config.data.languages}
    for run in (tuned, tmp_path / "again"):
        translator = load_own_translator(run, options={"device": "cpu", "beam_size": 1}).translator
        found = [translator.translate(trained.references[:5], to=to, from_="en") for to in ("de", "nl")]
        assert all(one.score != other.score for one, other in zip(*found, strict=True))


def test_a_pruned_vocabulary(trained: Trained, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without sentinels, rows without a name and other languages the lines are the same, also after an export."""
    write_lines(tmp_path / "text", [*trained.lines, *trained.references])
    kept = ["de", "en"] if trained.kind == "madlad" else []
    pruned = import_(trained.folder, tmp_path / "pruned", keep_languages=kept, texts=[tmp_path / "text"])
    whole = open_run(trained.run).tokenizers.source
    assert pruned.tokenizers.source.vocab_size < whole.vocab_size
    left_out = {*whole.all_pieces} - {*pruned.tokenizers.source.all_pieces}
    expected = {"t5": {"<extra_id_0>", "<extra_id_99>"}, "mt5": {"▁<extra_id_0>"}, "madlad": {"▁<2fr>"}}
    assert expected[trained.kind] <= left_out
    assert trained.translate(tmp_path / "pruned", beam_size=4) == trained.translate(beam_size=4)
    export_run(tmp_path / "pruned", to="huggingface", output=tmp_path / "back")
    assert trained.generate(tmp_path / "back", num_beams=4) == trained.translate(beam_size=4)
    again = import_(tmp_path / "back", tmp_path / "again")
    assert again.tokenizers.source.all_pieces == pruned.tokenizers.source.all_pieces


def test_the_first_language_may_be_left_out(tmp_path: Path) -> None:
    folder = make_t5(tmp_path / "folder", "madlad")
    assert import_(folder, tmp_path / "run", keep_languages=["en", "fr"]).config.data.languages == ("en", "fr")


def test_transformers_may_join_most_texts_into_subwords_that_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_lines(tmp_path / "text", ["a b c"])
    draw = random.Random(1)
    folder = make_t5(tmp_path / "folder", "t5", lines=["".join(draw.choices("abc", k=9)) for _ in range(300)])
    import_(folder, tmp_path / "run", texts=[tmp_path / "text"])
    assert "differently" not in caplog.text


@pytest.mark.parametrize(
    ("activation", "settings"),
    [
        ("relu", {"feed_forward_proj": "relu", "tie_word_embeddings": True}),  # T5 1.0
        ("gelu", {"feed_forward_proj": "gelu"}),
        ("swish", {"feed_forward_proj": "silu"}),
        ("swiglu", {"feed_forward_proj": "gated-silu"}),
    ],
)
def test_other_models(tmp_path: Path, activation: str, settings: dict[str, Any]) -> None:
    folder = make_t5(tmp_path / "folder", "t5", **settings, num_decoder_layers=1, dropout_rate=0.25)
    config = import_(folder, tmp_path / "run").config.model  # compares the numbers
    is_tied = "tie_word_embeddings" in settings
    assert (config.activation, config.tie_embeddings) == (activation, "all" if is_tied else "inputs")
    assert (config.dropout, config.attention_dropout, config.activation_dropout) == (0.25, 0.25, 0.25)
    export_run(tmp_path / "run", to="huggingface", output=tmp_path / "back")
    written = json.loads((tmp_path / "back" / "config.json").read_text())
    assert (written["scale_decoder_outputs"], written["dropout_rate"]) == (is_tied, 0.25)
    assert written["tie_word_embeddings"] == is_tied
    before, after = (
        transformers.AutoModelForSeq2SeqLM.from_pretrained(each).state_dict() for each in (folder, tmp_path / "back")
    )
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, rtol=1e-6, atol=0, msg=name)


def test_a_tied_mt5_model_does_not_scale_its_output(tmp_path: Path) -> None:
    folder = make_t5(tmp_path / "folder", "mt5", tie_word_embeddings=True)
    assert import_(folder, tmp_path / "run").config.model.tie_embeddings == "all"  # compares the numbers


@pytest.fixture(scope="module")
def sharp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model as deep as the smallest T5 1.1, whose attention is four times as sharp as after its initialization.

    It amplifies rounding errors: its logits in transformers and here differ by 0.002.
    """
    shape = {"d_model": 96, "d_ff": 192, "d_kv": 32, "num_heads": 3, "num_layers": 8}
    folder = make_t5(tmp_path_factory.mktemp("sharp") / "folder", "t5", **shape)
    weights = load_file(folder / "model.safetensors")
    torch.manual_seed(3)
    for name, tensor in weights.items():
        if name.startswith(("shared", "lm_head")):
            tensor.normal_()
        elif "layer_norm" not in name and "relative" not in name:
            tensor.normal_(std=tensor.shape[1] ** -0.5 * (4 * 32**-0.5 if name.endswith("q.weight") else 1))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_rounding_errors_are_no_fault(sharp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import_(sharp, tmp_path / "run")
    for to in ("huggingface", "ctranslate2", "onnx"):
        export_run(tmp_path / "run", to=to, output=tmp_path / to)
    monkeypatch.setattr("translate.decoding.agreement._TIMES_NOISE", torch.zeros(2))
    with pytest.raises(RunError, match=r"its logits differ by up to 0\.00"):
        import_(sharp, tmp_path / "again")


def off_by_one(wrong: int) -> Any:
    """Buckets of distances, of which one begins one distance too late."""

    def find(distance: torch.Tensor, **options: Any) -> torch.Tensor:
        found = distance_buckets(distance, **options)
        return torch.where(distance.abs() == wrong, found - 1, found)

    return find


def move_a_border(model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("translate.model.positions.distance_buckets", off_by_one(30))


def swap_key_and_value(model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    projection = model.decoder.layers[7].cross_attention.input_projection.weight
    projection.copy_(torch.cat([projection.chunk(3)[part] for part in (0, 2, 1)]))


def change_epsilon(model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in model.modules():
        if hasattr(module, "eps"):
            monkeypatch.setattr(module, "eps", 1e-5)


def forget_scale(model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    model.decoder.layers[7].cross_attention.input_projection.weight[:96].div_(32**0.5)


def change_a_subword(model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    model.output.weight[50].mul_(1.1)


@pytest.mark.parametrize("change", [move_a_border, swap_key_and_value, change_epsilon, forget_scale, change_a_subword])
def test_faults_are_no_rounding_errors(sharp: Path, monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    foreign = read_pretrained(sharp)
    _, tokenizers, model = convert(foreign, [])
    with torch.no_grad():
        change(model, monkeypatch)
    with pytest.raises(RunError, match="its logits differ by up to"):
        foreign.check((foreign.source, foreign.target), model, tokenizers)


@pytest.mark.parametrize("directions", ["both", "past"])
@pytest.mark.parametrize(("num_buckets", "max_distance"), [(32, 128), (10, 37)])
def test_the_buckets_are_those_of_t5(directions: Any, num_buckets: int, max_distance: int) -> None:
    distance = torch.arange(-300, 301)[None]
    expected = transformers.models.t5.modeling_t5.T5Attention._relative_position_bucket(
        distance, bidirectional=directions == "both", num_buckets=num_buckets, max_distance=max_distance
    )
    found = distance_buckets(distance, num_buckets=num_buckets, max_distance=max_distance, directions=directions)
    assert torch.equal(found, expected)


@pytest.mark.parametrize(
    ("engine", "kind", "sentinel"),
    [("translate", "t5", "<extra_id_7>"), ("ctranslate2", "t5", "<extra_id_7>"), ("translate", "mt5", "▁<extra_id_7>")],
)
def test_sentinels_are_never_written(tmp_path: Path, engine: Any, kind: str, sentinel: str) -> None:
    """Nor rows without a name, by our search, CTranslate2 and an export, although they are the most probable."""
    pytest.importorskip("ctranslate2")
    folder = make_t5(tmp_path / "folder", kind)
    tokenizer = load_tokenizer(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    with torch.no_grad():
        model.lm_head.weight[tokenizer.convert_tokens_to_ids(sentinel)].mul_(9.0)
        model.lm_head.weight[-1] = -model.lm_head.weight[tokenizer.convert_tokens_to_ids(sentinel)]  # unnamed
    model.save_pretrained(folder)
    import_(folder, tmp_path / "run")
    translator = load_translator(tmp_path / "run", options={"device": "cpu", "engine": engine, "precision": "fp32"})
    lines = toy_sentences(9, longest=5, draw=random.Random(3))[0]
    found = [each.text for each in translator.translator.translate(lines)]
    assert any(found) and not any("extra_id" in text or "unnamed" in text for text in found)
    export_run(tmp_path / "run", to="huggingface", output=tmp_path / "back")
    batch = load_tokenizer(tmp_path / "back")(lines, return_tensors="pt", padding=True)
    made = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "back")
    names = load_tokenizer(tmp_path / "back").convert_ids_to_tokens(made.generate(**batch).flatten().tolist())
    assert not any("extra_id" in name or "unnamed" in name for name in names)
    assert "unnamed" in load_tokenizer(tmp_path / "back").convert_ids_to_tokens(model.config.vocab_size - 1)
    assert not import_(tmp_path / "back", tmp_path / "again").config.decoding.forbidden_ids


def test_a_tag_after_a_space_of_its_own(tmp_path: Path) -> None:
    """As an older tokenizer.json, in which tags are ordinary pieces, has it: ▁ and the tag are two tokens."""
    folder = make_t5(tmp_path / "folder", "madlad")
    load_tokenizer(folder).save_pretrained(folder)
    made = json.loads((folder / "tokenizer.json").read_text())
    made["added_tokens"] = made["added_tokens"][:3]
    (folder / "tokenizer.json").write_text(json.dumps(made))
    settings = {"tokenizer_class": "T5Tokenizer", "extra_ids": 0, "pad_token": "<s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"additional_special_tokens": []}))
    tokenizer = load_tokenizer(folder)
    assert tokenizer.tokenize("<2en> Hund")[:2] == ["▁", "<2en>"]
    imported, line = import_(folder, tmp_path / "run"), "Hund läuft"
    source, rows = imported.tokenizers.source, read_pretrained(folder).source.rows
    ids = [rows[token] for token in (*source.tag_ids("<2en>"), *source.encode(line))]
    assert ids == tokenizer(f"<2en> {line}")["input_ids"][:-1]
    assert [rows[token] for token in source.encode(f"<2en> {line}")] == ids
    kept = import_(folder, tmp_path / "kept", keep_languages=["de", "en"])
    assert kept.tokenizers.source.tag_ids("<2en>") and kept.config.data.languages == ("de", "en")
    assert kept.tokenizers.source.tag_id("<2fr>") is None
    whole = import_(folder, tmp_path / "named", "data.target_language=en")
    export_run(tmp_path / "named", to="huggingface", output=tmp_path / "back")
    again = import_(tmp_path / "back", tmp_path / "again")
    assert again.tokenizers.source.all_pieces == whole.tokenizers.source.all_pieces
    assert (again.config.data.languages, again.config.data.target_language) == (("de", "en", "fr", "gsw_Latn"), "en")


def test_sentinels_that_transformers_numbers_differently(tmp_path: Path) -> None:
    """They are in the SentencePiece model, and the tokenizer adds them again."""
    lines = [line for side in toy_sentences(300, longest=6, draw=random.Random(1)) for line in side]
    sentinels = [f"<extra_id_{number}>" for number in range(9)]
    options: dict[str, Any] = {"user_defined_symbols": sentinels, "vocab_size": 60, "hard_vocab_limit": False}
    spm = train_spm(lines, model_type="unigram", **options, **T5_SPM)
    (tmp_path / "spiece.model").write_bytes(spm)
    folder = make_t5(tmp_path / "folder", "t5", vocab_size=len(load_spm(tmp_path)))
    (folder / "spiece.model").write_bytes(spm)
    change_json(folder / "tokenizer_config.json", extra_ids=9)
    with pytest.raises(InputError, match="'<extra_id_0>'; .*extra_ids: 0"):
        import_(folder, tmp_path / "run")


def test_a_word_in_brackets_is_added(tmp_path: Path) -> None:
    folder = make_t5(tmp_path / "folder", "t5")
    add_tokens(folder, "<medical>")
    tokenizer, imported = load_tokenizer(folder), import_(folder, tmp_path / "run")
    source, rows = imported.tokenizers.source, read_pretrained(folder).source.rows
    text = "Hund <medical> läuft"
    assert [rows[token] for token in source.encode(text)] == tokenizer(text)["input_ids"][:-1]


def test_what_is_beside_an_added_word_may_differ(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = make_t5(tmp_path / "folder", "mt5")
    import_(folder, tmp_path / "without")
    assert not caplog.text
    add_tokens(folder, "<medical>")
    import_(folder, tmp_path / "run")
    (warning,) = (record.getMessage() for record in caplog.records)
    assert "<medical>, " in warning


def test_a_limit_of_the_tokenizer_does_not_shorten_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """T5's positions have no limit, and wrong buckets of long distances must show."""
    folder = make_t5(tmp_path / "folder", "t5", relative_attention_max_distance=90)
    change_json(folder / "tokenizer_config.json", model_max_length=20)
    monkeypatch.setattr("translate.model.positions.distance_buckets", off_by_one(85))
    with pytest.raises(RunError, match="its logits differ by up to"):
        import_(folder, tmp_path / "run")
    monkeypatch.undo()
    change_json(folder / "tokenizer_config.json", model_max_length=1e30)
    import_(folder, tmp_path / "run")


def test_a_weight_that_is_not_finite_is_named(tmp_path: Path) -> None:
    """Although no sentence of the check has this row."""
    folder = make_t5(tmp_path / "folder", "t5")
    weights = load_file(folder / "model.safetensors")
    weights["shared.weight"][2, 5] = torch.nan  # <unk>
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"the weight shared\.weight has a number that is infinite"):
        import_(folder, tmp_path / "run")


def test_text_that_transformers_divides_differently(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """T5 was trained with SentencePiece's tokens, so the run has those, and one warning says so, unless most differ."""
    folder = make_t5(tmp_path / "folder", "mt5")
    load_tokenizer(folder).save_pretrained(folder)
    made = json.loads((folder / "tokenizer.json").read_text())
    pieces, scores = zip(*made["model"]["vocab"], strict=True)
    words = [piece for piece in pieces if len(piece) > 2 and "<" not in piece]
    for lowered in (words[:1], words):
        lower = [[piece, -99.0 if piece in lowered else score] for piece, score in zip(pieces, scores, strict=True)]
        (folder / "tokenizer.json").write_text(json.dumps(made | {"model": made["model"] | {"vocab": lower}}))
        if lowered == words:
            with pytest.raises(RunError, match=r"splits \d of 6 texts.*spiece\.model"):
                import_(folder, tmp_path / "other")
        else:
            import_(folder, tmp_path / "run")
            assert caplog.text.count("spiece.model") == 1
    changed = (folder / "spiece.model").read_bytes()
    (folder / "spiece.model").write_bytes(changed.replace("▁Hund".encode(), "▁Mund".encode()))
    with pytest.raises(InputError, match="▁Mund"):
        import_(folder, tmp_path / "no")


def change_json(file: Path, **values: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def leave_out_head(folder: Path) -> None:
    """As the class without a head saves it."""
    transformers.T5Model.from_pretrained(folder).save_pretrained(folder)
    change_json(folder / "config.json", tie_word_embeddings=False)


def change_weights(folder: Path, prefix: str = "", **added: float) -> None:
    """Store weights again, of which some are those of the embeddings, with a number added to the row of `<unk>`."""
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    for name, number in added.items():
        weights[name] = weights["shared.weight"].clone()
        weights[name][2] += number
    save_file({f"{prefix}{name}": tensor for name, tensor in weights.items()}, folder / "model.safetensors")


def leave_out_decoder(folder: Path) -> None:
    transformers.T5EncoderModel.from_pretrained(folder).save_pretrained(folder)


def forget_start(folder: Path) -> None:
    for name in ("config.json", "generation_config.json"):
        change_json(folder / name, decoder_start_token_id=None)


def add_tokens(folder: Path, *names: str) -> None:
    tokenizer = load_tokenizer(folder)
    tokenizer.add_tokens([*names])
    tokenizer.save_pretrained(folder)


def test_the_start_symbol_may_be_in_the_settings_of_generate(tmp_path: Path) -> None:
    folder = make_t5(tmp_path / "folder", "t5")
    change_json(folder / "config.json", decoder_start_token_id=None)
    assert import_(folder, tmp_path / "run").config.data.max_source_tokens == 511


def test_files_that_are_not_read_may_be_anything(tmp_path: Path) -> None:
    """Neither their size nor their content counts, and `run.json` does not list them."""
    folder = make_t5(tmp_path / "folder", "t5")
    with (folder / "predictions.json").open("wb") as file:
        file.truncate(2**26 + 1)
    (folder / "runs.json").symlink_to("nowhere")
    shutil.copy(folder / "model.safetensors", folder / "model.fp16.safetensors")
    import_(folder, tmp_path / "run")
    files = json.loads((tmp_path / "run" / "run.json").read_text())["imported"]["files"]
    assert files.keys() == {
        *("config.json", "generation_config.json", "tokenizer_config.json", "spiece.model", "model.safetensors"),
    }


@pytest.mark.parametrize("num_bytes", [3000, 50_000])
def test_a_full_disk(tmp_path: Path, num_bytes: int) -> None:
    import_(make_t5(tmp_path / "folder", "t5"), tmp_path / "run")
    with files_up_to(num_bytes):
        for write, output in (
            (lambda output: import_(tmp_path / "folder", output), tmp_path / "again"),
            (lambda output: export_run(tmp_path / "run", to="huggingface", output=output), tmp_path / "out"),
        ):
            with pytest.raises(RunError) as caught:
                write(output)
            assert str(output) in str(caught.value) and ".tmp" not in str(caught.value)


def test_languages_may_be_given_to_a_pruned_model_that_names_none(tmp_path: Path) -> None:
    write_lines(tmp_path / "text", toy_sentences(20, longest=5, draw=random.Random(3))[0])
    given = ("data.language_tags=target", "data.languages=[de,en]")
    folder = make_t5(tmp_path / "folder", "t5")
    assert import_(folder, tmp_path / "run", *given, texts=[tmp_path / "text"]).config.data.languages == ("de", "en")


def test_ids_in_lists_and_settings_that_are_null(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As other versions of transformers write them. `generate` begins with the start symbol of its own settings."""
    folder = make_t5(tmp_path / "folder", "t5")
    change_json(folder / "config.json", eos_token_id=[1], classifier_dropout=None, num_decoder_layers=None)
    change_json(folder / "generation_config.json", eos_token_id=[1], decoder_start_token_id=5)
    assert import_(folder, tmp_path / "run").config.model.num_decoder_layers == 2 and not caplog.records
    assert read_pretrained(folder).target.start == 5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: (folder / "spiece.model").unlink(), "missing files: spiece.model"),
        (lambda folder: (folder / "spiece.model").write_bytes(b"no model"), "is damaged"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"no model"), "is damaged"),
        (lambda folder: (folder / "config.json").unlink(), "is not the folder of a model"),
        (leave_out_head, "missing keys: lm_head.weight"),
        (
            lambda folder: change_weights(folder, **{"encoder.embed_tokens.weight": 0.1}),
            r"encoder\.embed_tokens\.weight and decoder\.embed_tokens\.weight differ",
        ),
        (lambda folder: change_weights(folder, **{"shared.weight": torch.nan}), r"the weight shared\.weight has"),
        (lambda folder: change_weights(folder, prefix="module."), r"missing keys: .*unexpected keys: module\."),
        (lambda folder: change_json(folder / "config.json", dense_act_fn="relu"), "dense_act_fn = 'relu'"),
        (leave_out_decoder, "has only an encoder"),
        (lambda folder: change_json(folder / "config.json", feed_forward_proj="gated-relu"), "feed_forward_proj"),
        (lambda folder: change_json(folder / "config.json", feed_forward_proj="gated-a-b"), "feed_forward_proj"),
        (forget_start, "decoder_start_token_id is missing"),
        (lambda folder: change_json(folder / "config.json", eos_token_id=999), "eos_token_id = 999"),
        (lambda folder: add_tokens(folder, "ñ"), "has the added tokens 'ñ'"),
        (lambda folder: (folder / "spiece.model").rename(folder / "tokenizer.json"), "transformers 5 does not save it"),
        (
            lambda folder: change_json(folder / "tokenizer_config.json", tokenizer_class="ByT5Tokenizer"),
            "ByT5Tokenizer; only T5Tokenizer",
        ),
        (lambda folder: change_json(folder / "config.json", d_kv=9), "has the shape"),
    ],
)
@pytest.mark.parametrize("trained", ["t5"], indirect=True)
def test_refusals(trained: Trained, tmp_path: Path, change: Any, words: str) -> None:
    folder = Path(shutil.copytree(trained.folder, tmp_path / "folder"))
    change(folder)
    with pytest.raises(InputError, match=words) as caught:
        import_model(str(folder), tmp_path / "run", command=["translate"])
    assert str(folder) in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_what_no_format_can_express_is_refused(tmp_path: Path) -> None:
    """RMSNorm with rotary positions: neither T5 nor the modelling file."""
    from harness import make_toy, tiny_config

    shape = {"norm": "pre", "norm_kind": "rms", "positions": "rotary"}
    run = make_toy(tmp_path / "run", tiny_config(model=shape), num_steps=0).path
    with pytest.raises(InputError, match=r"model\.norm_kind = 'rms'") as caught:
        export_run(run, to="huggingface", output=tmp_path / "out")
    assert "\n" not in str(caught.value) and not (tmp_path / "out").exists()


def test_an_own_run_in_t5s_way_is_a_t5_model(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from harness import make_toy, tiny_config

    caplog.set_level(logging.WARNING)
    shape = {"norm": "pre", "norm_kind": "rms", "bias": False, "activation": "geglu", "positions": "relative"}
    shape |= {"scale_embeddings": False, "tie_embeddings": "inputs", "head_dim": 5}
    run = make_toy(tmp_path / "run", tiny_config(model=shape), num_steps=0).path
    export_run(run, to="huggingface", output=tmp_path / "out")  # compares numbers and tokens
    assert json.loads((tmp_path / "out" / "config.json").read_text())["model_type"] == "t5"
    again = import_(tmp_path / "out", tmp_path / "again")
    assert again.tokenizers.source.all_pieces == open_run(run).tokenizers.source.all_pieces
    assert not again.config.model.output_bias
