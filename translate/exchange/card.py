"""Writes the model card of an export: a README.md with a header for the Hugging Face Hub."""

import json
import logging
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import yaml

from translate._version import __version__
from translate.atomic import write_text
from translate.config.data import DataConfig, Direction, HubCorpus, corpus_title
from translate.config.decoding import DecodingConfig
from translate.config.languages import Languages
from translate.decoding.counterparts import Format, position_limit
from translate.decoding.engines.ctranslate2 import ctranslate2_search, length_power
from translate.evaluation.metrics import HEADLINES, decimals, read_recorded_scores
from translate.exchange.huggingface import choose_format, special_tags
from translate.exchange.language_tokenizers import FAIRSEQ_FORMATS
from translate.files import FileError, read_json
from translate.language_codes import standard_code
from translate.runs.metadata import describe_moment
from translate.runs.metrics import read_metrics
from translate.runs.report import EvaluationReport, Metric
from translate.runs.run import LoadedModel

logger = logging.getLogger(__name__)

_PENALTIES = {"gnmt": "((5 + len(each[1])) / 6) ** {}", "average": "len(each[1]) ** {}", "none": "1"}
_SPEED = {"batch_tokens", "look_ahead_lines", "engine", "precision", "workers", "device", "alignment_layer"}
_LIBRARIES = {  # the name on the Hub, and what to install
    "ctranslate2": ("ctranslate2", "ctranslate2 sentencepiece"),
    "huggingface": ("transformers", "transformers torch sentencepiece"),
    "argos": ("ctranslate2", "argostranslate"),
    "onnx": ("onnx", "'optimum-onnx[onnxruntime]' torch sentencepiece"),
}
ARGOS_SEARCH = {
    "beam_size": 4, "length_penalty": 0.2, "length_penalty_kind": "average", "patience": 1, "min_length_constant": 1,
}  # fmt: skip
"""The settings of our search that are those of Argos Translate, whatever the run's are."""
_ARGOS_CODES = {"zh-Hant": "zt", "zh-TW": "zt", "pt-BR": "pb"}  # its own; others are the language alone
_LOADER = jinja2.FileSystemLoader(Path(__file__).parent)
_TEMPLATES = jinja2.Environment(loader=_LOADER, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)


class CardScores(NamedTuple):
    """Scores of the exported weights on one test set."""

    set_name: str
    search: str  # such as "beam 5"
    metrics: Sequence[Metric]


def write_card(
    directory: Path,
    run: LoadedModel,
    *,
    to: str,
    name: str,
    rounded: str | None = None,
) -> None:
    """Fill in `card.md.jinja`, and write it into the folder of an export.

    Args:
        name: The folder's final name.
        rounded: What the weights were rounded to; None: they stayed fp32.
    """
    config, search, (source, target, _) = run.config, run.config.decoding, run.tokenizers
    languages, description = run.run.languages, run.run.description
    model_format: Format = "onnx" if to == "onnx" else "ctranslate2"
    if to == "huggingface":
        model_format, _ = choose_format(run.model, run.tokenizers, config)
    if lost := ", ".join(find_lost_settings(search, to, has_start=model_format not in FAIRSEQ_FORMATS)):
        problem = f"the export cannot represent the run's {lost} (section `decoding`) exactly"
        logger.warning(f"{name}: {problem}, so some translations may differ")
    folder = Path(str(description.base.get("folder", description.initialized_from.get("run"))))
    on_hub = re.search("models--(.+)--(.+)/snapshots/", folder.as_posix())  # in the cache of huggingface_hub
    base_model = "/".join(on_hub.groups()) if on_hub else None
    base, licences = Path(base_model or folder).name, description.licences(config.data)
    title = base if description.imported else config.name
    scores = read_scores(run, description.versions)
    header = _describe_header(config.data, languages, scores, title=title, licences=licences)
    header |= {"base_model": base_model, "library_name": _LIBRARIES[to][0]}
    source_tag, tag = languages.tags_of(languages.usual)
    tag_ids, is_separate = target.tag_tokens(languages.every_tag), run.tokenizers.vocabulary == "separate"
    shown: dict[str, Any] = {"run": run, "to": to, "name": name, "rounded": rounded, "description": description}
    shown |= {"title": title, "base": base, "base_model": base_model, "scores": scores, "lost": lost}
    shown |= {"languages": languages, "tag": tag, "source_tag": source_tag or next(iter(source.language_tokens), None)}
    card = _TEMPLATES.get_template("card.md.jinja").render(
        shown,
        version=__version__,
        packages=_LIBRARIES[to][1],
        header=yaml.safe_dump({key: value for key, value in header.items() if value}, sort_keys=False),
        weights=describe_moment(run.step, run.averaged),
        has_language_tokens=bool(source.language_tokens),
        names_languages=(directory / "sentencepiece.bpe.model").exists(),  # as the tokenizers of M2M100 and NLLB do
        has_own_code=model_format == "modeling",
        limit=position_limit(config.model, model_format),
        tag_pieces=" ".join(target.pieces(target.tag_ids(tag))),
        tags=target.pieces(sorted(tag_ids)),
        argos_codes=package_codes(languages.usual),
        is_separate=is_separate,
        tag_ids=sorted(tag_ids.difference(special_tags(run.tokenizers, languages).values())),
        never=json.dumps([[piece] for piece in target.pieces(target.never_generated)], ensure_ascii=False),
        options=str(ctranslate2_search(search)).replace("'", '"'),
        power=length_power(search),
        penalty=_PENALTIES[search.length_penalty_kind].format(search.length_penalty),
        licences=", ".join(sorted(licence or "not known" for licence in licences)),
        corpus_title=corpus_title,
        decimals=decimals,
        command=shlex.join(description.command),
    )
    write_text(directory / "README.md", card)


