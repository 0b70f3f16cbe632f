"""Checks before a long run: what `translate check` reports and, without its dry run, `translate train` too."""

import logging
import math
import time
from itertools import chain, zip_longest
from typing import NamedTuple

import torch

from translate.bars import show_progress
from translate.config.data import Direction, without_reverse
from translate.config.languages import UNKNOWN
from translate.config.schema import Config
from translate.data.cache import DataCache
from translate.data.epochs import Epoch
from translate.decoding.counterparts import find_lacking
from translate.distributed.process_group import SINGLE_PROCESS
from translate.errors import InputError, RunError
from translate.lint import vocabulary
from translate.lint.corpora import find_leaks, find_suspects, survey_corpus, take_sample
from translate.lint.dry_run import DryRun, dry_run
from translate.lint.findings import LABEL_WIDTH, Finding, by_severity, count_findings
from translate.lint.languages import find_wrong_sides, learn_known
from translate.lint.settings import DataFacts, settings_findings
from translate.lint.vocabulary import Lengths, VocabularyReport
from translate.memory import configure_memory
from translate.runs.initial import read_initial_weights
from translate.runs.run import open_run
from translate.runs.weights import count_weights
from translate.training.preparation import DirectionCount, TrainingData, count_directions, prepare_data
from translate.training.setup import choose_place

logger = logging.getLogger(__name__)

MAX_INSPECTED_PAIRS = 50_000
"""The number of evenly spaced pairs of a larger corpus that the slow inspections examine."""


FINAL_VALIDATIONS = 3.0
"""The validations that take as long as the evaluation at the end, whose beam is usually 4 or 5: docs/performance.md."""


class CorpusReport(NamedTuple):
    """The size of a corpus."""

    key: str  # in the config
    name: str
    num_pairs: int
    num_kept: int | None  # by the filter of training; None: not filtered
    left_out: dict[str, int]  # number of pairs by reason
    num_inspected: int  # by the slow inspections


class TrainingPlan(NamedTuple):
    """The training plan, and how long training will take."""

    steps_per_epoch: int
    num_steps: int
    num_epochs: float
    num_validations: int
    padding_share: float  # of all tokens computed in an epoch
    seconds: float | None  # with validations; None: nothing was measured
    validation_seconds: float | None  # the part of `seconds` for validations
    directions: list[DirectionCount]  # how often their pairs are seen, if there are several


class Report(NamedTuple):
    """Everything that `translate check` found."""

    name: str
    findings: tuple[Finding, ...]  # errors first
    corpora: tuple[CorpusReport, ...]
    lengths: tuple[Lengths, ...]  # of both sides
    vocabularies: tuple[VocabularyReport, ...]
    plan: TrainingPlan
    dry_run: DryRun | None  # None: it failed, and a finding says why
    marian_lacks: list[str]  # what a MarianMT model would need

    def count(self, severity: str) -> int:
        """The number of findings of one severity."""
        return sum(finding.severity == severity for finding in self.findings)


Inspection = tuple[list[Finding], list[CorpusReport], tuple[Lengths, ...], list[VocabularyReport]]
"""The findings in all corpora, a report on each, and the lengths and vocabularies of the training text."""


