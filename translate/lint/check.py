"""Looking before a long run: what `translate check` finds out, and the cheap part of it for `translate train`."""

import logging
import math
from collections.abc import Callable, Sequence

import numpy as np

from translate.config import Config, Corpus
from translate.data.corpora import ParallelCorpus
from translate.data.filtering import FilterReport
from translate.data.streaming import Batches
from translate.data.tokenizer import Tokenizers
from translate.distributed.devices import choose_own_device, settle_threads
from translate.distributed.process_group import SINGLE_PROCESS
from translate.errors import RunError
from translate.lint.advice_on_data import DataFacts, advise_on_data
from translate.lint.corpora import (
    Survey,
    cheap_suspects,
    find_leaks,
    shifted_blocks,
    survey_corpus,
    thorough_suspects,
)
from translate.lint.dry_run import Rehearsal, rehearse
from translate.lint.languages import learn_languages
from translate.lint.report import CorpusReport, Lengths, Plan, Report
from translate.lint.sample import take_sample
from translate.lint.settings import Finding, advise, by_severity
from translate.lint.suspicions import Leak, Unit, leak_finding, suspicion
from translate.lint.vocabulary import (
    EncodedPairs,
    encode_sample,
    report_spelling,
    report_vocabularies,
    short_limits,
    spelling_findings,
    vocabulary_findings,
)
from translate.memory import configure_memory
from translate.runs import build_model
from translate.training.auto_batch import resolve_batch_tokens
from translate.training.preparation import (
    Corpora,
    make_batches,
    make_tokenizers,
    read_corpora,
    refuse_long_validation,
)

logger = logging.getLogger(__name__)

MAX_INSPECTED_PAIRS = 50_000
"""Of a larger corpus the slow inspections look at so many, evenly spaced."""
_ESTIMATED_PAIRS = 300  # whose lengths stand for the corpus where nothing is to be encoded for the check alone
_LONG_SAVE_SECONDS = 2 * 3600.0


def check(config: Config, *, watch: Callable[[str], None] = lambda text: None) -> Report:
    """Everything that a training does before its first step, a few steps of it, and a look at the text.

    Nothing is written.

    Args:
        watch: Is told what is being done.

    Raises:
        InputError: What the training would refuse: the message says what and the mend.
    """
    configure_memory()
    device = choose_own_device(config.training.device, SINGLE_PROCESS.environment)
    settle_threads(config.training.threads, SINGLE_PROCESS.environment)
    watch("reading the corpora")
    corpora = read_corpora(config)
    watch("making the tokenizer")
    tokenizers = make_tokenizers(config, corpora.train, lambda text: None)
    watch("encoding")
    batches = make_batches(config, corpora, tokenizers, lambda text: None)
    config, batches, batch_size = resolve_batch_tokens(config, batches, tokenizers=tokenizers, device=device)
    if corpora.validation is not None:
        refuse_long_validation(config, corpora.validation, tokenizers)
    epoch = batches.epoch(0)

    watch("inspecting the text")
    training, held_out = _survey_training(config, corpora), _survey_held_out(config, corpora)
    reports, encoded = _inspect(training, held_out, batches, tokenizers)
    leaks = find_leaks(training, held_out)
    vocabularies = report_vocabularies(encoded, tokenizers, share=_inspected_share(reports))
    findings = _remarks(config, corpora, batch_size=batch_size) + _text_findings(reports, leaks)
    findings += vocabulary_findings(vocabularies, config)
    for survey in held_out:
        findings += short_limits(config, survey, tokenizers)

    watch("trying the longest batch, and the speed")
    rehearsal = None
    try:
        rehearsal = rehearse(config, epoch, tokenizers=tokenizers, validation=corpora.validation, device=device)
    except RunError as error:
        findings.append(Finding("error", "training_fails", str(error), "do as it says, and check again"))
    padding = epoch.padding
    facts = _facts(
        batches,
        tokenizers,
        num_target_tokens=padding.num_target_tokens,
        num_batches=len(epoch),
        num_parameters=(rehearsal or build_model(config, tokenizers)).num_parameters,
    )
    plan = _plan(config, facts, padding.share, rehearsal)
    findings += advise(config) + advise_on_data(config, facts) + _time_findings(config, plan)
    return Report(
        name=config.name,
        findings=tuple(by_severity(findings)),
        corpora=tuple(reports),
        leakage=tuple(leaks),
        lengths=Lengths.of(encoded),
        vocabularies=vocabularies,
        plan=plan,
        rehearsal=rehearsal,
    )


