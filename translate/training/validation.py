"""Validation: the loss by forced decoding, and the scores by the same code as `translate eval`."""

import copy
import math
import time
from collections.abc import Collection, Mapping
from statistics import fmean
from typing import Any, Literal, NamedTuple

import torch

from translate.config.decoding import DecodingConfig
from translate.config.errors import REMOVED_KEYS
from translate.config.languages import Languages
from translate.config.schema import Config, TrainingConfig
from translate.data.corpora import ParallelCorpus, data_fingerprint
from translate.data.tokenizer import Tokenizers
from translate.decoding import OnFinished, Translator, count_conditions, ignore_progress
from translate.decoding.loading import resolve_auto, set_precision
from translate.distributed.process_group import SINGLE_PROCESS, World
from translate.evaluation.evaluate import Evaluation, evaluate, gather_lines
from translate.evaluation.metrics import SCORES, describe_headlines
from translate.fingerprint import fingerprint
from translate.memory import release_free_memory
from translate.messages import describe_seconds
from translate.model import Transformer
from translate.model.device import explain_out_of_memory
from translate.training.tracking.log_window import describe_perplexity

# Search settings that affect the loss, and those that affect no translation; all others affect only BLEU.
_DECIDE_LOSS = {"long", "max_source_tokens", "max_target_tokens", "precision"}
_DECIDE_NOTHING = {"n_best", "alignment_layer", "batch_tokens", "look_ahead_lines", "engine", "workers", "device"}
_ADDED_LATER = {
    "patience",
    "forbidden_ids",
    "split_sentences",
    "keep_placeholders",
}  # since 0.9.0; older runs were scored with the defaults


class Validation(NamedTuple):
    """The quality of the model on a validation corpus, or the mean quality on several."""

    loss: float  # nats per target token, with the end symbol, without label smoothing
    evaluation: Evaluation
    seconds: float
    vocab_size: int  # of the targets

    def score(self, metric: Literal["bleu", "loss"]) -> float:
        """The number that chooses the best checkpoint; more is better."""
        if math.isnan(self.loss):
            return -math.inf
        return self.evaluation.score("BLEU") if metric == "bleu" else -self.loss

    def describe_guessing(self, settings: TrainingConfig, *, step: int) -> str:
        """Describe a loss above that of equal probabilities for all subwords, and name a remedy; empty: it is not.

        During the warm-up, only a loss that is not finite counts.
        """
        guessing, is_early = math.log(self.vocab_size), step < max(1, settings.warmup_steps)
        if self.loss <= guessing or (is_early and math.isfinite(self.loss)):
            return ""
        found = "not a number" if math.isnan(self.loss) else f"{self.loss:,.3f}, above {guessing:.3f}"
        clipping = "set training.max_gradient_norm=1.0, " if settings.max_gradient_norm is None else ""
        return (
            f"The model is worse than guessing: its loss at step {step:,} is {found}. Try to {clipping}lower"
            f" training.learning_rate (now {settings.learning_rate:g}) or raise training.warmup_steps"
            f" (now {settings.warmup_steps:,})"
        )

    def to_record(self, kind: str, *, step: int) -> dict[str, Any]:
        """The numbers as `metrics.jsonl` keeps them, with the current step."""
        return {
            "kind": kind,
            "step": step,
            "loss": self.loss,
            "perplexity": math.exp(min(self.loss, 700.0)),
            **{score.name: self.evaluation.score(score.name) for score in SCORES if score.effort == "quick"},
            "num_truncated": count_conditions(self.evaluation.translations)["truncated"],
            "seconds": round(self.seconds, 3),
        }


def mean_validation(validations: Collection[Validation]) -> Validation:
    """The mean loss and the mean scores on several corpora, all of which count the same, and all translations."""
    evaluations = [validation.evaluation for validation in validations]
    translations = [translation for evaluation in evaluations for translation in evaluation.translations]
    metrics = tuple(
        metric._replace(score=fmean(evaluation.score(metric.name) for evaluation in evaluations))
        for metric in evaluations[0].metrics
    )
    loss = fmean(validation.loss for validation in validations)
    seconds = sum(validation.seconds for validation in validations)
    return Validation(loss, Evaluation(translations, metrics), seconds, max(one.vocab_size for one in validations))


def validation_records(validations: Mapping[str, Validation], kind: str, *, step: int) -> list[dict[str, Any]]:
    """The record of a single validation; or the record of the mean, and of each validation as KIND/NAME."""
    record = mean_validation(validations.values()).to_record(kind, step=step)
    if len(validations) == 1:
        return [record]
    del record["seconds"]  # which the others have
    parts = [validation.to_record(f"{kind}/{name}", step=step) for name, validation in validations.items()]
    return [{**record, "mean_of": [*validations]}, *parts]


