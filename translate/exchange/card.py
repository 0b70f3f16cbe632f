"""The model card of an export: a README.md for whoever finds the folder, with a header for the Hugging Face Hub."""

import json
import logging
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from translate._version import __version__
from translate.config.data import Corpus, HubCorpus, TextCorpus
from translate.evaluation.metrics import Interval, Metric, score_translations
from translate.runs.directory import open_run
from translate.runs.loading import LoadedRun, describe_moment
from translate.runs.metrics import read_metrics

logger = logging.getLogger(__name__)

_CARD = """---
{header}---

# {name}: {source} → {target}

A Transformer of {model.num_encoder_layers}+{model.num_decoder_layers} layers, width {model.d_model} and {weights:,} weights (norm: {model.norm}, positions: {model.positions}). Its
weights are those of {moment}. translate {version} exported it{rounded}.

## Use

```bash
pip install {packages}
```

```python
{code}
```

## Scores

{scores}
{before}
## Training

| data | licence |
|---|---|
{data}

```bash
{command}
```

Versions: {versions}.

## Limitations

The model translates one sentence at a time, and knows the kind of text that it was trained on. Elsewhere it may be fluent and wrong, so
have people check what matters.
"""  # noqa: E501

_LOADED_BY_OPTIMUM = """from optimum.onnxruntime import ORTModelForSeq2SeqLM
from transformers import AutoTokenizer

model, tokenizer = ORTModelForSeq2SeqLM.from_pretrained("NAME"), AutoTokenizer.from_pretrained("NAME")
"""
_LOADED_BY_TRANSFORMERS = """from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("NAME", trust_remote_code=True)
model = AutoModelForSeq2SeqLM.from_pretrained("NAME", trust_remote_code=True)
"""
_GENERATE = """batch = tokenizer(["..."], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))"""
_CTRANSLATE2 = """import ctranslate2
import sentencepiece

translator = ctranslate2.Translator("NAME")
source = sentencepiece.SentencePieceProcessor(model_file="NAME/SOURCE.model")
target = sentencepiece.SentencePieceProcessor(model_file="NAME/TARGET.model")
[result] = translator.translate_batch(source.encode(["..."], out_type=str), beam_size=BEAM)
print(target.decode(result.hypotheses[0]))"""
_LIBRARIES = {  # of each format: the name that the Hub knows, packages, and how it is used; NAME is the folder's
    "ctranslate2": ("ctranslate2", "ctranslate2 sentencepiece", _CTRANSLATE2),
    "huggingface": ("transformers", "transformers sentencepiece", _LOADED_BY_TRANSFORMERS + _GENERATE),
    "onnx": ("onnx", "'optimum[onnxruntime]' sentencepiece", _LOADED_BY_OPTIMUM + _GENERATE),
}