def check(
    config: Config,
    *,
    max_seconds: float = 10.0,
    cache: DataCache | None = None,
    inspected: list[Inspection] | None = None,
    tries_longest: bool = True,
) -> Report:
    """Prepare a training run, try some of its steps, and inspect the text.

    Args:
        max_seconds: The time for measuring the speed of steps.
        cache: See `prepare_data`; None: nothing is written.
        inspected: Gets the inspection of the text, or has that of a call with another model.
        tries_longest: Whether to measure the memory of the longest batch too.

    Raises:
        InputError: Training would refuse the config or the data, with the same message.
    """
    configure_memory()
    device = choose_place(config, SINGLE_PROCESS)
    initial = read_initial_weights(config)
    data = prepare_data(config, device=device, cache=cache)
    config, epoch = data.config, data.batches.epoch(0)
    inspections = [] if inspected is None else inspected
    with show_progress("Inspecting the text"):
        inspections += [] if inspections else [_inspect_text(data)]
    findings, corpora, lengths, vocabularies = [*inspections[0][0]], *inspections[0][1:]
    if data.batch_size is not None:
        hint = f"set training.batch_tokens={config.training.batch_tokens} for the same on another machine"
        findings.append(Finding("note", "batch_size_found", data.batch_size, hint))

    measured = None
    try:
        with show_progress("Trying the longest batch, and the speed"):
            measured = dry_run(
                data, epoch, device=device, initial=initial, max_seconds=max_seconds, tries_longest=tries_longest
            )
    except RunError as error:
        findings.append(Finding("error", "training_fails", str(error), "fix this, and check again"))
    num_parameters = measured.num_trained_parameters if measured else count_weights(config.model, data.tokenizers)
    facts = _data_facts(data, epoch, num_parameters)
    plan = _plan(data, facts.num_steps(config), epoch.padding.share, measured)
    findings += settings_findings(config, facts)
    found = config.name, tuple(by_severity(findings)), tuple(corpora), lengths, tuple(vocabularies)
    return Report(*found, plan, measured, find_lacking(config.model, "marian_mt"))


def log_findings(data: TrainingData, num_parameters: int, *, ignore_errors: bool = False) -> list[Finding]:
    """Return what `check` finds without a dry run, errors first; log errors and warnings, and the number of notes.

    Raises:
        InputError: There are errors, and they are not ignored.
    """
    started = time.perf_counter()
    with show_progress("Inspecting the text"):
        findings, *_ = _inspect_text(data)
    facts = _data_facts(data, data.batches.epoch(0, is_changed=False), num_parameters)
    findings = by_severity([*findings, *settings_findings(data.config, facts)])
    seconds = time.perf_counter() - started
    shown = [finding for finding in findings if finding.severity != "note"]
    notes = "" if shown == findings else "; `translate check` with the same config shows the notes"
    logger.info(f"Data and settings checked in {seconds:.1f} s; findings: {count_findings(findings)}{notes}")
    for finding in shown:
        text, level = finding.draw(), logging.ERROR if finding.severity == "error" else logging.WARNING
        logger.log(level, text, extra={"bold": text[:LABEL_WIDTH]})
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors and not ignore_errors:
        option = "start anyway with --ignore-errors (Python: ignore_errors=True)"
        raise InputError(f"Not ready: fix {count_findings(errors)} first, or {option}")
    return findings


