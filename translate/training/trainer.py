"""The training loop: make steps; log, save and validate when each is due; stop at the end or on a signal."""

import contextlib
import dataclasses
import logging
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

from torch import Tensor, nn
from torch.profiler import record_function

from translate.config.decoding import DecodingConfig
from translate.config.schema import Config
from translate.data.batching import Batch
from translate.data.corpora import ParallelCorpus
from translate.data.prefetch import StepBatches, prefetch_steps
from translate.data.streaming import Batches, StreamedBatches
from translate.data.tokenizer import Tokenizers
from translate.distributed.process_group import SINGLE_PROCESS, Cancelled, World
from translate.errors import RunError
from translate.evaluation.evaluate import spread_samples
from translate.model import Transformer
from translate.model.device import OutOfMemory
from translate.runs.directory import RunDirectory
from translate.runs.loading import build_model, describe_moment
from translate.runs.progress import Progress
from translate.training.averaging import ScoredAverage, choose_average, kept_windows, load_average, write_average
from translate.training.optimizer import AveragedWeights, learning_rate
from translate.training.precision import LossScale
from translate.training.state import decoding_weights, remove_superseded, save_last, save_weights
from translate.training.step import TrainStep
from translate.training.tracking.log_window import LogWindow, describe_step
from translate.training.tracking.profile import VALIDATION_AND_SAVING, WAITING_FOR_DATA, profile_steps
from translate.training.tracking.recorder import Recorder
from translate.training.tracking.throughput import Throughput, describe_seconds
from translate.training.tracking.trackers import Trackers
from translate.training.validation import Validation, computing_with, describe_validation, validate, validation_search

logger = logging.getLogger(__name__)

_NOTABLE_WAITING = 0.1  # a share of the time
_STOPPING_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")  # the last when a terminal is closed; Windows has none


class StoppedBySignal(KeyboardInterrupt):
    """Raised when a training ends early because of a signal; it is saved and can be continued."""

    def __init__(self, number: signal.Signals, *, step: int) -> None:
        super().__init__(f"stopped by {number.name} after step {step}")
        self.step = step
        self.exit_code = 128 + number  # as in shells: 130, 143 or 129


class Paused(Exception):
    """Raised when a training ends early because its caller wanted it to; it is saved and can be continued."""


