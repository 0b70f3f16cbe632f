"""MarianMT folders: numbers and texts are those of transformers; what a run cannot represent is refused by its name."""

import json
import shutil
import zipfile
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import Toy, assert_same, import_, make_two_ways, write_lines

from translate.config.languages import Languages
from translate.decoding.counterparts import COUNTERPARTS
from translate.decoding.loading import load_own_translator
from translate.errors import InputError, RunError
from translate.exchange import export_run
from translate.exchange.importing import convert
from translate.exchange.pretrained import read_pretrained, search_settings
from translate.fingerprint import fingerprint
from translate.runs.run import open_run

transformers = pytest.importorskip("transformers", reason="the extra `huggingface` is not installed")

MakeOpus = Callable[..., Path]

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses:UserWarning")


def generate(folder: Path, texts: list[str], **options: Any) -> list[str]:
    """The texts of transformers' own search."""
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    model = transformers.MarianMTModel.from_pretrained(folder)
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    found: list[str] = tokenizer.batch_decode(model.generate(**batch, **options), skip_special_tokens=True)
    return found


def translate(run: Path, texts: list[str], **options: Any) -> list[str]:
    translator = load_own_translator(run, options={"device": "cpu", **options}).translator
    return [each.text.strip() for each in translator.translate(texts)]


