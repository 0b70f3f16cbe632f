"""The training loop: forward, backward, step; log, save and validate at their times; stop when it is time."""

import contextlib
import time
from collections.abc import Iterator, Sequence

import torch

from translate.config import Config
from translate.data.batching import Batch
from translate.data.corpora import ParallelCorpus
from translate.data.epochs import Epoch, TrainingBatches
from translate.data.tokenizer import Tokenizers
from translate.decoding import count_conditions
from translate.errors import RunError
from translate.evaluation import spread_samples
from translate.model import Transformer
from translate.model.device import choose_precision
from translate.model.out_of_memory import OutOfMemory
from translate.run import RunDirectory, get_parameters
from translate.training.average import AveragedWeights
from translate.training.checkpoints import save_best, save_last
from translate.training.progress import LogWindow, Progress, StepResult
from translate.training.randomness import random_states, set_random_states
from translate.training.schedule import learning_rate
from translate.training.signals import Abandoned, StoppedBySignal, StopRequests
from translate.training.steady_memory import give_back_now_and_then
from translate.training.step import train_step
from translate.training.tracking import Tracker
from translate.training.validation import Validation, validate


class Trainer:
    """One training, from where `progress` stands to its end.

    Args:
        model: On its device, in training mode.
        average: Follows the weights, and is what is validated and saved as best; None: the weights themselves.
        validation: The corpus that chooses the best checkpoint; None: the last one is the best.
    """

    def __init__(
        self,
        config: Config,
        *,
        run: RunDirectory,
        model: Transformer,
        tokenizers: Tokenizers,
        optimizer: torch.optim.Optimizer,
        average: AveragedWeights | None,
        batches: TrainingBatches,
        validation: ParallelCorpus | None,
        progress: Progress,
        tracker: Tracker,
    ) -> None:
        self.config = config
        self.settings = config.training
        self.run = run
        self.model = model
        self.tokenizers = tokenizers
        self.optimizer = optimizer
        self.average = average
        self.batches = batches
        self.validation = validation
        self.progress = progress
        self.tracker = tracker
        self.stop = StopRequests()
        self._saved_step = progress.step  # of the checkpoint that it goes on from; there is nothing to save of step 0
        self.is_bf16 = choose_precision(self.settings.precision, model.device) == "bf16"

    def train(self) -> None:
        """Go on until the last step, the last epoch, or too many validations without a better one.

        Raises:
            StoppedBySignal: SIGINT or SIGTERM came; all is saved.
            RunError: The loss or a gradient is not finite, memory is out, or a file cannot be written.
        """
        with self.stop.heard():
            self._train()

    def _train(self) -> None:
        settings, progress = self.settings, self.progress
        self._logged_at, self._logged_tokens = time.perf_counter(), progress.target_tokens
        if self._owes_validation():  # the run was stopped just before it, or in its midst
            self._validate()
            self._stop_if_asked()
        for group in self._steps():
            result = self._train_step(group)
            progress.window.add(result)
            self.tracker.advance(loss=result.loss, tokens_per_second=self._tokens_per_second())
            give_back_now_and_then(after_step=progress.step)
            if progress.step % settings.log_every == 0:
                self._log()
                progress.window = LogWindow()
            if progress.step % settings.save_every == 0:
                self._save()
            self._stop_if_asked()
            if self._owes_validation():
                self._validate()
                self._stop_if_asked()
        if settings.patience is not None and progress.validations_without_better >= settings.patience:
            better = f"validations without a better {settings.best_metric}"
            self.tracker.say(f"stopped early: {progress.validations_without_better} {better}")
        if progress.validated_step != progress.step:
            self._validate()
            self._stop_if_asked()
        if progress.window.steps:
            self._log()  # after the checkpoint, which has the open window: a run that goes further goes on with it

    def _owes_validation(self) -> bool:
        progress = self.progress
        is_due = progress.step > 0 and progress.step % self.settings.validate_every == 0
        return is_due and progress.validated_step != progress.step

    def _stop_if_asked(self) -> None:
        if self.stop.received is not None:
            self.tracker.say(
                f"{self.stop.received.name}: stopping after step {self.progress.step}; Ctrl-C leaves at once"
            )
            self._save_new()
            raise StoppedBySignal(self.stop.received, step=self.progress.step)

    def _steps(self) -> Iterator[list[Batch]]:
        """The batches of each optimizer step to do, epoch after epoch, until it is time to stop."""
        progress, size = self.progress, self.settings.accumulate_batches
        while not self._is_over():
            epoch = self._plan_epoch()
            for first in range(progress.step_in_epoch * size, len(epoch), size):
                yield [epoch[number] for number in range(first, min(first + size, len(epoch)))]
                if self._is_over():
                    return
            progress.epoch, progress.step_in_epoch = progress.epoch + 1, 0

    def _plan_epoch(self) -> Epoch:
        epoch = self.batches.epoch(self.progress.epoch)
        if self.progress.step_in_epoch == 0:
            padding = epoch.padding
            self.tracker.say(
                f"epoch {self.progress.epoch + 1}: {len(epoch)} batches, {padding.num_padding} of"
                f" {padding.num_computed} tokens are padding ({padding.share:.1%})"
                + (f", {epoch.num_resegmented} pairs over-long as sampled" if epoch.num_resegmented else "")
            )
        return epoch

    def _is_over(self) -> bool:
        settings, progress = self.settings, self.progress
        return (
            progress.step >= settings.max_steps
            or (settings.max_epochs is not None and progress.epoch >= settings.max_epochs)
            or (settings.patience is not None and progress.validations_without_better >= settings.patience)
        )

    def _train_step(self, group: Sequence[Batch]) -> StepResult:
        """One optimizer step, and the counters after it."""
        progress = self.progress
        number = progress.step + 1
        rate = learning_rate(number, self.settings, d_model=self.config.model.d_model)
        try:
            result = train_step(
                self.model, self.optimizer, group, settings=self.settings, rate=rate, is_bf16=self.is_bf16
            )
        except RunError as error:
            mend = "With other settings it is a new run; with more free memory this one goes on by --resume. "
            raise RunError(
                f"step {number}: {error} {mend if isinstance(error, OutOfMemory) else ''}"
                f"Checkpoints written so far are kept in {self.run.checkpoints}."
            ) from error
        progress.step = number
        progress.step_in_epoch += 1
        progress.target_tokens += result.tokens
        if self.average is not None:
            self.average.update(self.model, step=progress.step)
        return result

    def _log(self) -> None:
        progress = self.progress
        means = progress.window.means()
        rate = learning_rate(progress.step, self.settings, d_model=self.config.model.d_model)
        speed = self._tokens_per_second()
        self._logged_at, self._logged_tokens = time.perf_counter(), progress.target_tokens
        self.tracker.record(
            {
                "kind": "train",
                "step": progress.step,
                "epoch": progress.epoch + 1,
                **means,
                "learning_rate": rate,
                "target_tokens": progress.target_tokens,
                "target_tokens_per_second": round(speed, 1),
            },
            summary=(
                f"loss {means['loss']:.3f}, ppl {means['perplexity']:.1f}, |gradient| {means['gradient_norm']:.2f},"
                f" rate {rate:.1e}, {speed:.0f} target tokens/s"
            ),
        )

    def _tokens_per_second(self) -> float:
        """Target tokens a second since the last log entry; the time of validations does not count."""
        return (self.progress.target_tokens - self._logged_tokens) / (time.perf_counter() - self._logged_at)

    def _validate(self) -> None:
        """Score the weights and keep them if they are the best; all is saved before, and with the result after.

        A signal ends it, and leaves it to be done first when the run is continued.
        """
        progress, average = self.progress, self.average
        self._save_new()
        weights = get_parameters(self.model) if average is None else average.tensors
        if self.validation is None:
            progress.best_step = progress.validated_step = progress.step
            save_best(self.run, weights, step=progress.step)
            self._save()
            return
        result, random = None, random_states()
        lent = average.lent_to(self.model) if average is not None else contextlib.nullcontext()
        every_position = self.model.decoder.final_norm  # with a cache or without
        with lent, contextlib.suppress(Abandoned), self.stop.abandoning(every_position):
            result = validate(self.model, self.tokenizers, self.validation, self.config)
        set_random_states(random)
        if result is None:
            return
        progress.validated_step = progress.step
        self._logged_at += result.seconds
        score = -result.loss if self.settings.best_metric == "loss" else result.evaluation.score("BLEU")
        is_best = progress.best_score is None or score > progress.best_score
        if is_best:
            progress.best_step, progress.best_score, progress.validations_without_better = progress.step, score, 0
            save_best(self.run, weights, step=progress.step)
        else:
            progress.validations_without_better += 1
        self._report(result, self.validation, is_best=is_best)
        self._save()

    def _report(self, result: Validation, corpus: ParallelCorpus, *, is_best: bool) -> None:
        scores = {metric.name: metric.score for metric in result.evaluation.metrics}
        self.tracker.record(
            {
                "kind": "validation",
                "step": self.progress.step,
                "loss": result.loss,
                "perplexity": result.perplexity,
                **scores,
                "num_truncated": count_conditions(result.evaluation.translations).truncated,
                "seconds": round(result.seconds, 3),
            },
            summary=(
                f"validation loss {result.loss:.3f}, ppl {result.perplexity:.2f}, BLEU {scores['BLEU']:.2f},"
                f" chrF {scores['chrF']:.2f}, in {result.seconds:.0f} s{', the best so far' if is_best else ''}"
            ),
        )
        for index in spread_samples(len(corpus.sources), self.settings.sample_translations):
            translation = result.evaluation.translations[index]
            self.tracker.say(
                f"  {translation.source}\n    reference:   {corpus.targets[index]}\n    translation: {translation.text}"
            )

    def _save_new(self) -> None:
        """Save, unless the state after this step is saved already."""
        if self._saved_step != self.progress.step:
            self._save()

    def _save(self) -> None:
        self.progress.metrics_bytes, self.progress.metrics_sha256 = self.tracker.sync()
        save_last(self.run, self.model, self.optimizer, self.average, self.progress)
        self._saved_step = self.progress.step
