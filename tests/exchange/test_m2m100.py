"""M2M100, NLLB-200 and mBART-50 folders: numbers and tokens are those of transformers, there and back, and pruned."""

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import import_, in_order, make_m2m100, make_two_ways, teach_mbart, write_lines
from trainings import run_training

from translate.config.languages import Languages
from translate.config.load import load_config
from translate.data.tokenizer import UNK_ID
from translate.decoding.loading import load_own_translator
from translate.errors import InputError
from translate.exchange import export_run
from translate.exchange.importing import ImportedModel
from translate.exchange.language_tokenizers import load_tokenizer
from translate.exchange.pretrained import read_pretrained
from translate.runs.run import LoadedModel, open_run
from translate.runs.weights import get_parameters

transformers = pytest.importorskip("transformers", reason="the extra `huggingface` is not installed")

pytestmark = [
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses:UserWarning"),
    pytest.mark.usefixtures("no_shape_checks"),
]

CODES = {
    "m2m100": ("de", "en", "fr"),
    "nllb": ("deu_Latn", "eng_Latn", "fra_Latn"),
    "mbart": ("de_DE", "en_XX", "fr_XX"),
}


def assert_same_run(one: ImportedModel, other: ImportedModel | LoadedModel) -> None:
    """The same weights, ids, segmentation, languages and search."""
    weights, expected = get_parameters(one.model), get_parameters(other.model)
    assert all(torch.equal(weights[name], each) for name, each in expected.items())
    assert one.tokenizers.source.model_bytes == other.tokenizers.source.model_bytes
    assert (Languages(one.config.data).settings, one.config.decoding) == (
        Languages(other.config.data).settings,
        other.config.decoding,
    )