def cheap_findings(
    config: Config, corpora: Corpora, batches: Batches, tokenizers: Tokenizers, *, num_parameters: int
) -> list[Finding]:
    """What can be told for next to nothing, for every training: settings, repetitions, leaks, broken text.

    The corpora are gone through once more, a few microseconds a line; nothing is encoded but some hundred pairs.

    Args:
        num_parameters: Of the model.

    Returns:
        The findings, errors first.
    """
    num_target_tokens, num_batches = _estimate_epoch(config, corpora.train, batches, tokenizers)
    facts = _facts(
        batches,
        tokenizers,
        num_target_tokens=num_target_tokens,
        num_batches=num_batches,
        num_parameters=num_parameters,
    )
    findings = advise(config) + advise_on_data(config, facts)
    training, held_out = _survey_training(config, corpora), _survey_held_out(config, corpora)
    for survey in (*training, *held_out):
        suspects = cheap_suspects(survey) + shifted_blocks(survey)
        findings += [suspicion(survey.key, each) for each in suspects]
    findings += [leak_finding(leak) for leak in find_leaks(training, held_out)]
    return by_severity(findings)


def log_findings(
    config: Config, corpora: Corpora, batches: Batches, tokenizers: Tokenizers, num_parameters: int
) -> None:
    """Log the cheap findings that should make a user think before waiting for the training; notes are only counted."""
    findings = cheap_findings(config, corpora, batches, tokenizers, num_parameters=num_parameters)
    num_notes = sum(finding.severity == "note" for finding in findings)
    for finding in findings:
        if finding.severity != "note":
            logger.warning(finding.summary)
    if num_notes:
        notes, them = ("notes", "them") if num_notes > 1 else ("note", "it")
        logger.info(f"{num_notes} {notes} on data and settings; run `translate check` to see {them}")


def _remarks(config: Config, corpora: Corpora, *, batch_size: str | None) -> list[Finding]:
    """What was looked at, where the config alone does not say it.

    Args:
        batch_size: A message about the number that `batch_tokens: auto` became.
    """
    findings = []
    if batch_size is not None:
        mend = f"training.batch_tokens={config.training.batch_tokens} gives the same on another machine"
        findings.append(Finding("note", "batch_size_found", batch_size, mend))
    if corpora.streams is not None:
        size = config.data.stream_segment_pairs
        message = f"of the streamed corpora only the first segment was looked at (data.stream_segment_pairs = {size})"
        findings.append(Finding("note", "first_segment", message, "raise it, for the check alone, to look at more"))
    return findings


def _text_findings(reports: Sequence[CorpusReport], leaks: Sequence[Leak]) -> list[Finding]:
    findings = [suspicion(report.key, suspects) for report in reports for suspects in report.suspects]
    findings += [leak_finding(leak) for leak in leaks]
    for report in reports:
        findings += spelling_findings(report.key, report.spelling, unit=report.unit)
    return findings


def _survey_training(config: Config, corpora: Corpora) -> list[Survey]:
    return [
        survey_corpus(f"data.train.{index}", corpus, unit=_unit(settings))
        for index, (corpus, settings) in enumerate(zip(corpora.train, config.data.train, strict=True))
    ]


def _survey_held_out(config: Config, corpora: Corpora) -> list[Survey]:
    surveys = []
    if corpora.validation is not None and config.data.validation is not None:
        surveys = [survey_corpus("data.validation", corpora.validation, unit=_unit(config.data.validation))]
    for name, corpus in corpora.test.items():
        surveys.append(survey_corpus(f"data.test.{name}", corpus, unit=_unit(config.data.test[name])))
    return surveys


def _unit(corpus: Corpus) -> Unit:
    return "line" if corpus.kind in {"text", "tsv"} else "row"


