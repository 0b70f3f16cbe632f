"""Writes the model card of an export: a README.md with a header for the Hugging Face Hub."""

import json
import logging
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from translate._version import __version__
from translate.config.data import Corpus, DataConfig, HubCorpus, corpus_title
from translate.config.decoding import DecodingConfig
from translate.config.languages import Languages
from translate.config.schema import ModelConfig
from translate.data.tokenizer import BOS_ID, PAD_ID, Tokenizer
from translate.decoding.engines import ctranslate2_conversion
from translate.decoding.engines.ctranslate2 import ctranslate2_search, length_power
from translate.evaluation.evaluate import EvaluationReport
from translate.evaluation.metrics import HEADLINES, Metric, decimals, read_recorded_scores
from translate.exchange import huggingface, onnx_graph
from translate.exchange.language_tokenizers import m2m100_vocabulary
from translate.files import FileError, read_json
from translate.language_codes import standard_code
from translate.runs.directory import Description, open_run, read_description
from translate.runs.loading import LoadedRun
from translate.runs.metadata import describe_moment
from translate.runs.metrics import read_metrics

logger = logging.getLogger(__name__)

_GENERATE = """from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}"{trust})
model = AutoModelForSeq2SeqLM.from_pretrained("{name}"{trust})


def translate(line):
    batch = tokenizer(line, return_tensors="pt")
    max_length = {least}{start} + int({factor} * batch["input_ids"].shape[1]) + {constant}{most}  # with {begins}
    [ids] = model.generate(**batch, max_length=max_length)
    return tokenizer.decode(ids, skip_special_tokens=True)


print(translate("..."))"""
_OPTIMUM = _GENERATE.replace(
    "import AutoModelForSeq2SeqLM, AutoTokenizer",
    "import AutoTokenizer\nfrom optimum.onnxruntime import ORTModelForSeq2SeqLM",
).replace("AutoModel", "ORTModel")
_TRANSLATE_BATCH = """import ctranslate2
import sentencepiece

translator = ctranslate2.Translator("{name}")
source = sentencepiece.SentencePieceProcessor(model_file="{name}/{source}.model")
target = sentencepiece.SentencePieceProcessor(model_file="{name}/{target}.model")


def translate(line):
    pieces = source.encode(line, out_type=str)
    options = {{{search}}}
    options |= {{"max_input_length": 0, "suppress_sequences": {never}}}
    options |= {{"max_decoding_length": {least}int({factor} * (len(pieces) + 1)) + {constant}{most}}}
    [result] = translator.translate_batch([pieces], **options, return_scores=True, return_end_token=True)
    found = zip(result.scores, result.hypotheses)
    return target.decode(max(found, key=lambda each: each[0] * len(each[1]) ** {power} / {penalty})[1])


print(translate("..."))"""
_TRANSLATE_TAGGED = "import re\n\n" + _TRANSLATE_BATCH.replace(
    "pieces = source.encode(line, out_type=str)",
    """pieces = re.findall("^>>.*?<<", line)  # one token, which SentencePiece would split
    pieces += source.encode(re.sub("^>>.*?<<", "", line), out_type=str)""",
)
_WITH_PREFIX = {  # changes of code for translations that begin with a tag
    "def translate(line)": 'def translate(line, tag="{tag}")',
    '"max_input_length": 0, ': '"max_input_length": 0, "target_prefix": [[tag]], ',
    "{constant}": "{constant} + 1",
    "result.hypotheses": "[pieces[1:] for pieces in result.hypotheses]",
    "len(each[1]) ** {power}": "(len(each[1]) + 1) ** {power}",
}
_WITH_LANGUAGES = {  # changes of code for a tokenizer that puts the tag before a source
    "def translate(line):": """def translate(line, src_lang="{src_lang}", tag="{forced}"):
    tokenizer.src_lang, first = src_lang, tokenizer.convert_tokens_to_ids(tag)""",
    "**batch, ": "**batch, forced_bos_token_id=first, ",
}
_TRANSFORMERS_JS = """
```

In a browser, [transformers.js](https://huggingface.co/docs/transformers.js) translates greedily:

```js
import {{ AutoModelForSeq2SeqLM, PreTrainedTokenizer }} from "@huggingface/transformers";

const tokenizer = await PreTrainedTokenizer.from_pretrained("{name}");
const model = await AutoModelForSeq2SeqLM.from_pretrained("{name}", {{ dtype: "q8" }});

async function translate(line) {{
  const inputs = tokenizer(line);
  // with {begins}
  const max_length = {math}{least}{start} + Math.floor({factor} * inputs.input_ids.dims[1]) + {constant}{most};
  const [ids] = await model.generate({{ ...inputs, num_beams: 1, max_length }});
  return tokenizer.decode(ids);
}}

console.log(await translate("..."));"""
_PENALTIES = {"gnmt": "((5 + len(each[1])) / 6) ** {}", "average": "len(each[1]) ** {}", "none": "1"}
_SPEED = {"batch_tokens", "look_ahead_lines", "engine", "precision", "workers", "device", "alignment_layer"}
_LIBRARIES = {  # name on the Hub, what to install, and code
    "ctranslate2": ("ctranslate2", "ctranslate2 sentencepiece", _TRANSLATE_BATCH),
    "huggingface": ("transformers", "transformers torch sentencepiece", _GENERATE),
    "onnx": ("onnx", "'optimum-onnx[onnxruntime]' torch sentencepiece", _OPTIMUM),
}