def describe_validation(
    record: Mapping[str, Any], *, is_best: bool = False, name: str | None = None
) -> tuple[str, str]:
    """The log line of a validation record: the scores and the rest; `name` is a corpus that decides nothing."""
    what = f"Step {record['step']:,}: validation" if name is None else f"  {name}:"
    what += f" (mean of {len(record['mean_of'])})" if "mean_of" in record else ""
    scores = f"{what} {describe_headlines(record)}"
    loss = f", loss {record['loss']:.3f}, ppl {describe_perplexity(record['perplexity'])}{', best' if is_best else ''}"
    return scores, f"{loss}, {describe_seconds(record['seconds'])}" if "seconds" in record else loss


def validation_fingerprint(corpora: Collection[ParallelCorpus], tokenizers: Tokenizers, config: Config) -> str | None:
    """A checksum of everything but the weights that affects a validation's score; if equal, scores are comparable.

    The order of the corpora does not affect it.
    """
    if not corpora:
        return None
    included = _DECIDE_LOSS if config.training.best_metric == "loss" else None
    settings = config.validation_search()
    unset = _ADDED_LATER - settings.model_dump(exclude_defaults=True).keys()
    search = settings.model_dump(mode="json", include=included, exclude=_DECIDE_NOTHING | unset)
    if not included:  # keeps scores of older versions comparable
        search |= {"contrastive_weight": 0.5, "contrastive_plausibility": 0.1}
        search |= {key.rpartition(".")[2]: old for key, (old, _) in REMOVED_KEYS.items() if key.startswith("decoding.")}
    tokenizer = None if included else config.evaluation.bleu_tokenizer
    ordered = sorted(corpora, key=lambda corpus: str(corpus.direction))  # no two have the same
    return fingerprint([data_fingerprint(ordered, tokenizers), search, tokenizer])


def resolve_search(search: DecodingConfig, *, device: str) -> DecodingConfig:
    """The settings of a search for a model in training, with `auto` resolved for its device; see `resolve_auto`."""
    # int8 would need converting the model for CTranslate2.
    precision = "fp32" if search.precision == "int8" else search.precision
    return resolve_auto(search.model_copy(update={"device": device, "precision": precision}))


def validate(
    model: Transformer,
    tokenizers: Tokenizers,
    corpus: ParallelCorpus,
    config: Config,
    *,
    search: DecodingConfig | None = None,
    multi_sentence_share: float | None = None,
    world: World = SINGLE_PROCESS,
    on_finished: OnFinished = ignore_progress,
) -> Validation:
    """Compute a model's loss, translations and scores on one corpus, in its direction.

    Args:
        search: How to search for the translations; None: as validations do during training.
        multi_sentence_share: See `Translator`.
        world: The processes that validate together: each takes a part of the lines, and gets the results of all.
        on_finished: Shows the progress of this process, which scores each of its lines and then translates it.

    Raises:
        Cancelled: The validation was cancelled in some process; then it is in all.
        OutOfMemory: The device does not have enough memory for the search.
    """
    started = time.perf_counter()
    settings = resolve_search(search or config.validation_search(), device=model.device.type)
    own = world.share(len(corpus.sources))

    def score() -> list[tuple[float, int]]:
        """The log-probability and the number of target tokens of each line."""
        target_ids = [tokenizers.target.encode(line) for line in corpus.targets[own]]
        scores = translator.score(corpus.sources[own], target_ids, first_number=own.start, on_finished=on_finished)
        return [(score.log_prob, len(score.token_log_probs)) for score in scores]

    release_free_memory()  # kept by the training steps
    model.eval()
    try:
        with (
            torch.compiler.set_stance("force_eager"),  # a validation is too rare for compiling to pay
            explain_out_of_memory(
                "the validation",
                hint=f"Lower decoding.batch_tokens (now {settings.batch_tokens}), and continue with --resume.",
            ),
        ):
            known: dict[str, Any] = {"direction": corpus.direction, "multi_sentence_share": multi_sentence_share}
            translator = Translator(model, tokenizers, settings, languages=Languages(config.data), **known)
            scores = gather_lines(score, world)
            loss = -sum(log_prob for log_prob, _ in scores) / sum(tokens for _, tokens in scores)
            if settings.precision == "bf16":
                # The loss is computed with the weights as they are, BLEU as `translate eval` computes it.
                translator = translator.replace(engine=set_precision(copy.deepcopy(model), settings.precision))
            pairs, options = (corpus.sources, corpus.targets), config.evaluation
            evaluation = evaluate(translator, *pairs, options, effort="quick", world=world, on_finished=on_finished)
    finally:
        release_free_memory()
    return Validation(loss, evaluation, time.perf_counter() - started, tokenizers.target.vocab_size)