def _inspect(
    training: list[Survey], held_out: list[Survey], batches: Batches, tokenizers: Tokenizers
) -> tuple[list[CorpusReport], list[EncodedPairs]]:
    """A report on each corpus, and what was inspected of the training corpora as tokens."""
    filters = [*batches.filter_reports, *([None] * len(held_out))]
    samples = [
        take_sample(survey.corpus.sources, survey.corpus.targets, max_pairs=MAX_INSPECTED_PAIRS)
        for survey in (*training, *held_out)
    ]
    # Which language is which, the largest training corpus says for all.
    largest = max(samples[: len(training)], key=lambda sample: sample.num_pairs)
    languages = learn_languages(largest.sources, largest.targets)
    vocab_size = max(tokenizers.source.vocab_size, tokenizers.target.vocab_size)
    reports, encoded = [], []
    for survey, sample, filtered in zip((*training, *held_out), samples, filters, strict=True):
        ids = encode_sample(sample, tokenizers)
        suspects = cheap_suspects(survey)
        suspects += thorough_suspects(
            survey, sample, *ids, vocab_size=vocab_size, languages=languages, is_own=sample is largest
        )
        reports.append(
            CorpusReport(
                key=survey.key,
                unit=survey.unit,
                name=survey.corpus.name,
                num_pairs=len(survey.corpus.sources),
                num_kept=None if filtered is None else filtered.num_kept,
                left_out={} if filtered is None else _left_out(filtered),
                num_inspected=len(sample.sources),
                suspects=tuple(suspects),
                spelling=report_spelling(sample, ids, tokenizers),
            )
        )
        if filtered is not None:
            encoded.append(ids)
    return reports, encoded


def _left_out(report: FilterReport) -> dict[str, int]:
    """Pairs by the reason for which training leaves them out."""
    return {
        name.removeprefix("num_"): count
        for name, count in report._asdict().items()
        if name.startswith("num_") and name != "num_pairs" and count
    }


def _inspected_share(reports: Sequence[CorpusReport]) -> float:
    training = [report for report in reports if report.num_kept is not None]
    return sum(report.num_inspected for report in training) / sum(report.num_pairs for report in training)


def _facts(
    batches: Batches, tokenizers: Tokenizers, *, num_target_tokens: int, num_batches: int, num_parameters: int
) -> DataFacts:
    num_pairs = sum(report.num_pairs for report in batches.filter_reports)
    return DataFacts(
        num_pairs=num_pairs,
        num_left_out=num_pairs - batches.num_pairs,
        num_target_tokens=num_target_tokens,
        num_batches=num_batches,
        num_parameters=num_parameters,
        target_vocab_size=tokenizers.target.vocab_size,
    )


def _estimate_epoch(
    config: Config, corpora: Sequence[ParallelCorpus], batches: Batches, tokenizers: Tokenizers
) -> tuple[int, int]:
    """About how many target tokens and batches an epoch has, from some pairs of each corpus."""
    num_target_tokens = num_computed = 0.0
    for corpus, report in zip(corpora, batches.filter_reports, strict=True):
        num_pairs = len(corpus.sources)
        lines = np.linspace(0, num_pairs - 1, min(_ESTIMATED_PAIRS, num_pairs)).astype(np.int64).tolist()
        sources = np.array([len(tokenizers.source.encode(corpus.sources[line])) + 1 for line in lines])
        targets = np.array([len(tokenizers.target.encode(corpus.targets[line])) + 1 for line in lines])
        num_seen = report.num_kept * corpus.weight
        num_target_tokens += num_seen * float(targets.mean())
        num_computed += num_seen * float(np.maximum(sources, targets).mean())
    return math.ceil(num_target_tokens), math.ceil(num_computed / config.training.num_batch_tokens)


def _plan(config: Config, facts: DataFacts, padding_share: float, rehearsal: Rehearsal | None) -> Plan:
    training = config.training
    steps_per_epoch = facts.num_steps(config)
    num_steps = training.max_steps
    if training.max_epochs is not None:
        num_steps = min(num_steps, training.max_epochs * steps_per_epoch)
    num_validations = math.ceil(num_steps / training.validate_every) if config.data.validation is not None else 0
    seconds = validation_seconds = None
    if rehearsal is not None:
        validation_seconds = num_validations * (rehearsal.seconds_per_validation or 0.0)
        seconds = num_steps / steps_per_epoch * rehearsal.seconds_per_epoch + validation_seconds
    num_epochs = num_steps / steps_per_epoch
    return Plan(steps_per_epoch, num_steps, num_epochs, num_validations, padding_share, seconds, validation_seconds)


def _time_findings(config: Config, plan: Plan) -> list[Finding]:
    if plan.seconds is None:
        return []
    training = config.training
    between_saves = plan.seconds / plan.num_steps * min(training.save_every, training.validate_every)
    if between_saves <= _LONG_SAVE_SECONDS:
        return []
    message = f"a checkpoint is written every {between_saves / 3600:.1f} hours: so much is lost if the process dies"
    return [Finding("note", "checkpoints_far_apart", message, "lower training.save_every")]