def _describe_header(
    data: DataConfig, languages: Languages, scores: Sequence[CardScores], *, title: str, licences: set[str | None]
) -> dict[str, Any]:
    """What the Hub reads: languages, licence, data and scores. Empty values are left out."""
    codes = {standard_code(code).split("-")[0] for code in (*languages.sources, *languages.targets)}
    results = [
        {
            "task": {"type": "translation"},
            "dataset": {"type": on_set.set_name, "name": f"{on_set.set_name} ({on_set.search})"},
            "metrics": [
                {"type": name.lower(), "name": name, "value": round(score, decimals(name)), "args": [signature]}
                for name, score, _, signature in on_set.metrics
                if name in {headline.name for headline in HEADLINES}
            ],
        }
        for on_set in scores
    ]
    licence = [*licences][0] if len(licences) == 1 else None
    is_other = licence is not None and licence.startswith("other: ")  # of a model with a `license_name`
    return {
        "language": sorted(code for code in codes if len(code) in (2, 3)),
        "license": "other" if is_other else licence,
        "license_name": licence.removeprefix("other: ") if licence and is_other else None,
        "pipeline_tag": "translation",
        "datasets": sorted({corpus.dataset for corpus in data.train if isinstance(corpus, HubCorpus)}),
        "model-index": [{"name": title, "results": results}] if scores else [],
    }


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
    if to == "argos":
        kept, usual = {"max_length_factor", "max_length_constant", "min_length_constant", *_SPEED}, usual | ARGOS_SEARCH
    return [f"{key} = {value}" for key, value in config.model_dump(exclude=kept).items() if value != usual[key]]


def read_scores(run: LoadedModel, versions: dict[str, str]) -> list[CardScores]:
    """The scores of the loaded weights in the run's reports of `translate eval`, or else in its own validation.

    Args:
        versions: The versions of the packages that trained the run.
    """
    files, scores = run.run.files, []
    for file in sorted(files.evaluation.glob("*/report.json")):
        try:
            report = read_json(file, EvaluationReport)
        except FileError as error:
            logger.warning(f"{error}; so the model card has no scores for it")
            continue
        is_own = report.changed_settings(run.config) in ({}, {"checkpoint": run.checkpoint})
        if is_own and (report.step, report.averaged) == (run.step, [*run.averaged]):
            search = DecodingConfig.model_construct(**report.decoding).brief
            scores.append(CardScores(file.parent.name, search, report.metrics))
    if run.averaged or any(on_set.set_name.partition("-")[0] == "validation" for on_set in scores):
        return scores
    which = [key.rpartition(".")[2] for key in run.config.data.corpora("validation")]
    name = "validation" if len(which) < 2 else f"validation, mean of {', '.join(which)}"
    steps = {"validation": "step", "evaluation": "best_step"}  # only evaluation uses the run's own search
    for record in [row for row in read_metrics(files) if run.step == row.get(steps.get(row["kind"], ""))][-1:]:
        search = run.config.decoding.brief if record["kind"] == "evaluation" else "as in the training's validations"
        tokenizer, version = run.config.evaluation.bleu_tokenizer, versions.get("sacrebleu")
        scores.append(CardScores(name, search, read_recorded_scores(record, tokenizer, version=version)))
    return scores


def package_codes(direction: Direction) -> list[str]:
    """The codes of Argos Translate for the languages of a direction."""
    return [_ARGOS_CODES.get(code := standard_code(each), code.partition("-")[0]) for each in direction]