class CardScores(NamedTuple):
    """Scores of the exported weights on one test set."""

    set_name: str
    search: str  # such as "beam 5"
    metrics: Sequence[Metric]


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
        scores: Scores besides those that the run knows.
    """
    data, description = run.config.data, json.loads(open_run(run.directory).description.read_bytes())
    library, packages, code = _LIBRARIES[to]
    versions = description.get("versions", {})
    scores = [*read_scores(run, versions), *scores]
    licences = {corpus.license for corpus in data.train}
    header = {
        "language": sorted({code for code in (data.source_language, data.target_language) if len(code) in (2, 3)}),
        "license": licences.pop() if len(licences) == 1 else None,
        "library_name": library,
        "pipeline_tag": "translation",
        "datasets": sorted({corpus.dataset for corpus in data.train if isinstance(corpus, HubCorpus)}),
        "model-index": [{"name": run.config.name, "results": list(map(_result, scores))}] if scores else [],
    }
    is_joint = run.tokenizers.source is run.tokenizers.target
    words = {"NAME": name, "BEAM": str(run.config.decoding.beam_size)}
    words |= {side: "joint" if is_joint else side.lower() for side in ("SOURCE", "TARGET")}
    if not (directory / "modeling_translate.py").exists():
        words[", trust_remote_code=True"] = ""
    card = _CARD.format(
        header=yaml.safe_dump({key: value for key, value in header.items() if value}, sort_keys=False),
        name=run.config.name,
        source=data.source_language,
        target=data.target_language,
        model=run.config.model,
        weights=run.model.num_parameters,
        moment=describe_moment(run.step, run.averaged),
        version=__version__,
        rounded=f", rounded to {rounded}" if rounded else " and checked that it gives the same numbers",
        packages=packages,
        code=re.sub("|".join(words), lambda found: words[found[0]], code),
        scores=_score_table(scores) or "`translate eval` has not scored these weights.",
        before=""
        if rounded is None
        else "\nScores are those of the weights before they were rounded, but for “this export”.\n",
        data="\n".join(f"| {_corpus(each)} | {each.license or 'not named in the config'} |" for each in data.train),
        command=shlex.join(description.get("command", [])),
        versions=", ".join(f"{package} {version}" for package, version in versions.items()),
    )
    (directory / "README.md").write_text(card, encoding="utf-8", newline="\n")


def read_scores(run: LoadedRun, versions: dict[str, str]) -> list[CardScores]:
    """What a run knows about the loaded weights: its reports of `translate eval`, or else its own validation.

    Args:
        versions: The versions of the packages that trained the run.
    """
    directory, scores = open_run(run.directory), []
    for file in sorted(directory.evaluation.glob("*/report.json")):
        try:
            report = json.loads(file.read_bytes())
            metrics = [Metric(**each)._replace(interval=_interval(each["interval"])) for each in report["metrics"]]
            if (report["step"], report.get("averaged", [])) == (run.step, [*run.averaged]):
                scores.append(CardScores(report["name"], _search(report["decoding"]), metrics))
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning(f"{file} cannot be read, so the model card has no scores of it: {error!r}")
    if "validation" not in {each.set_name for each in scores} and not run.averaged:
        steps = {"validation": "step", "evaluation": "best_step"}  # the latter is made with the run's own search
        records = [each for each in read_metrics(directory) if run.step == each.get(steps.get(each["kind"], ""))]
        for record in records[-1:]:
            own = record["kind"] == "evaluation"
            search = _search(run.config.decoding.model_dump()) if own else "as in the training's validations"
            # The record has scores alone. Their signatures are those of any text, but for sacreBLEU's version then.
            metrics = [
                metric._replace(
                    score=record[metric.name],
                    signature=re.sub("version:.*", f"version:{versions.get('sacrebleu')}", metric.signature),
                )
                for metric in score_translations(["-"], ["-"], run.config.evaluation, effort="quick")
            ]
            scores.append(CardScores("validation", search, metrics))
    return scores


def _interval(ends: Sequence[float] | None) -> Interval | None:
    return None if ends is None else Interval(*ends)


def _search(decoding: dict[str, Any]) -> str:
    return f"beam {decoding['beam_size']}" if decoding["search"] == "beam" else "sampled"


def _score_table(scores: Sequence[CardScores]) -> str:
    rows = [
        f"| {name} | {search} | {metric.name} | {metric.score:.2f} |"
        f" {'{:.2f} to {:.2f}'.format(*metric.interval) if metric.interval else ''} |"
        f" {metric.signature.replace('|', ' ')} |"
        for name, search, metrics in scores
        for metric in metrics
    ]
    head = ["| test set | search | metric | score | 95 % interval | sacreBLEU |", "|---|---|---|---|---|---|"]
    return "\n".join([*head, *rows]) if rows else ""


def _result(scores: CardScores) -> dict[str, Any]:
    return {
        "task": {"type": "translation"},
        "dataset": {"type": scores.set_name, "name": f"{scores.set_name} ({scores.search})"},
        "metrics": [
            {"type": each.name.lower(), "name": each.name, "value": round(each.score, 2), "args": [each.signature]}
            for each in scores.metrics
            if each.name in ("BLEU", "chrF")
        ],
    }


def _corpus(corpus: Corpus) -> str:
    """What a corpus is called, without the folders in which its files lie here."""
    if isinstance(corpus, HubCorpus):
        return f"[{corpus.dataset}](https://huggingface.co/datasets/{corpus.dataset}), {corpus.split}"
    return f"{corpus.source.name}, {corpus.target.name}" if isinstance(corpus, TextCorpus) else corpus.path.name
