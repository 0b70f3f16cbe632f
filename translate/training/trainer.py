"""The training loop: make steps; log, save and validate when each is due; stop at the end or on a signal."""

import contextlib
import dataclasses
import logging
import math
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from typing import Any, NamedTuple

from translate.config.schema import TrainingConfig
from translate.data.batching import Batch
from translate.data.epochs import Epoch
from translate.data.prefetch import StepBatches, prefetch_steps
from translate.data.streaming import StreamedBatches
from translate.distributed.process_group import Cancelled, SilentExit
from translate.errors import InputError, RunError
from translate.model.device import OutOfMemory
from translate.runs.progress import Progress
from translate.training.best_checkpoint import BestCheckpoint
from translate.training.optimizer import learning_rate
from translate.training.signals import StoppedBySignal, StopRequests
from translate.training.state import Training, remove_superseded, save_last
from translate.training.tracking.log_window import LogWindow, describe_step
from translate.training.tracking.recorder import Recorder

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_CHECKS = 1.0  # for signals, while training waits for an epoch
_MOST_TIME_FOR_SAVING = 0.05  # the share of the time that may go into checkpoints that are due by time


class Due(NamedTuple):
    """What is due after a step, in this order."""

    log: bool
    save: bool
    validate: bool  # and save then
    stop: bool  # a last validation follows, unless there was one at this step


def due(progress: Progress, settings: TrainingConfig) -> Due:
    """What is due at a point of training by the number of its step, which may also be 0.

    A validation saves when it is done. Step 0 is validated if its weights are another run's.
    """
    step, stop = progress.step, progress.limit_reached(settings) is not None
    is_validated = progress.validated_step == step or (step == 0 and settings.initialize_from is None)
    validate = step % settings.validate_every == 0 and not (is_validated or stop)
    save = step % settings.save_every == 0 and not (validate or stop)
    return Due(log=step % settings.log_every == 0, save=save, validate=validate, stop=stop)