class CardScores(NamedTuple):
    """Scores of the exported weights on one test set."""

    set_name: str
    search: str  # such as "beam 5"
    metrics: Sequence[Metric]


class WeightsOrigin(NamedTuple):
    """Where exported weights come from."""

    title: str
    base_model: str | None  # on the Hub
    licences: set[str | None]  # see `Description.licences`
    training: list[str]  # lines of the card
    weights: str  # in a few words


def write_card(
    directory: Path,
    run: LoadedRun,
    *,
    to: str,
    name: str,
    rounded: str | None = None,
    scores: Sequence[CardScores] = (),
) -> None:
    """Write the model card into the folder of an export.

    Args:
        name: The folder's final name.
        rounded: What the weights were rounded to; None: they stayed fp32.
        scores: Scores to show in addition to the run's own.
    """
    sizes, languages = run.config.model, Languages(run.config.data)
    description = read_description(open_run(run.directory))
    origin = _describe_origin(run, description)
    library, packages, _ = _LIBRARIES[to]
    is_m2m100 = to == "huggingface" and m2m100_vocabulary(run.model, run.tokenizers, run.config) is not None
    if lost := ", ".join(find_lost_settings(run.config.decoding, to, has_start=not is_m2m100)):
        logger.warning(f"The files in {name} have no exact counterpart of the run's {lost} (section `decoding`)")
    scores = [*read_scores(run, description.versions), *scores]
    header = _describe_header(run.config.data, languages, origin, scores, library=library)
    lines = [
        f"---\n{yaml.safe_dump({key: value for key, value in header.items() if value}, sort_keys=False)}---\n",
        f"# {origin.title}: {languages}\n",
        f"A Transformer with {sizes.num_encoder_layers}+{sizes.num_decoder_layers} layers, width {sizes.d_model} and"
        f" {run.model.num_parameters:,} weights (norm: {sizes.norm}, positions: {sizes.positions}).",
        f"translate {__version__} exported {origin.weights}"
        + (f", rounded to {rounded}." if rounded else " and verified that the export computes the same numbers."),
        f"\n## Use\n\n```bash\npip install {packages}\n```\n\n```python",
        _example(directory, run, languages, to=to, name=name),
        "```\n",
        *_explain_tags(directory, languages, run.tokenizers.source, to=to),
        f"The files have no exact counterpart of the run's {lost}, so some translations may differ.\n" if lost else "",
        *_explain_splitting(run.config.decoding_settings()),
        "## Scores\n",
        *(_score_rows(scores) if scores else ["`translate eval` has not scored these weights."]),
        "\nThe scores were measured before rounding the weights, except for “this export”." if rounded else "",
        "\n## Training\n",
        *origin.training,
        f"\n```bash\n{shlex.join(description.command)}\n```\n",
        f"Versions: {', '.join(f'{package} {version}' for package, version in description.versions.items())}.\n",
        "## Limitations\n",
        "The model translates one sentence at a time, and works best on text like its training data. On other text"
        " its translations may be fluent and wrong, so have people check what matters.",
    ]
    (directory / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def _example(directory: Path, run: LoadedRun, languages: Languages, *, to: str, name: str) -> str:
    """Code that translates with the export."""
    config, tokenizers, (_, _, code) = run.config.decoding, run.tokenizers, _LIBRARIES[to]
    _, tag = languages.tags_of(languages.usual)
    changes = _WITH_LANGUAGES if _tags_sources(directory) else _WITH_PREFIX if to == "ctranslate2" and tag else {}
    source, target = ("joint", "joint") if tokenizers.source is tokenizers.target else ("source", "target")
    trust = ", trust_remote_code=True" if (directory / "modeling_translate.py").exists() else ""
    if to == "ctranslate2" and tokenizers.source.language_tokens:
        code = _TRANSLATE_TAGGED
    for before, after in changes.items():
        code = code.replace(before, after)
    if (directory / "tokenizer.json").exists():
        code += _TRANSFORMERS_JS
    limit = _find_limit(run.config.model, to=to, has_own_code=bool(trust))
    math, least, most = ("Math.", "min(", f", {limit})") if limit else ("", "", "")
    return code.format(
        **{"name": name, "source": source, "target": target, "trust": trust, "power": length_power(config)},
        tag=" ".join(tokenizers.target.pieces(tokenizers.target.tag_ids(tag))),
        **{"src_lang": languages.usual.source, "forced": tag},
        start=1 + bool(tag),
        begins="the start symbol and the tag" if tag else "the start symbol",
        factor=config.max_length_factor,
        constant=config.max_length_constant,
        **{"math": math, "least": least, "most": most},
        never=json.dumps([[piece] for piece in tokenizers.target.pieces([PAD_ID, BOS_ID])], ensure_ascii=False),
        search=str(ctranslate2_search(config)).strip("{}").replace("'", '"'),
        penalty=_PENALTIES[config.length_penalty_kind].format(config.length_penalty),
    )


def _find_limit(config: ModelConfig, *, to: str, has_own_code: bool) -> int | None:
    """The most tokens of a translation that the example of an export asks for; None: the export has no limit.

    Args:
        has_own_code: It has `modeling_translate.py`.
    """
    if to == "huggingface" and config.positions != "learned":
        return None if has_own_code else huggingface.TABLE_POSITIONS
    return ctranslate2_conversion.position_limit(config) if to == "ctranslate2" else onnx_graph.position_limit(config)


def _describe_origin(run: LoadedRun, description: Description) -> WeightsOrigin:
    data, began = run.config.data, description.initialized_from
    folder = Path(str(description.base.get("folder", began.get("run"))))
    on_hub = re.search("models--(.+)--(.+)/snapshots/", folder.as_posix())  # in the cache of huggingface_hub
    base_model = "/".join(on_hub.groups()) if on_hub else None
    title = Path(base_model or folder).name
    shown = f"[{base_model}](https://huggingface.co/{base_model})" if base_model else title
    licences = description.licences(data)
    named = ", ".join(sorted(licence or "not known" for licence in licences))
    if description.imported:
        training = [f"{shown} is another toolkit's model; its licence is {named}."]
        return WeightsOrigin(title, base_model, licences, training, "imported weights")
    corpora = [f"| {_link(each)} | {each.license or 'not named in the config'} |" for each in data.training_corpora]
    training = ["| data | licence |", "|---|---|", *corpora] if corpora else []
    if began:
        training.append(f"\nFine-tuned from {shown}. Licences of all models and data behind the weights: {named}.")
    weights = f"the weights of {describe_moment(run.step, run.averaged)}"
    return WeightsOrigin(run.config.name, base_model, licences, training, weights)


def _describe_header(
    data: DataConfig, languages: Languages, origin: WeightsOrigin, scores: Sequence[CardScores], *, library: str
) -> dict[str, Any]:
    """What the Hub reads: languages, licence, data and scores. Empty values are left out."""
    codes = {standard_code(code).split("-")[0] for code in (*languages.sources, *languages.targets)}
    results = [
        {
            "task": {"type": "translation"},
            "dataset": {"type": each.set_name, "name": f"{each.set_name} ({each.search})"},
            "metrics": [
                {"type": name.lower(), "name": name, "value": round(score, decimals(name)), "args": [signature]}
                for name, score, _, signature in each.metrics
                if name in {headline.name for headline in HEADLINES}
            ],
        }
        for each in scores
    ]
    licence = [*origin.licences][0] if len(origin.licences) == 1 else None
    is_other = licence is not None and licence.startswith("other: ")  # of a model with a `license_name`
    return {
        "language": sorted(code for code in codes if len(code) in (2, 3)),
        "license": "other" if is_other else licence,
        "license_name": licence.removeprefix("other: ") if licence and is_other else None,
        "base_model": origin.base_model,
        "library_name": library,
        "pipeline_tag": "translation",
        "datasets": sorted({corpus.dataset for corpus in data.train if isinstance(corpus, HubCorpus)}),
        "model-index": [{"name": origin.title, "results": results}] if scores else [],
    }


def _score_rows(scores: Sequence[CardScores]) -> Iterator[str]:
    yield "| test set | search | metric | score | 95 % interval | sacreBLEU |\n|---|---|---|---|---|---|"
    for set_name, search, metrics in scores:
        for metric, score, interval, signature in metrics:
            form = f".{decimals(metric)}f"
            shown = " to ".join(f"{bound:{form}}" for bound in interval or ())
            yield f"| {set_name} | {search} | {metric} | {score:{form}} | {shown} | {signature.replace('|', ' ')} |"


def _tags_sources(directory: Path) -> bool:
    """Whether an export has the tokenizer of M2M100 or NLLB, which puts a tag before each source."""
    return (directory / "sentencepiece.bpe.model").exists()


def _explain_tags(directory: Path, languages: Languages, tokenizer: Tokenizer, *, to: str) -> Iterator[str]:
    """How to tell the model which languages to translate, if it has to know."""
    (before, tag), of = languages.tags_of(languages.usual), "its own" if languages.tags == "both" else "the target"
    is_set = _tags_sources(directory)
    if before := before or next(iter(tokenizer.language_tokens), None):
        how = ", which the tokenizer puts there: set its `src_lang`, as the code does" if is_set else ""
        yield f"Each source begins with the tag of {of} language, such as `{before}`{how}.\n"
    if tag:
        prefix = "the decoder's prefix" + (", as the code does with `tag`" if is_set or to == "ctranslate2" else "")
        yield f"Each translation begins with the tag of its language, such as `{tag}`: make it {prefix}.\n"


def _explain_splitting(config: DecodingConfig) -> Iterator[str]:
    if config.long == "split" and config.max_source_tokens:
        limit = f"{config.max_source_tokens:,} subwords"
        yield f"The run splits a source of more than {limit}; the files do not, so split such text yourself.\n"


def find_lost_settings(config: DecodingConfig, to: str, *, has_start: bool = True) -> list[str]:
    """The search settings that an export loses: all but those listed here and those that only affect speed.

    Args:
        has_start: The decoder starts with a separate symbol, unlike M2M100's, which starts with the end symbol.
    """
    is_greedy = config.beam_size == 1
    kept = {"beam_size", "length_penalty", "max_length_factor", "max_length_constant", *_SPEED}
    if to == "ctranslate2":
        kept |= {"length_penalty_kind"} | ({"patience"} if config.patience or is_greedy else set())
    else:
        kept |= {"no_repeat_ngram", "forbidden_ids"}
        # Our search raises a maximum length that is below the minimum; others do not.
        kept |= {"min_length_constant"} if config.min_length_constant < config.max_length_constant else set()
        kept |= {"length_penalty_kind"} if is_greedy or config.length_penalty_kind != "gnmt" else set()
        kept |= {"patience"} if is_greedy or config.patience in (0, 1, 1000) else set()
        kept |= {"repetition_penalty"} if has_start and not is_greedy else set()
    usual = DecodingConfig().model_dump() | {"patience": None, "length_penalty_kind": None}
    return [f"{key} = {value}" for key, value in config.model_dump(exclude=kept).items() if value != usual[key]]


def read_scores(run: LoadedRun, versions: dict[str, str]) -> list[CardScores]:
    """The scores of the loaded weights in the run's reports of `translate eval`, or else in its own validation.

    Args:
        versions: The versions of the packages that trained the run.
    """
    directory, scores = open_run(run.directory), []
    for file in sorted(directory.evaluation.glob("*/report.json")):
        try:
            report = read_json(file, EvaluationReport)
        except FileError as error:
            logger.warning(f"{error}; so the model card has no scores for it")
            continue
        if (report.step, report.averaged) == (run.step, [*run.averaged]):
            scores.append(
                CardScores(report.name, DecodingConfig.model_construct(**report.decoding).brief, report.metrics)
            )
    if run.averaged or any(each.set_name.partition("-")[0] == "validation" for each in scores):
        return scores
    which = [key.rpartition(".")[2] for key in run.config.data.corpora("validation")]
    name = "validation" if len(which) < 2 else f"validation, mean of {', '.join(which)}"
    steps = {"validation": "step", "evaluation": "best_step"}  # only evaluation uses the run's own search
    for record in [each for each in read_metrics(directory) if run.step == each.get(steps.get(each["kind"], ""))][-1:]:
        search = run.config.decoding.brief if record["kind"] == "evaluation" else "as in the training's validations"
        tokenizer, version = run.config.evaluation.bleu_tokenizer, versions.get("sacrebleu")
        scores.append(CardScores(name, search, read_recorded_scores(record, tokenizer, version=version)))
    return scores


def _link(corpus: Corpus) -> str:
    title = corpus_title(corpus)
    return f"[{title}](https://huggingface.co/datasets/{corpus.dataset})" if isinstance(corpus, HubCorpus) else title