class StopRequests:
    """Notes the first signal that asks a training to stop, so that a step or a file is never left half done.

    From then on SIGINT has the operating system's own meaning: the process ends at once.
    """

    received: signal.Signals | None = None

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """A context in which signals are noted; outside of the main thread Python cannot, and it does nothing."""
        numbers = []
        if threading.current_thread() is threading.main_thread():
            # A signal that is ignored, as by `nohup`, or that has a handler outside of Python, stays as it is.
            received = [getattr(signal, name) for name in _STOPPING_SIGNALS if hasattr(signal, name)]
            numbers = [number for number in received if signal.getsignal(number) not in (None, signal.SIG_IGN)]
        before = {number: signal.signal(number, self._receive) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def abandoning(self, module: nn.Module) -> Iterator[None]:
        """A context in which a noted signal ends all work that calls the module, in each thread that does so.

        An exception raised by a signal's handler itself could strike where a thread pool or a lock is half changed.

        Raises:
            Cancelled: A signal was noted.
        """

        def check(module: nn.Module, inputs: object) -> None:
            if self.received is not None:
                raise Cancelled

        with module.register_forward_pre_hook(check):
            yield

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if signal.getsignal(signal.SIGINT) == self._receive:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        if self.received is None:
            self.received = signal.Signals(number)


@dataclasses.dataclass(eq=False, kw_only=True)
class Trainer:
    """Trains from where `progress` stands to the end."""

    config: Config
    train_step: TrainStep  # has the model and the optimizer
    run: RunDirectory
    tokenizers: Tokenizers
    batches: Batches
    validation: ParallelCorpus | None  # chooses the best checkpoint; without one the last checkpoint is the best
    validation_also: Mapping[str, ParallelCorpus]  # by name; their scores are recorded, and choose nothing
    average: AveragedWeights | None  # is validated and saved as best; None: the weights themselves are
    progress: Progress
    profiles: bool = False  # write a profile of some steps into the run
    pause: Callable[[Progress], bool] | None = None  # whether to pause there; all processes must agree
    world: World = SINGLE_PROCESS

    def __post_init__(self) -> None:
        self.settings, self.model = self.config.training, self.train_step.model
        self.throughput = Throughput(self.settings, self.progress)
        self.stop = StopRequests()
        self.train_step.loss_scale = LossScale(**vars(self.progress.loss_scale))
        self.window = LogWindow(self.progress.window)
        self._has_reported_waiting = False
        self._averaged: tuple[int, ...] = ()  # the steps of the checkpoints whose average is the best checkpoint
        self._saved_step = self.progress.step  # of the checkpoint that this goes on from; step 0 needs no saving

    def train(self) -> None:
        """Train until the last step, the last epoch, or too many validations without a better one.

        Raises:
            InputError: A tracker cannot start.
            StoppedBySignal: SIGINT, SIGTERM or SIGHUP came, and the training is saved.
            Paused: `pause` said so before the end, and the training is saved.
            RunError: The loss or a gradient is not finite, memory is out, or a file cannot be written.
        """

        def begin() -> Recorder:
            is_main = self.world.is_main_process
            trackers = Trackers(self.run, self.config, step=self.progress.step) if is_main else None
            return Recorder(self.run, self.settings, self.progress, trackers=trackers, is_silent=not is_main)

        self.recorder = self.world.run_on_all_ranks(begin)
        with self.recorder, self.stop.listening():
            self._train()

    def _train(self) -> None:
        settings, progress = self.settings, self.progress
        if self._owes_validation():  # of another run's weights, or the run was stopped before the validation was done
            self._validate()
        self._stop_if_asked()
        prefetched = prefetch_steps(
            self.batches.epoch,
            epoch=progress.epoch,
            first=progress.step_in_epoch,
            batches_per_step=settings.accumulate_batches,
            max_steps=0 if self._is_over() else settings.max_steps - progress.step,
            max_epochs=settings.max_epochs,
        )
        with prefetched as groups:
            steps = self.throughput.timed(self._steps(groups))
            if self.profiles:
                device, directory = self.train_step.precision.device, self.run.profile
                steps = profile_steps(steps, directory, device=device, after_step=progress.step)
            for batches in steps:
                self._train_step(batches)
                if progress.step % settings.log_every == 0:
                    self.recorder.record(self._log_step())
                    self.window = LogWindow()
                # A validation, which also follows the last step, saves when it is done.
                if progress.step % settings.save_every == 0 and not (self._owes_validation() or self._is_over()):
                    self._save()
                self._stop_if_asked()
                if self._owes_validation() and not self._is_over():
                    self._validate()
                    self._stop_if_asked()
        if self._is_out_of_patience():
            metric = {"bleu": "BLEU", "loss": "loss"}[settings.best_metric]
            logger.info(f"Stopped early: {progress.validations_without_better} validations without a better {metric}")
        is_validated = progress.validated_step == progress.step  # then its step gets no line after the validation's
        record = self._log_step(is_shown=not is_validated) if self.window else None
        if not is_validated:
            self._validate()
            self._stop_if_asked()
        if record is not None:  # after the checkpoint, whose open window a continued run fills up
            self.recorder.record(record)
        self._average_kept()
        self._stop_if_asked()
        self._evaluate_best()
        self._stop_if_asked()

    def _owes_validation(self) -> bool:
        step, is_fine_tuning = self.progress.step, self.settings.initialize_from is not None
        is_due = step % self.settings.validate_every == 0 and (step > 0 or is_fine_tuning)
        return is_due and self.progress.validated_step != step

    def _stop_if_asked(self) -> None:
        step = self.progress.step
        if received := self.world.max(self.stop.received or 0):  # by any of the processes
            number = signal.Signals(received)
            logger.info(f"Stopping after step {step:,} ({number.name}); press Ctrl-C again to quit at once")
            self._save_new()
            raise StoppedBySignal(number, step=step)
        if self.pause is not None and not (self._owes_validation() or self._is_over()) and self.pause(self.progress):
            logger.info(f"Pausing after step {step:,}")
            self._save_new()
            raise Paused

    def _steps(self, groups: Iterable[StepBatches]) -> Iterator[list[Batch]]:
        """Yield the batches of each step until it is time to stop, and count the epochs."""
        progress = self.progress
        for group in groups:
            progress.epoch, progress.step_in_epoch = group.epoch_number, group.number
            self.throughput.steps_per_epoch = -(-len(group.epoch) // self.settings.accumulate_batches)
            if group.number == 0:
                epoch, padding = group.epoch, group.epoch.padding
                tokens = f"{padding.num_computed:,} tokens, {padding.share:.1%} of them padding"
                logger.info(f"Epoch {progress.epoch + 1:,}: {len(epoch):,} batches, {tokens}")
                if epoch.num_resegmented:
                    logger.info(f"  {epoch.num_resegmented:,} pairs were too long as sampled, and are not sampled")
                if epoch.num_changed:
                    logger.info(f"  {epoch.num_changed:,} pairs changed as data.train's augment says")
            yield group.batches
            if self._is_over():
                return
        if not self._is_over():  # the last epoch is done
            progress.epoch, progress.step_in_epoch = progress.epoch + 1, 0

    def _is_over(self) -> bool:
        settings, progress = self.settings, self.progress
        is_past_epochs = settings.max_epochs is not None and progress.epoch >= settings.max_epochs
        return progress.step >= settings.max_steps or is_past_epochs or self._is_out_of_patience()

    def _is_out_of_patience(self) -> bool:
        patience = self.settings.patience
        return patience is not None and self.progress.validations_without_better >= patience

    def _train_step(self, batches: Sequence[Batch]) -> None:
        """Make one step, count it, and show it on the bar."""
        progress, throughput = self.progress, self.throughput

        def describe() -> str:
            loss, (tokens_per_second, _) = float(result.nll) / result.tokens, throughput.speed()
            return f"loss {loss:.3f}, {tokens_per_second:,.0f} tok/s{throughput.time_left()}"

        number = progress.step + 1
        rate = learning_rate(number, self.settings, d_model=self.config.model.d_model)
        with self._explain_failure(number):
            result = self.train_step(batches, number=number, learning_rate=rate)
        progress.step = number
        progress.step_in_epoch += 1
        progress.target_tokens += result.tokens
        if self.average is not None:
            self.average.update(self.model, step=progress.step)
        self.window.add(result)
        self.recorder.advance(describe, num_steps=progress.step + throughput.steps_left)

    @contextlib.contextmanager
    def _explain_failure(self, step: int) -> Iterator[None]:
        try:
            yield
        except RunError as error:
            if not self.world.is_main_process and not isinstance(error, OutOfMemory):  # rank 0 has it too
                self.world.exit(1)
            hint = "With other settings it is a new run; with more free memory this one goes on by --resume. "
            raise RunError(
                f"step {step}: {error} {hint if isinstance(error, OutOfMemory) else ''}"
                f"Checkpoints written so far are kept in {self.run.checkpoints}."
            ) from error

    def _log_step(self, *, is_shown: bool = True) -> dict[str, Any]:
        """Log the means of the open log window and its speed, and begin to measure that of the next one.

        Returns:
            The record of the window, to be kept.
        """
        progress, throughput = self.progress, self.throughput
        (tokens_per_second, waiting), time_left = throughput.speed(), throughput.time_left()
        throughput.begin_window()
        record = {
            "kind": "train",
            "step": progress.step,
            "epoch": progress.epoch + 1,
            **self.window.numbers(),
            "learning_rate": learning_rate(progress.step, self.settings, d_model=self.config.model.d_model),
            **({"loss_scale": self.train_step.loss_scale.scale} if self.settings.precision == "fp16" else {}),
            "target_tokens": progress.target_tokens,
            "target_tokens_per_second": round(tokens_per_second, 1),
            "waiting": round(waiting, 4),
        }
        if is_shown:
            quality, speed = describe_step(record)
            logger.info(f"{quality}{speed}{time_left}", extra={"dim": f"{speed}{time_left}"})
        if waiting >= _NOTABLE_WAITING and not self._has_reported_waiting:
            self._has_reported_waiting = True
            logger.info(f"{waiting:.0%} of the time of the last steps was spent {WAITING_FOR_DATA}")
        return record

    @record_function(VALIDATION_AND_SAVING)
    def _validate(self) -> None:
        """Score the weights, keep them if they are the best, and save; a signal ends this without a result."""
        progress, average = self.progress, self.average
        weights = decoding_weights(self.model, average)
        keeps = {"last": self.settings.keep_last, "best": self.settings.keep_best}
        if self.validation is None:
            progress.best_step = progress.validated_step = progress.step
            progress.keep(None, **keeps)
            self._save_validated(weights, is_best=True)
            return
        try:
            with computing_with(self.model, weights, self.config, self.tokenizers) as model:
                search = validation_search(self.config)
                result = self._score(model, self.validation, search)
                others = {name: self._score(model, corpus, search) for name, corpus in self.validation_also.items()}
        except Cancelled:
            return
        except RunError:  # such as too little memory; the validation can be done later
            if self.world.size == 1:  # of several processes the others are at their end already
                self._save_new()
            raise
        progress.validated_step = progress.step
        self.throughput.end_validation(sum(each.seconds for each in (result, *others.values())))
        score = result.score(self.settings.best_metric)
        is_best = progress.best_score is None or score > progress.best_score
        if is_best:
            progress.best_step, progress.best_score, progress.validations_without_better = progress.step, score, 0
        else:
            progress.validations_without_better += 1
        progress.keep(score, **keeps)
        self._log_validation(result, self.validation.targets, others, is_best=is_best)
        self._save_validated(weights, is_best=is_best)

    def _save_validated(self, weights: dict[str, Tensor], *, is_best: bool) -> None:
        """Save after a validation, in an order in which a process that is killed loses nothing."""
        save_weights(self.run, weights, self.progress, is_best=is_best, world=self.world)
        self._save()
        remove_superseded(self.run, self.progress, world=self.world)

    def _score(self, model: Transformer, corpus: ParallelCorpus, search: DecodingConfig) -> Validation:
        """The model's loss and scores; raises `Cancelled` when a signal comes."""
        world, every_position = self.world, model.decoder.final_norm  # with a cache or without
        num_lines = 2 * len(corpus.sources[world.rank :: world.size])  # scored, then translated
        with self.recorder.validating(num_lines) as advance, self.stop.abandoning(every_position):
            return validate(
                model, self.tokenizers, corpus, self.config, search=search, world=world, on_finished=advance
            )

    @record_function(VALIDATION_AND_SAVING)
    def _average_kept(self) -> None:
        """Make an average of kept checkpoints the best one, if it is better; a signal ends this without a result.

        A continued training undoes it, and averages in the end again.
        """
        settings, progress, corpus = self.settings, self.progress, self.validation
        windows = kept_windows(progress, last=settings.keep_last, best=settings.keep_best)
        if not settings.average_kept or corpus is None or progress.best_step is None or not windows:
            return

        def show(tried: ScoredAverage) -> None:
            record = tried.to_record(step=progress.step)
            self.recorder.record(record)
            logger.info("".join(describe_validation(record, name=tried.name)))

        logger.info("The best checkpoint, and averages of kept ones, on validation:")
        model = build_model(self.config, self.tokenizers, device=self.model.device)
        try:
            chosen = choose_average(
                self.run,
                windows,
                model,
                score=lambda model: self._score(model, corpus, validation_search(self.config)),
                metric=settings.best_metric,
                on_tried=show,
                world=self.world,
            )
        except Cancelled:
            return
        if len(chosen.checkpoints) > 1:
            self.world.run_on_rank_0(lambda: write_average(self.run, chosen.checkpoints, model))
            self._averaged = chosen.steps

    @property
    def best(self) -> str:
        """Of which step or steps the best checkpoint is; empty: there is none."""
        step = self.progress.best_step
        return "" if step is None else describe_moment(step, self._averaged)

    @record_function(VALIDATION_AND_SAVING)
    def _evaluate_best(self) -> None:
        """Score the best checkpoint with the settings of `decoding`, unless all validations had them.

        The record comes after the last checkpoint: a continued training cuts it off, and writes its own in the end.
        """
        search, progress = self.config.decoding_settings(), self.progress
        if self.validation is None or progress.best_step is None or search == validation_search(self.config):
            return
        model = build_model(self.config, self.tokenizers, device=self.model.device)
        load_average(self.run, ["best"], model, world=self.world)
        try:
            record = self._score(model, self.validation, search).to_record("evaluation", step=progress.step)
        except Cancelled:
            return
        of_what = {"averaged": self._averaged} if self._averaged else {"best_step": progress.best_step}
        self.recorder.record({**record, **of_what})
        how = f"beam {search.beam_size}" if search.search == "beam" else "sampled"
        scores = f"BLEU {record['BLEU']:.2f}, chrF {record['chrF']:.2f}"
        text = f"Best checkpoint ({self.best}), {how}: {scores}"
        logger.info(f"{text}, {describe_seconds(record['seconds'])}", extra={"bold": text})

    def _log_validation(
        self, result: Validation, references: Sequence[str], others: Mapping[str, Validation], *, is_best: bool
    ) -> None:
        """Record the results of a validation, and log some of its translations, evenly spaced."""
        record, translations = result.to_record("validation", step=self.progress.step), result.evaluation.translations
        self.recorder.record(record)
        scores, rest = describe_validation(record, is_best=is_best)
        logger.info(f"{scores}{rest}", extra={"bold": scores})
        for name, other in others.items():
            self.recorder.record(of_other := other.to_record(f"validation/{name}", step=self.progress.step))
            logger.info("".join(describe_validation(of_other, name=name)))
        if num_cut := record["num_truncated"]:
            logger.info(f"  {num_cut:,} of {len(translations):,} translations were cut at their maximum length")
        for index in spread_samples(len(translations), self.settings.sample_translations):
            source, reference, translation = translations[index].source, references[index], translations[index].text
            logger.info(f"  source:      {source}\n  reference:   {reference}\n  translation: {translation}")

    def _save_new(self) -> None:
        """Save, unless the state after this step is saved already."""
        if self._saved_step != self.progress.step:
            self._save()

    @record_function(VALIDATION_AND_SAVING)
    def _save(self) -> None:
        with self._explain_failure(self.progress.step):
            self.train_step.check_last_step()
        if isinstance(self.batches, StreamedBatches):
            self.progress.stream = self.batches.position(self.progress.epoch)
        self.progress.window, self.progress.loss_scale = self.window.read(), self.train_step.loss_scale
        self.progress.metrics_bytes, self.progress.metrics_sha256 = self.recorder.sync()
        save_last(self.run, self.train_step, self.average, self.progress, world=self.world)
        self._saved_step = self.progress.step