@dataclasses.dataclass(eq=False)
class Trainer:
    """Trains from the current progress to the end."""

    training: Training
    _: dataclasses.KW_ONLY
    recorder: Recorder
    stop: StopRequests

    def __post_init__(self) -> None:
        self.best = BestCheckpoint(self.training, recorder=self.recorder, stop=self.stop)
        self.settings, self.batches = self.training.config.training, self.training.data.batches
        self.train_step, self.progress = self.training.train_step, self.training.progress
        self.train_step.loss_scale = self.progress.loss_scale
        self.window = LogWindow(self.training.config, self.progress)
        # A resumed run begins as its checkpoint is. The weights of step 0 are worth saving if they are another run's.
        is_saved = self.progress.metrics_bytes is not None or self.settings.initialize_from is None
        self._saved = self._moment if is_saved else None
        self._began = self._saved_at = time.monotonic()
        self._logged_at, self._saving_took = -math.inf, 0.0

    def train(self) -> None:
        """Train until the last step, the last epoch, or too many validations without improvement."""
        settings, progress = self.settings, self.progress
        if due(progress, settings).validate:  # another run's weights, or the run was stopped in this validation
            self._validate()
        self._stop_if_asked()
        prefetched = prefetch_steps(
            self.batches.epoch,
            epoch=progress.epoch,
            first=progress.step_in_epoch,
            batches_per_step=settings.accumulate_batches,
            max_steps=0 if due(progress, settings).stop else settings.max_steps - progress.step,
            max_epochs=settings.max_epochs,
            wait_for=self._wait_for,
        )
        with prefetched as groups:
            for batches in self.window.timed(self._steps(groups)):
                self._train_step(batches)
                log, save, validate, stop = due(progress, settings)
                if log:
                    self.recorder.record(self._log_step())
                    self.window.restart()
                elif self._is_line_due and not stop:
                    self._log_step()
                if save:
                    self._save()
                self._stop_if_asked()
                if validate:
                    self._validate()
                    self._stop_if_asked()
        if progress.is_out_of_patience(settings):
            metric = "BLEU" if settings.best_metric == "bleu" else "loss"
            logger.info(f"Stopped early: {progress.validations_without_better} validations without a better {metric}")
        is_validated = progress.validated_step == progress.step  # then a line for the step would come too late
        record = self._log_step(is_shown=not is_validated) if self.window else None
        if is_validated:
            self._save()  # the end of the epoch, if it ended after the validation
        else:
            self._validate()
            self._stop_if_asked()
        if record is not None:  # after the checkpoint, whose open window a resumed run continues
            self.recorder.record(record)
        for finish in (self.best.average_kept, self.best.evaluate):
            with contextlib.suppress(Cancelled):  # by a signal
                finish()
            self._stop_if_asked()

    def _steps(self, groups: Iterable[StepBatches]) -> Iterator[list[Batch]]:
        """Yield the batches of each step until it is time to stop, and count the epochs."""
        progress = self.progress
        for group in groups:
            progress.epoch, progress.step_in_epoch = group.epoch_number, group.number
            self.window.steps_per_epoch = -(-len(group.epoch) // self.settings.accumulate_batches)
            if group.number == 0:
                epoch, padding = group.epoch, group.epoch.padding
                tokens = f"{padding.num_computed:,} tokens, {padding.share:.1%} of them padding"
                logger.info(f"Epoch {progress.epoch + 1:,}: {len(epoch):,} batches, {tokens}")
                if epoch.num_resegmented:
                    logger.info(f"  {epoch.num_resegmented:,} pairs would be too long if sampled, so they are not")
                if epoch.num_changed:
                    logger.info(f"  {epoch.num_changed:,} pairs changed by data.train's augment")
            yield group.batches
            if due(progress, self.settings).stop:
                return
        if not due(progress, self.settings).stop:  # the last epoch is done
            progress.epoch, progress.step_in_epoch = progress.epoch + 1, 0

    def _train_step(self, batches: Sequence[Batch]) -> None:
        """Make one step, count it, and show it on the bar."""
        progress, window, number = self.progress, self.window, self.progress.step + 1
        rate = learning_rate(number, self.settings, d_model=self.train_step.model.config.d_model)
        with self._explain_failure(number):
            result = self.train_step(batches, number=number, learning_rate=rate)
        progress.step = number
        progress.step_in_epoch += 1
        progress.target_tokens += result.tokens
        if self.training.average is not None:
            self.training.average.update(self.train_step.model, step=progress.step)
        window.add(result)

        def describe() -> str:
            loss = float(result.nll) / result.tokens
            return f"loss {loss:.3f}, {window.tokens_per_second:,.0f} tok/s{window.time_left()}"

        self.recorder.advance(describe, num_steps=progress.step + window.steps_left)

    def _log_step(self, *, is_shown: bool = True) -> dict[str, Any]:
        """Log the open window; returns its record for `metrics.jsonl`."""
        progress, time_left = self.progress, self.window.time_left()
        record: dict[str, Any] = {
            "kind": "train",
            "step": progress.step,
            "epoch": progress.epoch + 1,
            **self.window.numbers(),
            "learning_rate": learning_rate(progress.step, self.settings, d_model=self.train_step.model.config.d_model),
            **({"loss_scale": self.train_step.loss_scale.scale} if self.settings.precision == "fp16" else {}),
            "target_tokens": progress.target_tokens,
        }
        if is_shown:
            quality, speed = describe_step(record)
            logger.info(f"{quality}{speed}{time_left}", extra={"dim": f"{speed}{time_left}"})
        self._logged_at = time.monotonic()
        return record

    @property
    def _is_line_due(self) -> bool:
        """Whether a log line is due by time: the first one at once, then at first more often than later."""
        now, seconds = time.monotonic(), 60.0 * (self.settings.log_every_minutes or math.inf)
        due_after = seconds / 10.0 if now - self._began < seconds else seconds
        return now - self._logged_at > due_after and not self.recorder.has_bar

    @property
    def _is_save_due(self) -> bool:
        """Whether a checkpoint is due by time."""
        seconds = 60.0 * (self.settings.save_every_minutes or math.inf)
        return time.monotonic() - self._saved_at > max(seconds, self._saving_took / _MOST_TIME_FOR_SAVING)

    def _validate(self) -> None:
        """Validate and save, in an order in which a killed process loses nothing; a signal ends the scoring."""
        with self._explain_failure(self.progress.step):
            self.train_step.check_last_step()
        if self.progress.metrics_bytes is None:  # nothing is saved yet
            self._save()  # so that a run that has a best checkpoint has a last one
        try:
            seconds = self.best.validate()
        except Cancelled:
            return
        except (InputError, RunError):  # such as too little memory; the validation can be repeated later
            if self.training.world.size == 1:  # with several processes, the others have already ended
                self._save()
            raise
        self.window.end_validation(seconds)
        self.best.write()
        self._save()
        if self.training.world.is_main_process:
            remove_superseded(self.training)

    def _save(self) -> None:
        progress = self.progress
        if self._moment == self._saved:
            return
        with self._explain_failure(progress.step):
            self.train_step.check_last_step()
        if isinstance(self.batches, StreamedBatches):
            progress.stream = self.batches.position(progress.epoch)
        progress.window = self.window.read()
        progress.metrics_bytes, progress.metrics_sha256 = self.recorder.sync()
        started = time.monotonic()
        save_last(self.training)
        self._saved, self._saved_at = self._moment, time.monotonic()
        self._saving_took = self._saved_at - started

    @property
    def _moment(self) -> tuple[int, int, int | None]:
        """The part of the progress that changes with every state that is worth saving."""
        return self.progress.step, self.progress.epoch, self.progress.validated_step

    def _wait_for(self, planned: Future[Epoch]) -> None:
        """Wait until all processes have planned an epoch; a signal ends the wait.

        If a process cannot, all save and end. The others may still wait for its part of the epoch, which never comes.
        """
        world, succeeded = self.training.world, list[bool | None]([None])  # of each process; None: not known yet
        while None in succeeded and False not in succeeded:
            wait([planned], timeout=_SECONDS_BETWEEN_CHECKS)
            self._stop_if_asked()
            succeeded = world.all_gather(planned.exception() is None if planned.done() else None)
        if False in succeeded:
            self._save()
            if succeeded[world.rank] is not False:
                raise SilentExit(1)  # the other process reports its error

    def _stop_if_asked(self) -> None:
        """Stop if any process has received a signal; otherwise save if the first process finds that due by time."""
        world, step = self.training.world, self.progress.step
        nothing, save = -1, 0  # all signals have larger numbers
        asked = save if world.is_main_process and self._is_save_due else nothing
        asked = world.max(self.stop.received or asked)
        if asked == save:
            self._save()
        elif asked != nothing:
            number = signal.Signals(asked)
            logger.info(f"Stopping after step {step:,} ({number.name}); press Ctrl-C again to quit at once")
            self._save()
            raise StoppedBySignal(number, step=step)

    @contextlib.contextmanager
    def _explain_failure(self, step: int) -> Iterator[None]:
        try:
            yield
        except RunError as error:
            world = self.training.world
            if not world.is_main_process and not isinstance(error, OutOfMemory):  # rank 0 reports it too
                raise SilentExit(1) from error
            message = str(error)  # names the step unless memory ran out
            if isinstance(error, OutOfMemory):
                hint = "With other settings it is a new run; with more free memory, --resume continues this one."
                message = f"step {step}: {error} {hint}"
            kept = f"Checkpoints written so far are kept in {self.training.run.checkpoints}."
            raise RunError(f"{message} {kept}") from error