@pytest.fixture(scope="module", params=CODES)
def imported(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> tuple[str, Path, Path]:
    path = tmp_path_factory.mktemp(request.param)
    folder, run = make_m2m100(path / "folder", request.param, max_length=12), path / "run"
    if request.param == "mbart":
        teach_mbart(folder, num_steps=60)
    import_(folder, run)
    return request.param, folder, run


def generate(folder: Path, texts: list[str], *, source: str, target: str, **options: Any) -> list[list[int]]:
    """The rows that transformers generates, between the tag and the end, without other tags."""
    tokenizer = load_tokenizer(folder)
    tokenizer.src_lang = source
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    tag = (
        tokenizer.get_lang_id(target) if hasattr(tokenizer, "get_lang_id") else tokenizer.convert_tokens_to_ids(target)
    )
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    found = model.generate(**batch, forced_bos_token_id=tag, **options).tolist()
    assert all(ids[:2] == [2, tag] for ids in found)
    found = [ids[2 : ids.index(2, 2) if 2 in ids[2:] else len(ids)] for ids in found]
    tags = {*tokenizer.all_special_ids} - {tokenizer.unk_token_id}
    return [[row for row in ids if row not in tags] for ids in found]


def translate(run: Path, folder: Path, texts: list[str], *, source: str, target: str) -> list[list[int]]:
    translator = load_own_translator(run, options={"device": "cpu", "beam_size": 1}).translator
    rows = read_pretrained(folder).source.rows
    found = translator.translate(texts, to=target, from_=source)
    return [[rows[token] for part in each.parts for token in part.ids] for each in found]


def test_greedy_search_is_the_same_in_three_directions(imported: tuple[str, Path, Path], german: list[str]) -> None:
    kind, folder, run = imported
    german_code, english, french = CODES[kind]
    found = []
    for source, target in ((german_code, english), (english, german_code), (german_code, french)):
        theirs = generate(folder, german[:5], source=source, target=target, num_beams=1)
        assert translate(run, folder, german[:5], source=source, target=target) == theirs
        found += map(tuple, theirs)
    assert len({*found}) > 4  # languages and texts matter
    with pytest.raises(InputError, match="to"):
        translate(run, folder, ["Hund"], source=german_code, target="xyz")
    config = open_run(run).config
    positions = "learned" if kind == "mbart" else "fairseq"
    assert (config.model.norm, config.model.positions, config.model.tie_embeddings) == ("pre", positions, "all")
    assert (config.data.source_language, config.data.target_language) == ("und", "und")
    assert (config.decoding.beam_size, config.decoding.max_length_constant) == (5, 10)  # without start and tag


def test_there_and_back(imported: tuple[str, Path, Path], tmp_path: Path) -> None:
    """The export is the original: its class, ids, weights and tokenizer; and is imported to the same run."""
    _, folder, run = imported
    export_run(run, to="huggingface", output=tmp_path / "back")
    before, after = (transformers.AutoModelForSeq2SeqLM.from_pretrained(each) for each in (folder, tmp_path / "back"))
    assert type(after) is type(before)
    assert (after.config.encoder_layerdrop, after.config.decoder_layerdrop) == (0.0, 0.0)
    weights = after.state_dict()
    assert all(torch.equal(weights[name], tensor) for name, tensor in before.state_dict().items())
    tokenizers = [load_tokenizer(each) for each in (folder, tmp_path / "back")]
    assert tokenizers[0].get_vocab() == tokenizers[1].get_vocab()
    assert "languages" in (tmp_path / "back" / "README.md").read_text()
    again = import_(tmp_path / "back", tmp_path / "again")
    assert_same_run(again, open_run(run).load_model())


def test_the_export_has_the_languages_of_the_run(
    imported: tuple[str, Path, Path], german: list[str], tmp_path: Path, card_code: Any
) -> None:
    """Its tokenizer, also without English, and the code in its card, which can choose others."""
    kind, folder, _ = imported
    codes = [CODES[kind][0], CODES[kind][2]]
    named = [f"data.source_language={codes[0]}", f"data.target_language={codes[1]}", "decoding.length_penalty=1.4"]
    import_(folder, tmp_path / "run", *named, keep_languages=codes if kind == "nllb" else ())
    export_run(tmp_path / "run", to="huggingface", output=tmp_path / "out")
    tokenizer = load_tokenizer(tmp_path / "out")
    assert [tokenizer.src_lang, tokenizer.tgt_lang] == codes
    tags = [open_run(tmp_path / "run").config.data.language_tag.format(code) for code in codes]
    assert tokenizer.convert_ids_to_tokens(tokenizer(german[0], text_target=german[0])["input_ids"][:1]) == tags[:1]
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert in_order(card, f"such as `{tags[0]}`", "`src_lang`", f"such as `{tags[1]}`", "as the code does")
    code = card_code(tmp_path / "out")
    translator = load_own_translator(tmp_path / "run", options={"device": "cpu"}).translator
    directions: list[list[str]] = [codes, codes[::-1]]
    found = [[code(text) for text in german[:5]], [code(text, codes[1], tags[0]) for text in german[:5]]]
    expected = [
        [each.text.strip() for each in translator.translate(german[:5], to=to, from_=from_)] for from_, to in directions
    ]
    assert found == expected and found[0] != found[1]


def test_an_own_run_with_tags_like_those_of_nllb(tmp_path: Path) -> None:
    """It is an M2M100 model, but its vocabulary, with bytes and without `<mask>`, is not that of an `NllbTokenizer`."""
    shape = {"positions": "fairseq", "tie_embeddings": "all"}
    run = make_two_ways(tmp_path, ["both"], num_steps=0, model=shape, data={"language_tag": "{}"})["both"].path
    export_run(run, to="huggingface", output=tmp_path / "back")
    assert json.loads((tmp_path / "back" / "config.json").read_text())["model_type"] == "m2m_100"
    again = import_(tmp_path / "back", tmp_path / "again")
    assert again.config.data.languages == ("de", "en")
    assert again.tokenizers.source.all_pieces == open_run(run).tokenizers.source.all_pieces


def finetune(base: Path, run: Path, german: list[str], languages: tuple[str, str], **sections: Any) -> Path:
    """Two steps on German text and the same words in reverse."""
    folder = run.parent
    write_lines(folder / "train.in", german[:20])
    write_lines(folder / "train.out", [" ".join(reversed(text.split())) for text in german[:20]])
    corpus = {"kind": "text", "source": str(folder / "train.in"), "target": str(folder / "train.out")}
    corpus |= dict(zip(("source_language", "target_language"), languages, strict=True))
    training = {"initialize_from": str(base), "max_steps": 2, "learning_rate": 0.02, "warmup_steps": 1, "device": "cpu"}
    training |= sections.pop("training", {})
    sections |= {"data": {"train": [corpus]}, "training": training}
    sections["decoding"] = {"max_length_factor": 0.0, "max_length_constant": 10}
    config = load_config(sections, require_files=True).config
    run_training(config, run)
    return run


@pytest.mark.parametrize("imported", ["m2m100", "mbart"], indirect=True)
def test_after_lora_it_is_the_same_kind_of_model_again(
    imported: tuple[str, Path, Path], german: list[str], tmp_path: Path, card_code: Any
) -> None:
    kind, folder, run = imported
    source, target, other = CODES[kind]
    tuned = finetune(run, tmp_path / "tuned", german, (source, target), training={"lora_rank": 4, "learning_rate": 0.1})
    export_run(tuned, to="huggingface", output=tmp_path / "out")
    before, after = (transformers.AutoModelForSeq2SeqLM.from_pretrained(each) for each in (folder, tmp_path / "out"))
    assert type(after) is type(before)
    assert torch.equal(before.model.shared.weight, after.model.shared.weight)
    for to in (target, other):
        found, theirs = (
            generate(each, german[:5], source=source, target=to, num_beams=1) for each in (tmp_path / "out", folder)
        )
        assert translate(tuned, folder, german[:5], source=source, target=to) == found != theirs
    code, translator = card_code(tmp_path / "out"), load_own_translator(tuned, options={"device": "cpu"}).translator
    assert [code(text) for text in german[:5]] == [each.text.strip() for each in translator.translate(german[:5])]


def test_added_tokens(imported: tuple[str, Path, Path], german: list[str], tmp_path: Path) -> None:
    """They are words of the vocabulary, which are found before a text is segmented."""
    kind, original, _ = imported
    folder = Path(shutil.copytree(original, tmp_path / "folder"))
    unnamed = transformers.AutoConfig.from_pretrained(folder).vocab_size - 1
    if kind == "mbart":
        (folder / "added_tokens.json").write_text(json.dumps({"<medical>": unnamed - 2}))
    elif kind == "nllb":
        settings = json.loads((folder / "tokenizer_config.json").read_text())
        token = {"content": "<medical>", "special": False, "normalized": False}
        added = settings["added_tokens_decoder"] | {str(unnamed): token}
        change_json(folder / "tokenizer_config.json", added_tokens_decoder=added)
    else:
        of_languages = load_tokenizer(folder).lang_token_to_id  # `save_pretrained` writes them too
        (folder / "added_tokens.json").write_text(json.dumps(of_languages | {"<medical>": unnamed}))
    source = import_(folder, tmp_path / "run").tokenizers.source
    tokenizer, text = load_tokenizer(folder), f"Hund <medical> {german[0]}"
    tokenizer.src_lang = CODES[kind][0]
    rows = read_pretrained(folder).source.rows
    assert [rows[token] for token in source.encode(text)] == tokenizer(text)["input_ids"][1:-1]


@pytest.mark.parametrize("imported", ["nllb", "mbart"], indirect=True)
def test_a_language_is_added(imported: tuple[str, Path, Path], german: list[str], tmp_path: Path) -> None:
    kind, _, run = imported
    code, english, _ = CODES[kind]
    added = finetune(run, tmp_path / "added", german, (code, "gsw"), tokenizer={"add_languages": {"gsw": code}})
    again = finetune(added, tmp_path / "again", german, ("gsw", english), training={"lora_rank": 4})
    for tuned in (added, again):
        translator = load_own_translator(tuned, options={"device": "cpu", "beam_size": 1}).translator
        assert {code, english, "gsw"} <= {*translator.languages.targets}
        assert translator.languages.directions == [(code, "gsw") if tuned == added else ("gsw", english)]
        found = [translator.translate(german[:5], to=to, from_=english) for to in (code, "gsw")]
        assert all(one.score != other.score for one, other in zip(*found, strict=True))  # both began with one embedding


@pytest.mark.parametrize("imported", ["mbart"], indirect=True)
def test_the_class_of_the_tokenizer_is_in_either_file(imported: tuple[str, Path, Path], tmp_path: Path) -> None:
    """Its `config.json` names the class too."""
    _, original, run = imported
    folder = Path(shutil.copytree(original, tmp_path / "folder"))
    (folder / "tokenizer_config.json").unlink()
    change_json(folder / "config.json", tokenizer_class="MBart50Tokenizer", normalize_before=True)
    assert_same_run(import_(folder, tmp_path / "again"), open_run(run).load_model())


@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
@pytest.mark.parametrize("imported", ["mbart"], indirect=True)
def test_targets_that_begin_with_the_tag_alone_are_refused(
    imported: tuple[str, Path, Path], tmp_path: Path, name: str
) -> None:
    """In the second file it is what `generate` begins with, whatever the first has."""
    folder = Path(shutil.copytree(imported[1], tmp_path / "folder"))
    tag = load_tokenizer(folder).convert_tokens_to_ids("en_XX")
    (folder / "generation_config.json").unlink()
    (folder / "generation_config.json").write_text("{}")
    change_json(folder / name, decoder_start_token_id=tag)
    with pytest.raises(InputError, match=rf"folder: decoder_start_token_id = {tag} is .*</s> \(2\)"):
        import_(folder, tmp_path / "run")


@pytest.mark.parametrize(("to", "package"), [("ctranslate2", "ctranslate2"), ("onnx", "onnxruntime")])
def test_other_exports(imported: tuple[str, Path, Path], tmp_path: Path, to: Any, package: str) -> None:
    pytest.importorskip(package)
    export_run(imported[2], to=to, output=tmp_path / "out")  # compares the numbers


def test_a_pruned_vocabulary(
    imported: tuple[str, Path, Path], german: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kind, folder, run = imported
    codes = list(CODES[kind][:2])
    caplog.set_level(logging.INFO)
    (tmp_path / "text").write_text("\n".join(german[:20]))
    pruned = import_(
        folder, tmp_path / "pruned", keep_languages=codes[::-1], texts=[tmp_path / "text"]
    )  # compares the numbers
    whole = open_run(run).load_model()
    tokenizers = whole.tokenizers.source, pruned.tokenizers.source
    sizes = [each.vocab_size for each in tokenizers]
    assert sizes[1] < 0.9 * sizes[0] and pruned.config.data.languages == tuple(codes)
    assert f"pruned from {sizes[0]:,} to {sizes[1]:,} subwords; the text loses none of its" in caplog.text
    for text in german[:20]:
        before, after = (each.pieces(each.encode(text)) for each in tokenizers)
        assert before == after
    other = [each.encode(" ".join(german[20:])) for each in tokenizers]
    assert len(other[1]) > len(other[0]) and 1 not in other[1]  # spelt with shorter subwords
    assert tokenizers[1].decode(other[1]) == " ".join(german[20:])
    tags = [each.tag_id(open_run(run).config.data.language_tag.format(CODES[kind][2])) for each in tokenizers]
    assert tags[0] is not None and tags[1] is None
    export_run(tmp_path / "pruned", to="huggingface", output=tmp_path / "back")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    [tag, *ids] = tokenizer(f"{open_run(run).config.data.language_tag.format(codes[0])} {german[0]}")["input_ids"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == german[0]
    again = import_(tmp_path / "back", tmp_path / "again")
    assert_same_run(again, pruned)
    with pytest.raises(InputError, match="--keep-languages: xx is not a language of the model, which has "):
        import_(folder, tmp_path / "no", keep_languages=["xx"])
    with pytest.raises(InputError, match="^xx is not a language of the model, which has "):
        import_(folder, tmp_path / "no", "data.source_language=xx")
    with pytest.raises(InputError, match=r"data\.language_tags=source: .*`data\.language_tags`"):
        import_(folder, tmp_path / "no", "data.language_tags=source")
    with pytest.raises(InputError, match=f"--keep-languages: .*{codes[0]}"):
        import_(folder, tmp_path / "no", keep_languages=codes[:1])


@pytest.mark.parametrize(
    ("kind", "name", "change", "words"),
    [
        ("nllb", "config.json", {"pad_token_id": 0}, "pad_token_id = 0 (only 1)"),
        ("nllb", "config.json", {"tie_word_embeddings": False}, "tie_word_embeddings = False"),
        ("nllb", "tokenizer_config.json", {"tokenizer_class": "T5Tokenizer"}, "tokenizer"),
        ("nllb", "tokenizer_config.json", {"tokenizer_class": "MBart50Tokenizer"}, "MBart50Tokenizer"),
        ("mbart", "tokenizer_config.json", {"tokenizer_class": None}, "class MBartTokenizer; only MBart50Tokenizer"),
        ("mbart", "config.json", {"normalize_before": False}, "normalize_before = False (only True)"),
        ("mbart", "config.json", {"static_position_embeddings": True}, "static_position_embeddings = True"),
        ("mbart", "config.json", {"max_position_embeddings": 96}, "embed_positions.weight has the shape (99, 20)"),
        ("mbart", "config.json", {"model_type": "bart"}, "model_type = 'bart'"),
    ],
)
def test_refusals(tmp_path: Path, kind: str, name: str, change: dict[str, Any], words: str) -> None:
    folder = make_m2m100(tmp_path / "folder", kind)
    change_json(folder / name, **change)
    with pytest.raises(InputError) as caught:
        import_(folder, tmp_path / "run")
    assert words in str(caught.value) and str(folder) in str(caught.value)


@pytest.mark.parametrize("name", ["lm_head.weight", "model.decoder.embed_tokens.weight"])
def test_an_output_of_its_own_is_refused(tmp_path: Path, name: str) -> None:
    from safetensors.torch import load_file, save_file

    folder = make_m2m100(tmp_path / "folder", "mbart")
    weights = load_file(folder / "model.safetensors")
    weights[name] = torch.randn_like(weights["model.shared.weight"])
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(InputError, match=r"embed_tokens\.weight and lm_head\.weight differ"):
        import_(folder, tmp_path / "run")


def change_json(file: Path, **values: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def test_a_forced_language_and_lost_settings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = make_m2m100(tmp_path / "folder", "nllb")
    file, codes = folder / "generation_config.json", ["deu_Latn", "eng_Latn"]
    tag = load_tokenizer(folder).convert_tokens_to_ids("eng_Latn")
    never = {"bad_words_ids": [[9]], "suppress_tokens": [3, 11]}
    change_json(file, forced_bos_token_id=tag, repetition_penalty=1.5, min_length=7, **never)
    config = import_(folder, tmp_path / "run", "data.source_language=deu_Latn", keep_languages=codes).config
    assert (config.data.source_language, config.data.target_language) == ("deu_Latn", "eng_Latn")
    assert len(config.decoding.forbidden_ids) == 3 and [UNK_ID] in map(list, config.decoding.forbidden_ids)
    assert "repetition_penalty = 1.5" in caplog.text and "forced_bos" not in caplog.text
    assert "decoder_layerdrop = 0.05" in caplog.text and "encoder_layerdrop" not in caplog.text
    import_(folder, tmp_path / "any")
    translator = load_own_translator(tmp_path / "any", options={"device": "cpu", "beam_size": 1}).translator
    default, english, french = (
        translator.translate(["Hund"], to=to, from_="deu_Latn") for to in (None, *CODES["nllb"][1:])
    )
    assert default == english != french
    with pytest.raises(InputError, match="choose one with --to"):
        translator.translate(["dog"], from_="eng_Latn")
    penalized = ["data.source_language=deu_Latn", "decoding.repetition_penalty=1.25"]
    import_(folder, tmp_path / "penalized", *penalized, keep_languages=codes)
    export_run(tmp_path / "penalized", to="huggingface", output=tmp_path / "back")
    written = json.loads((tmp_path / "back" / "generation_config.json").read_text())
    assert (written["forced_bos_token_id"] is None, written["min_length"]) == (False, 7)  # with start symbol and tag
    assert "repetition_penalty = 1.25" in caplog.text and "repetition_penalty" not in written
    assert import_(tmp_path / "back", tmp_path / "again").config.decoding == config.decoding
    file.write_text(json.dumps({"forced_bos_token_id": tag, "decoder_start_token_id": 2}))
    change_json(folder / "config.json", max_position_embeddings=12_001)
    others = import_(folder, tmp_path / "others", keep_languages=["deu_Latn", "fra_Latn"]).config
    assert (others.data.languages, others.data.target_language) == (("deu_Latn", "fra_Latn"), "und")
    assert others.decoding.max_length_constant == 10_000 - 1  # without the tag
