"""The model card of an export: a README.md for anyone who finds the folder, with a header for the Hugging Face Hub."""

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
from translate.evaluation.metrics import Interval, Metric
from translate.runs.directory import open_run
from translate.runs.loading import LoadedRun, describe_moment
from translate.runs.metrics import read_metrics

logger = logging.getLogger(__name__)

_GENERATE = """from transformers import AutoTokenizer
from PACKAGE import MODEL

tokenizer = AutoTokenizer.from_pretrained("NAME"TRUST)
model = MODEL.from_pretrained("NAME"TRUST)
batch = tokenizer(["..."], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))"""
_TRANSLATE_BATCH = """import ctranslate2
import sentencepiece

translator = ctranslate2.Translator("NAME")
source = sentencepiece.SentencePieceProcessor(model_file="NAME/SOURCE.model")
target = sentencepiece.SentencePieceProcessor(model_file="NAME/TARGET.model")
[result] = translator.translate_batch(source.encode(["..."], out_type=str), beam_size=BEAM)
print(target.decode(result.hypotheses[0]))"""
_LIBRARIES = {  # name on the Hub, what to install, code, and two of the words in capitals that are replaced in it
    "ctranslate2": ("ctranslate2", "ctranslate2 sentencepiece", _TRANSLATE_BATCH, "", ""),
    "huggingface": ("transformers", "transformers sentencepiece", _GENERATE, "transformers", "AutoModelForSeq2SeqLM"),
    "onnx": ("onnx", "'optimum[onnxruntime]' sentencepiece", _GENERATE, "optimum.onnxruntime", "ORTModelForSeq2SeqLM"),
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
        scores: Scores in addition to those that the run knows.
    """
    data, config = run.config.data, run.config.model
    description = json.loads(open_run(run.directory).description.read_bytes())
    versions, imported = description.get("versions", {}), description.get("imported")
    if imported is None:
        title, licences = run.config.name, {corpus.license for corpus in data.train}
        corpora = [f"| {_describe(each)} | {each.license or 'not named in the config'} |" for each in data.train]
        training = ["| data | licence |", "|---|---|", *corpora]
        weights = f"the weights of {describe_moment(run.step, run.averaged)}"
    else:
        title, licences = Path(imported["source"]).name, {imported.get("licence")}
        training = [f"{title} is another toolkit's model; its licence is {imported.get('licence') or 'not known'}."]
        weights = "imported weights"
    library, packages, code, package, loader = _LIBRARIES[to]
    scores = [*read_scores(run, versions), *scores]
    header = {
        "language": sorted({code for code in (data.source_language, data.target_language) if len(code) in (2, 3)}),
        "license": licences.pop() if len(licences) == 1 else None,
        "library_name": library,
        "pipeline_tag": "translation",
        "datasets": sorted({corpus.dataset for corpus in data.train if isinstance(corpus, HubCorpus)}),
        "model-index": [{"name": title, "results": [_result(each) for each in scores]}] if scores else [],
    }
    is_joint = run.tokenizers.source is run.tokenizers.target
    words = {
        "PACKAGE": package,
        "MODEL": loader,
        "NAME": name,
        "BEAM": str(run.config.decoding.beam_size),
        "SOURCE": "joint" if is_joint else "source",
        "TARGET": "joint" if is_joint else "target",
        "TRUST": ", trust_remote_code=True" if (directory / "modeling_translate.py").exists() else "",
    }
    lines = [
        f"---\n{yaml.safe_dump({key: value for key, value in header.items() if value}, sort_keys=False)}---\n",
        f"# {title}: {data.source_language} → {data.target_language}\n",
        f"A Transformer with {config.num_encoder_layers}+{config.num_decoder_layers} layers, width {config.d_model} and"
        f" {run.model.num_parameters:,} weights (norm: {config.norm}, positions: {config.positions}).",
        f"translate {__version__} exported {weights}"
        + (f", rounded to {rounded}." if rounded else " and checked that they give the same numbers."),
        f"\n## Use\n\n```bash\npip install {packages}\n```\n\n```python",
        re.sub("|".join(words), lambda found: words[found[0]], code),
        "```\n\n## Scores\n",
        *(_score_rows(scores) if scores else ["`translate eval` has not scored these weights."]),
        "\nThe scores are those of the weights before rounding, except for “this export”." if rounded else "",
        "\n## Training\n",
        *training,
        f"\n```bash\n{shlex.join(description.get('command', []))}\n```\n",
        f"Versions: {', '.join(f'{package} {version}' for package, version in versions.items())}.\n",
        "## Limitations\n",
        "The model translates one sentence at a time, and knows the kind of text that it was trained on. On other text"
        " its translations may be fluent and wrong, so have people check what matters.",
    ]
    (directory / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def read_scores(run: LoadedRun, versions: dict[str, str]) -> list[CardScores]:
    """What a run knows about the loaded weights: its reports of `translate eval`, or else its own validation.

    Args:
        versions: The versions of the packages that trained the run.
    """
    directory, scores = open_run(run.directory), []
    for file in sorted(directory.evaluation.glob("*/report.json")):
        try:
            report = json.loads(file.read_bytes())
            metrics = [
                Metric(**{**each, "interval": each["interval"] and Interval(*each["interval"])})
                for each in report["metrics"]
            ]
            if (report["step"], report.get("averaged", [])) == (run.step, [*run.averaged]):
                scores.append(CardScores(report["name"], _search(report["decoding"]), metrics))
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning(f"{file} cannot be read, so the model card has no scores of it: {error!r}")
    if run.averaged or "validation" in {each.set_name for each in scores}:
        return scores
    steps = {"validation": "step", "evaluation": "best_step"}  # the latter is made with the run's own search
    for record in [each for each in read_metrics(directory) if run.step == each.get(steps.get(each["kind"], ""))][-1:]:
        is_own = record["kind"] == "evaluation"
        search = _search(run.config.decoding.model_dump()) if is_own else "as in the training's validations"
        version = f"version:{versions.get('sacrebleu')}"
        bleu = f"tok:{run.config.evaluation.bleu_tokenizer}|{version}"
        signatures = {"BLEU": bleu, "BLEU-lc": bleu, "chrF": version}
        metrics = [Metric(key, record[key], None, each) for key, each in signatures.items() if key in record]
        scores.append(CardScores("validation", search, metrics))
    return scores


def _search(decoding: dict[str, Any]) -> str:
    return f"beam {decoding['beam_size']}" if decoding["search"] == "beam" else "sampled"


def _score_rows(scores: Sequence[CardScores]) -> list[str]:
    """The table of scores in Markdown."""
    rows = [["test set", "search", "metric", "score", "95 % interval", "sacreBLEU"], ["---"] * 6]
    for name, search, metrics in scores:
        for metric in metrics:
            interval = "{:.2f} to {:.2f}".format(*metric.interval) if metric.interval else ""
            signature = metric.signature.replace("|", " ")
            rows.append([name, search, metric.name, f"{metric.score:.2f}", interval, signature])
    return [f"| {' | '.join(row)} |" for row in rows]


def _result(scores: CardScores) -> dict[str, Any]:
    """Scores as the Hub reads them."""
    return {
        "task": {"type": "translation"},
        "dataset": {"type": scores.set_name, "name": f"{scores.set_name} ({scores.search})"},
        "metrics": [
            {"type": each.name.lower(), "name": each.name, "value": round(each.score, 2), "args": [each.signature]}
            for each in scores.metrics
            if each.name in ("BLEU", "chrF")
        ],
    }


def _describe(corpus: Corpus) -> str:
    """What a corpus is called, without the folders that hold its files on this machine."""
    if isinstance(corpus, HubCorpus):
        return f"[{corpus.dataset}](https://huggingface.co/datasets/{corpus.dataset}), {corpus.split}"
    return f"{corpus.source.name}, {corpus.target.name}" if isinstance(corpus, TextCorpus) else corpus.path.name