@pytest.fixture(scope="module")
def opus(make_opus: MakeOpus, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder, with its weights as most models on the Hub have them, and the run that was imported from it."""
    path = tmp_path_factory.mktemp("opus")
    folder, run = make_opus(path / "opus-mt-de-en"), path / "run"
    torch.save(transformers.MarianMTModel.from_pretrained(folder).state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    import_(folder, run)
    return folder, run


def test_greedy_search_is_the_same_on_a_hundred_lines(opus: tuple[Path, Path], german: list[str]) -> None:
    folder, run = opus
    ours = translate(run, german, beam_size=1)
    assert len(set(ours)) > 40
    assert ours == generate(folder, german, num_beams=1)


@pytest.fixture(scope="module")
def exported(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exports") / "folder"
    export_run(toy.path, to="huggingface", output=folder)
    return folder


SETTINGS: dict[str, Callable[[Any], dict[str, object]]] = {  # of a config.json with a choice, known there or not
    "activation": lambda name: COUNTERPARTS["activation"][name].marian_mt or {"activation_function": name},
    "norm": lambda name: {"normalize_before": name == "pre"},
    "scale_embeddings": lambda value: {"scale_embedding": value},
    "positions": lambda name: {"static_position_embeddings": name == "sinusoidal"},
    "tie_embeddings": lambda name: COUNTERPARTS["tie_embeddings"][name].marian_mt or {},
}
CHOICES = [(key, value) for key in SETTINGS for value in COUNTERPARTS[key] if value != "inputs"]  # no file can say that
FIXED = {"norm_kind": "layer", "bias": True, "embedding_norm": False}  # no setting there has another choice


def test_every_key_has_a_setting_or_one_choice() -> None:
    assert COUNTERPARTS.keys() == SETTINGS.keys() | FIXED.keys()
    for key, choice in FIXED.items():
        assert [value for value, row in COUNTERPARTS[key].items() if row.marian_mt is not None] == [choice]


@pytest.mark.parametrize(("key", "value"), CHOICES)
def test_every_choice_is_read_or_refused(
    make_opus: MakeOpus, opus: tuple[Path, Path], tmp_path: Path, key: str, value: str
) -> None:
    settings = SETTINGS[key](value)
    if COUNTERPARTS[key][value].marian_mt is not None:
        converted = import_(make_opus(tmp_path / "opus", **settings), tmp_path / "run")  # compares the numbers
        assert getattr(converted.config.model, key) == value
        return
    shutil.copytree(opus[0], tmp_path / "opus")
    change_json(tmp_path / "opus" / "config.json", **settings)
    [(name, refused)] = settings.items()
    with pytest.raises(InputError, match=f"{name} = {refused!r}"):
        import_(tmp_path / "opus", tmp_path / "run")


@pytest.mark.parametrize(
    "options",
    [
        {"tags": (">>deu<<", ">>eng<<")},
        {"separate": True, "tie_word_embeddings": False, "scale_embedding": False},
        {"tie_word_embeddings": False},
        {"decoder_start_token_id": 0},
    ],
    ids=str,
)
def test_other_layouts(make_opus: MakeOpus, german: list[str], tmp_path: Path, options: dict[str, Any]) -> None:
    folder = make_opus(tmp_path / "opus", **options)
    import_(folder, tmp_path / "run")  # compares the numbers
    texts = [f"{tag} {text}" for tag, text in zip([*options.get("tags", [""]), ""], german, strict=False)]
    assert translate(tmp_path / "run", texts, beam_size=3) == generate(folder, texts, num_beams=3)
    if (vocabulary := folder / "target_vocab.json").exists():
        vocabulary.write_text(vocabulary.read_text().replace('"<unk>"', '"<none>"'))
        with pytest.raises(InputError, match="target_vocab.json: the symbol <unk> is missing"):
            import_(folder, tmp_path / "other")


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
    texts = [">>eng<< Hund", "Hund"]
    assert source.encode_lines(texts, num_threads=1) == [source.encode(text) for text in texts]
    assert len({*translate(run, [f"{tag} {german[0]}" for tag in tags])}) == 2


def change_json(file: Path, **values: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("config.json", {"model_type": "bart"}, "config.json: model_type = 'bart' cannot be imported"),
        ("config.json", {"activation_function": "tanh"}, "activation_function = 'tanh' (only 'relu' or "),
        ("config.json", {"decoder_ffn_dim": 29}, "a run cannot represent decoder_ffn_dim = 29 (only 28)"),
        ("config.json", {"encoder_layers": 3}, "the model in config.json: missing keys: model.encoder"),
        ("config.json", {"encoder_ffn_dim": 29, "decoder_ffn_dim": 29}, "fc1.weight has the shape (28, 20), not (29, "),
        ("config.json", {"eos_token_id": 1}, "config.json: eos_token_id = 1, and in vocab.json it is 0"),
        ("config.json", b"{", "config.json: is damaged: it is not JSON"),
        ("config.json", {"encoder_layers": 10**12}, "model.num_encoder_layers = 1000000000000"),
        ("config.json", {"num_hidden_layers": 10**5}, "model.num_encoder_layers = 100000"),  # another name
        ("config.json", {"hidden_size": 60_000}, "has the shape (20,), not (60000,)"),
        ("config.json", {"vocab_size": 6 * 10**7}, "model.shared.weight has the shape (742, 20), not (60000000, 20)"),
        ("config.json", {"encoder_layers": "two"}, "'encoder_layers'"),
        (
            "config.json",
            {"max_position_embeddings": 10**6},
            "max_position_embeddings = 1000000; it must be a whole number from 2 to 20000",
        ),
        (
            "config.json",
            {"pad_token_id": -1},
            "config.json: pad_token_id = -1; it must be a whole number from 0 to 741",
        ),
        ("generation_config.json", {"num_beams": "many"}, "generation_config.json: is damaged: num_beams"),
        ("generation_config.json", {"bad_words_ids": [5]}, "generation_config.json: is damaged: bad_words_ids.0"),
        (
            "tokenizer_config.json",
            {"language_tag": "{:>2000000000}"},
            "config.json: is damaged: language_tag",
        ),
        ("tokenizer_config.json", {"languages": ["de", "../x"]}, "tokenizer_config.json: is damaged: languages.1"),
        ("tokenizer_config.json", {"model_max_length": "x"}, "is damaged"),
        ("vocab.json", {"▁in": "x"}, "vocab.json: is damaged: ▁in"),
        ("added_tokens.json", b'{"<x>": -1}', "added_tokens.json: is damaged: <x>"),
        ("special_tokens_map.json", b" " * (2**26 + 1), "special_tokens_map.json: has more than 64 MiB"),
        ("chat_template.jinja", b" " * (2**26 + 1), "chat_template.jinja: has more than 64 MiB"),
        ("adapter_config.json", b"{}", "adapter_config.json belongs to an adapter"),
        (
            "model.safetensors.index.json",
            b'{"weight_map": {"w": "../x.bin"}}',
            "json: '../x.bin' should be a name",
        ),
        ("source.spm", None, "missing files: source.spm"),
        ("pytorch_model.bin", b"PK\x03\x04", ": is damaged, or not a model that can be imported ("),
        ("target.spm", b"\xff", ": is damaged, or not a model that can be imported ("),
        ("vocab.json", b'{"</s>": 0, "<unk>": 1}', "vocab.json: has 3 subwords, but the model has "),
        ("vocab.json", {"▁in": 0}, "each once, and they are 0 to "),
    ],
)
def test_refusals(opus: tuple[Path, Path], tmp_path: Path, name: str, change: Any, words: str) -> None:
    folder = tmp_path / "opus"
    shutil.copytree(opus[0], folder)
    if change is None:
        (folder / name).unlink()
    elif isinstance(change, bytes):
        (folder / name).write_bytes(change)
    else:
        change_json(folder / name, **change)
    with pytest.raises(InputError) as caught:
        import_(folder, tmp_path / "run")
    assert words in str(caught.value) and str(folder) in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", ["compressed", "repeated", "whole numbers"])
def test_weights_that_would_grow(opus: tuple[Path, Path], tmp_path: Path, kind: str) -> None:
    """Their sizes are known before they are read."""
    folder = Path(shutil.copytree(opus[0], tmp_path / "opus"))
    file, name = folder / "pytorch_model.bin", "model.shared.weight"
    weights = torch.load(file)
    if kind == "compressed":
        with zipfile.ZipFile(file) as archive:
            parts = {part.filename: archive.read(part) for part in archive.infolist()}
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for part, content in parts.items():
                archive.writestr(part, content + bytes(2**24 * part.endswith("data.pkl")))
    else:
        weights[name] = torch.zeros(1, 1).expand(742, 20) if kind == "repeated" else weights[name].to(torch.int8)
        torch.save(weights, file)
    with pytest.raises(InputError, match="unpacks into more" if kind == "compressed" else f"{name} is not a dense"):
        import_(folder, tmp_path / "run")


def test_what_does_not_describe_the_model_is_not_read(opus: tuple[Path, Path], tmp_path: Path) -> None:
    """It may be endless, or name other files and programs, which transformers would load."""
    folder = Path(shutil.copytree(opus[0], tmp_path / "opus"))
    other = {"num_labels": 10**9, "attn_implementation": "me/kernel", "transformers_weights": "../x.safetensors"}
    code = {"auto_map": {"AutoTokenizer": ["mine.Mine", None]}, "sp_model_kwargs": {"model_file": "/dev/null"}}
    change_json(folder / "config.json", **other)
    change_json(folder / "tokenizer_config.json", **code)
    (folder / "mine.py").write_text("raise SystemExit\n")
    import_(folder, tmp_path / "run")


def test_added_tokens_are_words_of_the_vocabulary(make_opus: MakeOpus, tmp_path: Path, german: list[str]) -> None:
    """They are found before a text is segmented, and are printed."""
    folder = make_opus(tmp_path / "opus")
    model, size = transformers.MarianMTModel.from_pretrained(folder), 742
    model.resize_token_embeddings(size + 2)
    model.save_pretrained(folder)
    (folder / "added_tokens.json").write_text(json.dumps({"<medical>": size, "[X]": size + 1}))
    source = import_(folder, tmp_path / "run").tokenizers.source
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    texts = [f"{word} {text}" for text in german[:10] for word in ("<medical>", "Hund [X]")]
    for text in texts:
        names = tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])[:-1]
        found = source.pieces(source.encode(text))
        assert [name.removeprefix("▁") if name in ("▁<medical>", "▁[X]") else name for name in found] == names
    assert source.decode(source.encode(texts[0])) == texts[0]
    assert translate(tmp_path / "run", texts, beam_size=1) == generate(folder, texts, num_beams=1)


def test_what_the_files_say_cannot_be_overridden(opus: tuple[Path, Path]) -> None:
    """And every weight has a place."""
    foreign = read_pretrained(opus[0])
    config = convert(foreign, ["data.source_language=gsw", "decoding.beam_size=2"]).config
    assert (config.data.source_language, config.decoding.beam_size) == ("gsw", 2)
    with pytest.raises(InputError, match="model.d_ff=56: .* determine `model`"):
        convert(foreign, ["model.d_ff=56"])
    name = "model.encoder.layers.1.fc1.weight"
    weight = foreign.weights[name]
    for weights, words in (
        ({"decoder.extra": weight}, "the weights decoder.extra are not part of our model"),
        ({name: weight[:-1]}, f"the weight {name} has the shape (27, 20), not (28, 20)"),
    ):
        with pytest.raises(InputError) as caught:
            convert(foreign._replace(weights=foreign.weights | weights), [])
        assert words in str(caught.value)
    del foreign.weights[name]
    with pytest.raises(InputError, match=f"the weight {name} is missing"):
        convert(foreign, [])


def test_other_numbers_are_an_error(opus: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("translate.exchange.importing.EXCLUDED", 5.0)  # our padding gets a probability
    with pytest.raises(RunError, match=r"its log-probabilities differ by up to .* nothing is kept"):
        import_(opus[0], tmp_path / "run")
    assert [file.name for file in tmp_path.iterdir()] == []


def test_a_name_on_the_hub_is_downloaded(
    opus: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def download(name: str, *, allow_patterns: list[str], ignore_patterns: list[str]) -> str:
        asked.append((name, allow_patterns))
        if name != "Helsinki-NLP/opus-mt-de-en":
            raise OSError("404")
        return str(opus[0])

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    import_(Path("Helsinki-NLP/opus-mt-de-en"), tmp_path / "run")
    assert {name for name, _ in asked} == {"Helsinki-NLP/opus-mt-de-en"}
    files = [
        "model.safetensors",
        "model.fp16.safetensors",
        "pytorch_model.bin",
        "source.spm",
        "README.md",
        "tf_model.h5",
    ]
    found = [[name for name in files if any(fnmatchcase(name, each) for each in patterns)] for _, patterns in asked]
    assert found == [["model.safetensors", "source.spm", "README.md"], ["pytorch_model.bin", "source.spm", "README.md"]]
    origin = json.loads((tmp_path / "run" / "run.json").read_text())["imported"]
    assert origin["source"] == "Helsinki-NLP/opus-mt-de-en" and origin["folder"] == str(opus[0])
    assert origin["read_with"] == {"transformers": transformers.__version__}
    assert origin["files"]["source.spm"] == fingerprint(opus[0] / "source.spm")
    assert "pytorch_model.bin" in origin["files"]
    config = open_run(tmp_path / "run").config
    assert (config.data.source_language, config.data.target_language) == ("de", "en")
    assert (config.data.max_source_tokens, config.decoding.beam_size) == (96, 4)
    assert (config.decoding.max_length_factor, config.decoding.max_length_constant) == (0.0, 38)
    with pytest.raises(InputError, match="a/b: no such folder, nor could .* the Hub .404.; .* import their folder"):
        import_(Path("a/b"), tmp_path / "other")
    with pytest.raises(InputError, match="nowhere: no such folder, and not OWNER/NAME of a model"):
        import_(Path("nowhere"), tmp_path / "other")


KEPT: list[dict[str, Any]] = [
    {"early_stopping": True, "max_new_tokens": 5, "suppress_tokens": [0, 2, 5, 6, 7]},
    {"early_stopping": "never", "min_length": 14},
    {"length_penalty": 2.0, "bad_words_ids": [[0], [3], [9], [10, 11], [12, 13]]},
    {"max_length": 9, "forced_eos_token_id": 3, "no_repeat_ngram_size": 1},
    {"min_new_tokens": 14, "repetition_penalty": 1.5},
]


@pytest.mark.parametrize("kept", KEPT, ids=str)
def test_settings_of_the_search_are_kept(
    toy: Toy, exported: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, kept: dict[str, Any]
) -> None:
    """Fifty lines are translated as transformers translates them."""
    folder = Path(shutil.copytree(exported, tmp_path / "folder"))
    plain = {"num_beams": 4, "decoder_start_token_id": 2, "eos_token_id": 3, "pad_token_id": 0, "max_new_tokens": 40}
    if "max_length" in kept:
        del plain["max_new_tokens"]
    (folder / "generation_config.json").write_text(json.dumps(plain | kept))
    caplog.clear()
    import_(folder, tmp_path / "run")
    assert not caplog.records
    lines = (toy.sources * 50)[:50]
    lines = [f"{line} {lines[number // 3]}" for number, line in enumerate(lines)]
    assert translate(tmp_path / "run", lines) == generate(folder, lines)


@pytest.mark.parametrize("kind", ["source", "both"])
def test_languages_come_back(tmp_path: Path, kind: str) -> None:
    """The files of an export say how the model is told a language."""
    shape = {"norm": "post", "positions": "sinusoidal"}
    search = {"max_length_factor": 0.0, "length_penalty_kind": "average", "precision": "fp32"}
    made = make_two_ways(tmp_path, [kind], num_steps=0, model=shape, decoding=search)[kind]
    export_run(made.path, to="huggingface", output=tmp_path / "folder")
    imported = import_(tmp_path / "folder", tmp_path / "run").config
    known = made.config.data
    assert imported.data.languages == ("de", "en") and imported.data.language_tag == known.language_tag
    assert (imported.data.language_tags, imported.decoding.max_length_constant) == (kind, 20)
    write_lines(tmp_path / "text", [*made.sources, *made.references])
    english = "data.target_language=en"  # the default, whose tag begins targets if it is not given
    pruned = import_(tmp_path / "folder", tmp_path / "pruned", english, texts=[tmp_path / "text"])  # which has no tags
    assert pruned.tokenizers.source.vocab_size < made.tokenizers.source.vocab_size
    assert load_own_translator(tmp_path / "pruned").translator.translate("Hund", to="en", from_="de")
    export_run(tmp_path / "pruned", to="huggingface", output=tmp_path / "back")
    again = import_(tmp_path / "back", tmp_path / "again")
    assert again.tokenizers.source.model_bytes == pruned.tokenizers.source.model_bytes
    assert Languages(again.config.data).settings == Languages(pruned.config.data).settings
    assert again.config.data.target_language == "en"
    for to, lines in (("en", made.sources[:3]), ("de", made.references[:3])):
        ours, theirs = (load_own_translator(run).translator for run in (made.path, tmp_path / "run"))
        assert_same(theirs.translate(lines, to=to, from_="de" if to == "en" else "en", beam_size=1),
                    ours.translate(lines, to=to, beam_size=1))  # fmt: skip


def test_settings_of_the_search_that_are_lost_are_named(
    caplog: pytest.LogCaptureFixture, opus: tuple[Path, Path]
) -> None:
    """Whatever they are; what changes no translation is not."""
    given = {"num_beams": 3, "length_penalty": -1.0, "forced_bos_token_id": 5, "max_length": 900, "do_sample": True}
    given |= {"use_cache": False, "new_setting": [1], "eos_token_id": [0, 7], "repetition_penalty": 0.9}
    foreign, config = read_pretrained(opus[0]), transformers.MarianConfig.from_pretrained(opus[0])
    settings = search_settings(Path("g.json"), given, config, foreign.target)
    assert (settings["beam_size"], settings["length_penalty"], settings["max_length_constant"]) == (3, 0.0, 96)
    (record,) = caplog.records
    lost = "length_penalty = -1.0, forced_bos_token_id = 5, do_sample = True, new_setting = [1], eos_token_id = [0, 7]"
    assert record.message.startswith("g.json: ") and "use_cache" not in record.message
    assert all(each in record.message for each in [*lost.split(", ", maxsplit=4), "repetition_penalty = 0.9"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_has_rounded_positions(make_opus: MakeOpus, tmp_path: Path, dtype: torch.dtype) -> None:
    """The tables are the sines as far as the type of the weights can tell."""
    folder = make_opus(tmp_path / "opus")
    model = transformers.MarianMTModel.from_pretrained(folder).to(dtype)
    (folder / "model.safetensors").unlink()
    weights = model.state_dict()
    torch.save(weights, folder / "pytorch_model.bin")
    import_(folder, tmp_path / "run")
    weights["model.encoder.embed_positions.weight"][3, 4] += 0.02
    torch.save(weights, folder / "pytorch_model.bin")
    with pytest.raises(
        InputError, match=r"encoder\.embed_positions\.weight is not sinusoidal: .* 0\.02.* in \w*float16"
    ):
        import_(folder, tmp_path / "other")
