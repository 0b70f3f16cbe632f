"""Model cards: a header that the Hub reads, scores of these very weights, and a snippet that works."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from harness import (
    TAGS,
    Toy,
    import_,
    in_order,
    make_two_ways,
    random_model,
    toy_tokenizers,
    write_run,
    write_weights,
)

from translate.config.data import DataConfig, HubCorpus, TextCorpus
from translate.config.load import load_config
from translate.data.text import in_one_line
from translate.data.tokenizer import UNK_ID, Tokenizers
from translate.decoding import Translator
from translate.decoding.loading import load_own_translator
from translate.evaluation.evaluate import evaluate, write_report
from translate.evaluation.scorer import Scorer
from translate.exchange import export_run
from translate.exchange.card import read_scores, write_card
from translate.runs.directory import RunDirectory, create_run
from translate.runs.initial import read_initial_weights
from translate.runs.run import open_run
from translate.runs.summary import summarize_run

pytestmark = pytest.mark.usefixtures("no_shape_checks")

CardCode = Callable[[Path], Callable[..., str]]

TEXT = TextCorpus(source=Path("/home/me/secret/train.de"), target=Path("/home/me/secret/train.en"), license="cc-by-4.0")
HUB = HubCorpus(dataset="me/mine", split="train", source_column="de", target_column="en")
VALIDATION = {"kind": "validation", "loss": 0.1, "BLEU-lc": 33.0}


@pytest.fixture
def run(toy: Toy, tmp_path: Path) -> RunDirectory:
    """A run at step 150, with validations at three steps and reports on two test sets, one of older weights."""
    data = DataConfig(source_language="pt-BR", target_language="eng_Latn", train=(TEXT, HUB))
    config = toy.config.model_copy(update={"data": data})
    run = RunDirectory(write_run(tmp_path / "run", config, toy.tokenizers, toy.model, step=150))
    records = [VALIDATION | {"step": step, "BLEU": step / 5, "chrF": step / 3} for step in (100, 150, 200)]
    run.metrics.write_text("".join(json.dumps(each) + "\n" for each in [*records, {"kind": "train", "step": 150}]))
    translator = Translator(toy.model, toy.tokenizers, toy.config.decoding)
    scored = evaluate(translator, toy.sources[:5], toy.references[:5], config.evaluation)
    settings = translator.config.model_dump(mode="json")
    run.evaluation.mkdir()
    texts = [translation.text for translation in scored.translations]
    scores = Scorer(config.evaluation).score(texts, toy.references[:5], metrics=scored.metrics)
    for name, step in (("newest", 150), ("older", 100)):
        write_report(run.evaluation / name, scored.translations, scores, name=name, step=step, settings=settings)
    return run


def test_scores_of_these_weights_alone(run: RunDirectory, caplog: pytest.LogCaptureFixture) -> None:
    report, validation = read_scores(open_run(run.path).load_model(), {"sacrebleu": "1.2.3"})
    assert (report.set_name, report.search) == ("newest", "beam 5")
    assert report.metrics[0].interval is not None and "|tok:13a|" in report.metrics[0].signature
    assert validation.set_name == "validation" and "validations" in validation.search
    found = {metric.name: metric for metric in validation.metrics}
    assert (found["BLEU"].score, found["chrF"].score) == (30.0, 50.0)
    assert found["BLEU"].signature.endswith("|tok:13a|smooth:exp|version:1.2.3")
    assert not caplog.records


def test_a_set_has_one_row_and_other_settings_have_none(run: RunDirectory) -> None:
    report = json.loads((run.evaluation / "newest" / "report.json").read_text())
    others = {"last": {"changed": {"checkpoint": "last"}}, "greedy": {"changed": {"beam_size": 1}}}
    others |= {"older-greedy": {"decoding": report["decoding"] | {"beam_size": 1}}, "newest-2": {"reference": "x"}}
    for folder, changes in others.items():
        (run.evaluation / folder).mkdir()
        (run.evaluation / folder / "report.json").write_text(json.dumps(report | changes))
    loaded = open_run(run.path).load_model()
    assert [scores.set_name for scores in read_scores(loaded, {})] == ["newest", "newest-2", "validation"]
    last = read_scores(loaded._replace(checkpoint="last"), {})
    assert [scores.set_name for scores in last] == ["last", "newest", "newest-2", "validation"]


def test_the_evaluation_of_the_best_weights_is_preferred(run: RunDirectory, caplog: pytest.LogCaptureFixture) -> None:
    """To their validation; a damaged report is named."""
    record = VALIDATION | {"kind": "evaluation", "step": 200, "best_step": 150, "BLEU": 41.0, "chrF": 61.0}
    with run.metrics.open("a") as file:
        file.write(json.dumps(record) + "\n")
    (run.evaluation / "newest" / "report.json").write_text("{")
    [validation] = read_scores(open_run(run.path).load_model(), {})
    assert validation.search == "beam 5" and validation.metrics[0].score == 41.0
    (logged,) = caplog.records
    assert "newest/report.json: is damaged" in logged.message


def test_the_hub_reads_the_header(run: RunDirectory, tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="the extra `huggingface` is not installed")
    loaded = open_run(run.path).load_model()
    write_card(tmp_path, loaded, to="ctranslate2", name="mine", rounded="int8")
    card = hub.ModelCard((tmp_path / "README.md").read_text(encoding="utf-8"))
    data = card.data.to_dict()
    assert data["language"] == ["en", "pt"] and data["library_name"] == "ctranslate2"
    assert data["pipeline_tag"] == "translation" and data["datasets"] == ["me/mine"]
    assert "license" not in data  # that of one corpus is not known
    found = [(each.dataset_name, each.metric_type, each.metric_value) for each in card.data.eval_results]
    assert ("validation (as in the training's validations)", "bleu", 30.0) in found
    assert len(found) == 4 and card.data.eval_results[0].task_type == "translation"
    assert "rounded to int8" in card.text and "before rounding the weights" in card.text
    assert "| train.de, train.en | cc-by-4.0 |" in card.text and "secret" not in card.text
    assert "| [me/mine train](https://huggingface.co/datasets/me/mine) | not named in the config |" in card.text
    assert "```bash\ntranslate train\n```" in card.text and "sacrebleu " in card.text
    assert f"more than {loaded.config.decoding_settings().max_source_tokens:,} subwords" in card.text
    assert "{" not in re.sub("```python.*?```", "", card.text, flags=re.DOTALL)


@pytest.mark.parametrize(
    ("to", "norm_epsilon"), [("ctranslate2", 1e-5), ("huggingface", 1e-5), ("huggingface", 1.0001e-5)]
)
@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses:UserWarning")
def test_the_snippet_translates(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, card_code: CardCode, to: Any, norm_epsilon: float
) -> None:
    """With another epsilon than MarianMT's, an export has the modelling file."""
    pytest.importorskip("ctranslate2" if to == "ctranslate2" else "transformers", reason="an extra is not installed")
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "cache"))
    shape = toy.config.model.model_copy(update={"norm_epsilon": norm_epsilon})
    config = toy.config.model_copy(update={"model": shape, "data": DataConfig(train=(TEXT, TEXT))})
    export_run(write_run(tmp_path / "run", config, toy.tokenizers, toy.model), to=to, output=tmp_path / "my model")
    card = (tmp_path / "my model" / "README.md").read_text(encoding="utf-8")
    assert ("trust_remote_code" in card) == (norm_epsilon != 1e-5)
    assert "\nlicense: cc-by-4.0\n" in card and "model-index" not in card
    assert "`translate eval` has not scored these weights." in card and "same numbers" in card
    [expected] = Translator(toy.model, toy.tokenizers, toy.config.decoding).translate(toy.sources[:1])
    assert card_code(tmp_path / "my model")(toy.sources[0]) == expected.text


