"""MarianMT folders: numbers and texts are those of transformers; what a run cannot hold is refused by its name."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from translate.decoding.loading import load_translator
from translate.export import export_run
from translate.export.huggingface import marian_weights
from translate.importing import import_model
from translate.model.transformer import initialize
from translate.runs.loading import load_run

transformers = pytest.importorskip("transformers", reason="the extra `huggingface` is not installed")

MakeOpus = Callable[..., Path]

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses:UserWarning")


def import_(folder: Path, run: Path, *overrides: str) -> Any:
    return import_model(str(folder), run, overrides=overrides, command=["translate", "import"])


def generate(folder: Path, texts: list[str], **options: Any) -> list[str]:
    """The texts of transformers' own search."""
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    model = transformers.MarianMTModel.from_pretrained(folder)
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    found: list[str] = tokenizer.batch_decode(model.generate(**batch, **options), skip_special_tokens=True)
    return found


def translate(run: Path, texts: list[str], **options: Any) -> list[str]:
    translator = load_translator(run, options={"device": "cpu", **options}).translator
    return [each.text.strip() for each in translator.translate(texts)]


@pytest.fixture(scope="module")
def opus(make_opus: MakeOpus, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder and the run that was imported from it."""
    path = tmp_path_factory.mktemp("opus")
    folder, run = make_opus(path / "opus-mt-de-en", bin_file=True), path / "run"
    import_(folder, run)
    return folder, run


def test_the_folder_has_the_files_of_a_real_one(opus: tuple[Path, Path]) -> None:
    names = {
        "config.json", "generation_config.json", "pytorch_model.bin", "source.spm", "target.spm",
        "tokenizer_config.json", "vocab.json",
    }  # fmt: skip
    assert {file.name for file in opus[0].iterdir()} == names


def test_greedy_search_is_the_same_on_a_hundred_lines(opus: tuple[Path, Path], german: list[str]) -> None:
    folder, run = opus
    ours = translate(run, german, beam_size=1)
    assert len(set(ours)) > 40
    assert ours == generate(folder, german, num_beams=1)


def test_a_trained_model_translates_a_hundred_lines_alike(
    make_opus: MakeOpus, train_spm: Callable[..., bytes], toy_sentences: Any, teach: Any, tmp_path: Path
) -> None:
    """A model that is sure, as trained ones are, finds the same translations with both beam searches."""
    sentences = toy_sentences(2000, longest=6, draw=random.Random(1))
    models = tuple(train_spm(side, vocab_size=40, hard_vocab_limit=False) for side in sentences)
    shape = {"d_model": 32, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "encoder_layers": 1, "decoder_layers": 1}
    folder = make_opus(tmp_path / "opus", models=models, dropout=0.0, spare=0, **shape)
    converted = import_(folder, tmp_path / "untrained")
    initialize(converted.model, "xavier")
    teach(converted.model, converted.tokenizers, sentences, num_steps=200, batch_size=24, rate=lambda step: 5e-3)
    marian = transformers.MarianMTModel.from_pretrained(folder)
    names = list(transformers.MarianTokenizer.from_pretrained(folder).encoder)
    ours = dict(zip(converted.tokenizers.source.pieces(range(len(names) + 1)), range(len(names) + 1), strict=True))
    rows = torch.tensor([ours["<s>" if name == "<pad>" else name] for name in names])
    weights = marian_weights(converted.model)
    for name, weight in weights.items():
        if len(rows) + 1 in weight.shape:
            weights[name] = weight.index_select(weight.shape.index(len(rows) + 1), rows)
    marian.load_state_dict(weights, strict=False)
    marian.save_pretrained(tmp_path / "trained")
    for name in ("vocab.json", "source.spm", "target.spm", "tokenizer_config.json"):
        shutil.copy(folder / name, tmp_path / "trained")
    import_(tmp_path / "trained", tmp_path / "run")
    sources, references = toy_sentences(100, longest=6, draw=random.Random(3))
    for beam_size in (1,):
        found = translate(tmp_path / "run", sources, beam_size=beam_size)
        assert sum(map(str.__eq__, found, references)) > 60
        assert found == generate(tmp_path / "trained", sources, num_beams=beam_size)


def test_the_run_has_the_search_of_the_folder(opus: tuple[Path, Path]) -> None:
    config = load_run(opus[1]).config
    assert (config.data.source_language, config.data.target_language) == ("de", "en")
    assert (config.data.max_source_tokens, config.data.max_target_tokens) == (96, 96)
    search = config.decoding
    assert (search.beam_size, search.length_penalty_kind, search.length_penalty) == (4, "average", 1.0)
    assert (search.max_length_factor, search.max_length_constant) == (0.0, 38)
    assert (config.tokenizer.type, config.tokenizer.vocabulary, config.model.output_bias) == ("unigram", "joint", True)


@pytest.mark.parametrize(
    "options",
    [
        {"tags": (">>deu<<", ">>eng<<")},
        {"separate": True},
        {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False},
        {"separate": True, "tie_word_embeddings": False, "activation_function": "relu", "scale_embedding": False},
        {"tie_word_embeddings": False, "activation_function": "gelu"},
        {"decoder_start_token_id": 0},
    ],
    ids=str,
)
def test_other_layouts(make_opus: MakeOpus, german: list[str], tmp_path: Path, options: dict[str, Any]) -> None:
    folder = make_opus(tmp_path / "opus", **options)
    import_(folder, tmp_path / "run")  # compares the numbers
    texts = [f"{tag} {text}" for tag, text in zip([*options.get("tags", [""]), ""], german, strict=False)]
    assert translate(tmp_path / "run", texts, beam_size=3) == generate(folder, texts, num_beams=3)


def test_a_language_token_decides(make_opus: MakeOpus, tmp_path: Path, german: list[str]) -> None:
    tags = (">>deu<<", ">>eng<<")
    folder, run = make_opus(tmp_path / "opus", tags=tags, end_bias=0.0), tmp_path / "run"
    source = import_(folder, run).tokenizers.source
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    for text in (">>eng<< Hund", ">>eng<<Hund", ">>xyz<< Hund", "Hund >>eng<<", ">> Hund <<", ">>eng<<", ""):
        rows = [tokenizer.encoder.get(piece, 1) for piece in tokenizer.tokenize(text)]
        assert tokenizer(text)["input_ids"] == [*rows, 0]
        assert source.pieces(source.encode(text)) == [
            name if name in tokenizer.encoder else "<unk>" for name in tokenizer.tokenize(text)
        ]
    assert source.encode_lines([">>eng<< Hund", "Hund"], num_threads=1) == [
        source.encode(">>eng<< Hund"),
        source.encode("Hund"),
    ]
    assert len({*translate(run, [f"{tag} {german[0]}" for tag in tags])}) == 2


def test_export_back_gives_the_same_weights(opus: tuple[Path, Path], german: list[str], tmp_path: Path) -> None:
    folder, run = opus
    export_run(run, to="huggingface", output=tmp_path / "back")
    again = import_(tmp_path / "back", tmp_path / "again")
    first = load_run(run)
    assert {**marian_weights(first.model)}.keys() == {**marian_weights(again.model)}.keys()
    for name, weight in marian_weights(first.model).items():
        assert torch.equal(weight, marian_weights(again.model)[name]), name
    assert again.tokenizers.source.encode_lines(german, num_threads=1) == first.tokenizers.source.encode_lines(
        german, num_threads=1
    )
    search = {"num_beams": 1, "max_new_tokens": 20, "forced_eos_token_id": None}
    assert generate(tmp_path / "back", german[:5], **search) == generate(folder, german[:5], **search)