def _inspect_text(data: TrainingData) -> Inspection:
    config, tokenizers, num_threads = data.config, data.tokenizers, torch.get_num_threads()
    train, others = config.data.corpora("train"), config.data.corpora()
    training = [*map(survey_corpus, train, data.corpora.train, train.values())]
    held_out = [*map(survey_corpus, others, data.corpora.held_out.values(), others.values())]
    surveys = [*training, *held_out]
    samples = [take_sample(survey.corpus, max_pairs=MAX_INSPECTED_PAIRS) for survey in surveys]
    all_ids = [
        [
            side.encode_lines(lines, num_threads=num_threads)
            for side, lines in zip(tokenizers[:2], sample[1:], strict=True)
        ]
        for sample in samples
    ]
    directions = [survey.corpus.direction or Direction(UNKNOWN, UNKNOWN) for survey in surveys]
    by_size = sorted(zip(training, directions, samples, strict=False), key=lambda item: -len(item[0].corpus.sources))
    known = learn_known({survey.key: (direction, *sample[1:]) for survey, direction, sample in by_size})
    vocab_size = max(tokenizers.source.vocab_size, tokenizers.target.vocab_size)
    forward = without_reverse(train).keys() | without_reverse(others).keys()
    findings, reports = list[Finding](), list[CorpusReport]()
    inspected = zip_longest(surveys, directions, samples, all_ids, data.batches.filter_reports)
    for survey, direction, sample, ids, filtered in inspected:
        if survey.key in forward:  # a reverse has the same faults
            suspects = find_suspects(survey, sample, *ids, vocab_size=vocab_size, known=known)
            findings += [kind.finding(survey.key) for kind in suspects]
            findings += find_wrong_sides(survey.key, direction, sample[1:], languages={*chain(*directions)})
        findings += vocabulary.spelling_findings(config, survey, sample, ids, tokenizers)
        if filtered is not None:  # it is a training corpus
            findings += vocabulary.normalization_findings(config, survey, sample, tokenizers.target)
        else:
            findings += vocabulary.bleu_findings(config, survey)
        left_out = {reason: count for reason, count in (filtered.left_out if filtered else {}).items() if count}
        num_pairs, num_kept = len(survey.corpus.sources), filtered and filtered.num_kept
        corpus = survey.key, survey.corpus.name, num_pairs, num_kept, left_out, len(sample.sources)
        reports.append(CorpusReport(*corpus))
    findings += find_leaks(training, held_out)
    if data.corpora.streams is not None:
        size = config.data.stream_segment_pairs
        message = f"only the first segment of the streamed corpora was checked (data.stream_segment_pairs = {size})"
        findings.append(Finding("note", "first_segment", message, "raise it, only for the check, to check more"))
    of_training = slice(len(training))
    ids = [[*chain(*side)] for side in zip(*all_ids[of_training], strict=True)]
    text = [[*chain(*side)] for side in zip(*(sample[1:] for sample in samples[of_training]), strict=True)]
    share = len(ids[0]) / sum(report.num_pairs for report in reports[of_training])
    vocabularies = vocabulary.examine_vocabularies(tokenizers, ids, text, share=share)
    if config.training.initialize_from is None:
        findings += vocabulary.vocabulary_findings(vocabularies, config)
    lengths = tuple(map(vocabulary.measure_lengths, ("source", "target"), ids))
    return findings, reports, lengths, vocabularies


def _data_facts(data: TrainingData, epoch: Epoch, num_parameters: int) -> DataFacts:
    num_pairs = sum(report.num_pairs for report in data.batches.filter_reports)
    base, sides = data.config.training.initialize_from, data.tokenizers[:2]
    before = sides if base is None else open_run(base).tokenizers[:2]
    is_extended = any(new.vocab_size > old.vocab_size for new, old in zip(sides, before, strict=True))
    sizes = epoch.padding.num_target_tokens, len(epoch), num_parameters, is_extended
    return DataFacts(num_pairs, num_pairs - sum(report.num_kept for report in data.batches.filter_reports), *sizes)


def _plan(data: TrainingData, steps_per_epoch: int, padding_share: float, measured: DryRun | None) -> TrainingPlan:
    config, training, reports = data.config, data.config.training, data.batches.filter_reports
    num_steps = min(training.max_steps, (training.max_epochs or math.inf) * steps_per_epoch)
    num_epochs = num_steps / steps_per_epoch
    num_validations = 0 if config.data.validation is None else math.ceil(num_steps / training.validate_every)
    num_validations += num_validations > 0 and training.initialize_from is not None  # of step 0
    seconds = validation_seconds = None
    if measured is not None:
        validation_seconds = num_validations * (measured.seconds_per_validation or 0.0)
        last = config.evaluates_at_end * FINAL_VALIDATIONS * (measured.seconds_per_validation or 0.0)
        seconds = num_epochs * measured.seconds_per_epoch + validation_seconds + last
    numbers = steps_per_epoch, int(num_steps), num_epochs, num_validations
    directions = count_directions(config.data, data.corpora.train, reports, num_epochs=num_epochs)
    return TrainingPlan(*numbers, padding_share, seconds, validation_seconds, directions)