@pytest.mark.parametrize(("beam_size", "start_bias", "num_different"), [(4, None, 3), (1, 2.0, 2)])
def test_the_snippet_takes_a_language_token(
    make_opus: Callable[..., Path],
    tmp_path: Path,
    german: list[str],
    card_code: CardCode,
    beam_size: int,
    start_bias: Any,
    num_different: int,
) -> None:
    """As one token: SentencePiece would split it. The start symbol is never generated, however probable it is."""
    pytest.importorskip("ctranslate2", reason="an extra is not installed")
    folder = make_opus(tmp_path / "opus", tags=(">>deu<<", ">>eng<<"), end_bias=0.0, start_bias=start_bias)
    import_(folder, tmp_path / "run", f"decoding.beam_size={beam_size}")
    export_run(tmp_path / "run", to="ctranslate2", output=tmp_path / "out")
    assert "such as `>>deu<<`" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    lines = [f"{tag}{german[0]}" for tag in (">>deu<< ", ">>eng<<", "")]
    translator = load_own_translator(tmp_path / "run", options={"device": "cpu"}).translator
    found = [*map(card_code(tmp_path / "out"), lines)]
    assert found == [each.text.strip() for each in translator.translate(lines)] and len({*found}) == num_different


@pytest.mark.parametrize(
    ("to", "positions", "limit"),
    [("ctranslate2", "sinusoidal", 4096), ("ctranslate2", "rotary", None), ("huggingface", "sinusoidal", 1024),
     ("huggingface", "learned", 79), ("huggingface", "rotary", None), ("onnx", "learned", 79),
     ("onnx", "relative", None)],
)  # fmt: skip
def test_the_snippet_knows_the_limit_of_the_positions(
    toy: Toy, tmp_path: Path, to: str, positions: str, limit: int | None
) -> None:
    shape = toy.config.model.model_copy(update={"positions": positions, "max_positions": 79})
    loaded = open_run(toy.path).load_model()
    loaded.run.config = toy.config.model_copy(update={"model": shape})
    if to == "huggingface" and positions != "sinusoidal":
        (tmp_path / "modeling_translate.py").touch()
    write_card(tmp_path, loaded, to=to, name="mine")
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n(.*?)```", card, flags=re.DOTALL)
    compile(code, "card", "exec")
    assert [int(each) for each in re.findall(r"min\(.*int\(.*\) \+ 20, (\d+)\)", code)] == ([limit] if limit else [])
    assert ("min(" in code) == bool(limit)


@pytest.fixture(scope="module")
def two_ways(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Toy]:
    """Runs of one model by the kind of their tags, with a search in which lengths matter."""
    search = {"length_penalty": 1.5, "max_length_factor": 0.5, "max_length_constant": 3}
    return make_two_ways(tmp_path_factory.mktemp("two-ways"), ["target", "both"], num_steps=150, decoding=search)


@pytest.mark.parametrize("kind", ["target", "both"])
def test_the_snippet_begins_a_translation_with_its_tag(
    two_ways: dict[str, Toy], tmp_path: Path, card_code: CardCode, kind: str
) -> None:
    pytest.importorskip("ctranslate2", reason="an extra is not installed")
    toy = two_ways[kind]
    export_run(toy.path, to="ctranslate2", output=tmp_path / "out")
    translate = card_code(tmp_path / "out")
    translator = load_own_translator(toy.path, options={"device": "cpu"}).translator
    before, piece = ("__{}__ ", "▁__{}__") if kind == "both" else ("", "▁<to-{}>")
    for lines, source, target in (toy.sources, "de", "en"), (toy.references, "en", "de"):
        found = [translate(before.format(source) + line, piece.format(target)) for line in lines]
        expected = translator.toward(to=target, from_=source).translate(lines)
        assert found == [each.text.strip() for each in expected]
    line = before.format("de") + toy.sources[0]
    assert translate(line) == translate(line, piece.format("en"))


@pytest.mark.parametrize("model", ["several targets", "one target", "separate vocabularies", "modeling_translate.py"])
@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses:UserWarning")
def test_the_snippet_of_a_tagged_model_for_transformers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, card_code: CardCode, model: str
) -> None:
    """A tag counts in no length, and never comes out, even if the untrained model writes one within a translation."""
    transformers = pytest.importorskip("transformers", reason="the extra `huggingface` is not installed")
    monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "cache"))
    kind, is_separate = ("target", True) if "separate" in model else ("both", False)
    shape = {"norm": "pre" if "modeling" in model else "post", "positions": "sinusoidal", "output_bias": True}
    search = {"length_penalty_kind": "average", "length_penalty": 1.5, "patience": 0, "precision": "fp32"}
    search |= {"max_length_factor": 0.5, "max_length_constant": 5, "forbidden_ids": [[UNK_ID]]}  # shown in another way
    toy = make_two_ways(tmp_path / "made", [kind], num_steps=0, model=shape, decoding=search)[kind]
    config, tokenizers = toy.config, toy.tokenizers
    if model == "one target":
        data = {"train": config.data.train[:1], "languages": ("de", "en")}
        config = config.model_copy(update={"data": config.data.model_copy(update=data)})
    if is_separate:
        tokenizers, shape["tie_embeddings"] = Tokenizers(toy_tokenizers().source, tokenizers.target, "separate"), "none"
    torch.manual_seed(3)
    weights = random_model(tokenizers, **config.model.model_dump() | shape)
    config = config.model_copy(update={"model": weights.config})
    with torch.no_grad():
        weights.output.bias[[*tokenizers.target.tag_tokens([TAGS[kind].format(code) for code in ("de", "en")])]] = 1.0
    run = write_run(tmp_path / "run", config, tokenizers, weights.eval())
    export_run(run, to="huggingface", output=tmp_path / "out")
    assert (tmp_path / "out" / "modeling_translate.py").exists() == ("modeling" in model)
    code, translator = card_code(tmp_path / "out"), load_own_translator(run).translator.toward(to="en", from_="de")
    found = [in_one_line(code(line if is_separate else f"__de__ {line}")) for line in toy.sources]
    expected = translator.translate(toy.sources)
    assert found == [each.text.strip() for each in expected] and len({*found}) > 5
    assert any(each.tagged for each in expected)


@pytest.mark.parametrize(
    ("licence", "header", "named"),
    [("cc-by-4.0", ("cc-by-4.0", None), "cc-by-4.0"), ("[mit, apache-2.0]", (None, None), "apache-2.0, mit"),
     ("other\r\nlicense_name: mine-1.0", ("other", "mine-1.0"), "other: mine-1.0")],
)  # fmt: skip
def test_an_imported_model_names_its_source_and_licence(
    make_opus: Callable[..., Path], tmp_path: Path, licence: str, header: tuple[str | None, ...], named: str
) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="the extra `huggingface` is not installed")
    folder = make_opus(tmp_path / "models--me--opus-mt-de-en" / "snapshots" / "0a1b")  # as in the cache of the Hub
    text = f"---\r\nlanguage: [de, en]\r\nlicense: {licence}\r\n---\r\n# opus\r\n"
    (folder / "README.md").write_bytes(text.encode())
    import_(folder, tmp_path / "run")
    write_card(tmp_path, open_run(tmp_path / "run").load_model(), to="huggingface", name="mine")
    card = hub.ModelCard((tmp_path / "README.md").read_text(encoding="utf-8"))
    assert (card.data.license, card.data.to_dict().get("license_name")) == header
    assert card.data.language == ["de", "en"]
    assert card.data.base_model == "me/opus-mt-de-en" and "(https://huggingface.co/me/opus-mt-de-en)" in card.text
    assert "# opus-mt-de-en: de → en" in card.text and f"its licence is {named}." in card.text
    assert "| data |" not in card.text and str(tmp_path) not in card.text


@pytest.mark.parametrize(
    ("licences", "shown"),
    [(["mit", "mit", "mit"], "mit"), (["cc-by-nc-4.0", "mit", "mit"], None), (["mit", "cc-by-sa-4.0", "mit"], None),
     (["mit", None, "mit"], None)],
)  # fmt: skip
def test_fine_tunings_keep_the_model_and_the_licences_that_they_began_with(
    make_opus: Callable[..., Path], tmp_path: Path, licences: list[str | None], shown: str | None
) -> None:
    """An import with the first licence, and two fine-tunings on text with the others."""
    folder = make_opus(tmp_path / "models--me--opus-mt-de-en" / "snapshots" / "0a1b")
    (folder / "README.md").write_text(f"---\nlicense: {licences[0]}\n---")  # without text below it
    runs = [tmp_path / "0", tmp_path / "1", tmp_path / "2"]
    loaded = import_(folder, runs[0])
    for licence, base, tuned in zip(licences[1:], runs, runs[1:], strict=False):
        corpus = {"kind": "text", "source": "a", "target": "b", "license": licence}
        sections = {"data": {"train": [corpus]}, "training": {"initialize_from": str(base)}}
        config = load_config(sections, require_files=False).config
        initial = read_initial_weights(config)
        assert initial is not None
        origins = initial.provenance(tuned), {"initialized_from": {"run": "../base"}}  # and an earlier version's
        for path, origin in zip((tuned, tmp_path / f"{tuned.name}-old"), origins, strict=True):
            new = create_run(path, config=config, tokenizers=loaded.tokenizers, command=[], provenance=origin)
            write_weights(new, loaded.model, "best", 7)
    cards = []
    for run in (runs[2], tmp_path / "2-old"):
        write_card(tmp_path, open_run(run).load_model(), to="ctranslate2", name="mine")
        cards.append((tmp_path / "README.md").read_text(encoding="utf-8"))
    header = yaml.safe_load(cards[0].split("---\n")[1])
    assert (header.get("license"), header["base_model"]) == (shown, "me/opus-mt-de-en")
    named = ", ".join(sorted({each or "not known" for each in licences}))
    assert "| a, b | mit |" in cards[0] and f"behind the weights: {named}.\n" in cards[0]
    assert "\nlicense:" not in cards[1] and "Fine-tuned from base. " in cards[1]


@pytest.mark.parametrize(
    ("kind", "named"),
    [("source", ["the target language", "`<2en>`"]), ("target", ["`<to-en>`", "prefix"]),
     ("both", ["its own language", "`__de__`", "`__en__`", "prefix"])],
)  # fmt: skip
def test_a_model_of_several_languages_names_them(tmp_path: Path, kind: str, named: list[str]) -> None:
    loaded = open_run(make_two_ways(tmp_path, [kind], num_steps=0)[kind].path).load_model()
    write_card(tmp_path, loaded, to="onnx", name="both")
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "language:\n- de\n- en\n" in card and "# tiny: de → en, en → de\n" in card
    (tags,) = re.findall(r"```\n\n(Each .*?)\n## Scores", card, flags=re.DOTALL)
    assert in_order(tags, *named)
    assert f"max_length = min({1 + ('prefix' in named)} + int(" in card  # `generate` counts the prefix
    assert "\n| toy.de, toy.en (both directions) |" in card and "toy.en, toy.de" not in card
    assert summarize_run(loaded.run).data == ["toy.de, toy.en (both directions)"]
