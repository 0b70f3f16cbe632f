"""The training loop: forward, backward, step; log, validate and save at their times; stop when it is time."""

import contextlib
import time
from collections.abc import Iterator, Sequence

import torch

from translate.config import Config
from translate.data.batching import Batch
from translate.data.corpora import ParallelCorpus
from translate.data.epochs import TrainingBatches
from translate.data.tokenizer import Tokenizers
from translate.decoding import count_conditions
from translate.errors import RunError
from translate.evaluation import spread_samples
from translate.model import Transformer
from translate.model.device import choose_precision
from translate.run import RunDirectory, get_parameters
from translate.training.average import AveragedWeights
from translate.training.checkpoints import save_best, save_last
from translate.training.progress import LogWindow, Progress, StepResult
from translate.training.schedule import learning_rate
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
        self.is_bf16 = choose_precision(self.settings.precision, model.device) == "bf16"

    def train(self) -> None:
        """Go on until the last step, the last epoch, or too many validations without a better one.

        Raises:
            RunError: The loss or a gradient is not finite, or a checkpoint cannot be written.
        """
        settings, progress = self.settings, self.progress
        self._logged_at, self._logged_tokens = time.perf_counter(), progress.target_tokens
        for group in self._steps():
            result = self._train_step(group)
            progress.window.add(result)
            self.tracker.advance(loss=result.loss, tokens_per_second=self._tokens_per_second())
            if progress.step % settings.log_every == 0:
                self._log()
            if progress.step % settings.validate_every == 0:
                self._validate()
            if progress.step % settings.save_every == 0 or progress.validated_step == progress.step:
                self._save()
        if progress.validated_step != progress.step:
            self._validate()
            self._save()

    def _steps(self) -> Iterator[list[Batch]]:
        """The batches of each optimizer step to do, epoch after epoch, until it is time to stop."""
        settings, progress = self.settings, self.progress
        while settings.max_epochs is None or progress.epoch < settings.max_epochs:
            epoch = self.batches.epoch(progress.epoch)
            if progress.step_in_epoch == 0:
                padding = epoch.padding
                self.tracker.say(
                    f"epoch {progress.epoch + 1}: {len(epoch)} batches, {padding.num_padding} of"
                    f" {padding.num_computed} tokens are padding ({padding.share:.1%})"
                    + (f", {epoch.num_resegmented} pairs over-long as sampled" if epoch.num_resegmented else "")
                )
            size = settings.accumulate_batches
            for first in range(progress.step_in_epoch * size, len(epoch), size):
                if self._is_over():
                    return
                yield [epoch[number] for number in range(first, min(first + size, len(epoch)))]
            progress.epoch, progress.step_in_epoch = progress.epoch + 1, 0

    def _is_over(self) -> bool:
        patience, progress = self.settings.patience, self.progress
        if patience is not None and progress.validations_without_better >= patience:
            self.tracker.say(f"stopped early: {patience} validations without a better {self.settings.best_metric}")
            return True
        return progress.step >= self.settings.max_steps

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
            kept = self.run.checkpoint("last").parent
            raise RunError(f"step {number}: {error} Checkpoints written so far are kept in {kept}.") from error
        progress.step = number
        progress.step_in_epoch += 1
        progress.target_tokens += result.tokens
        if self.average is not None:
            self.average.update(self.model, step=progress.step)
        return result

    def _log(self) -> None:
        progress = self.progress
        means = progress.window.means()
        progress.window = LogWindow()
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
        progress, average = self.progress, self.average
        weights = get_parameters(self.model) if average is None else average.tensors
        progress.validated_step = progress.step
        if self.validation is None:
            progress.best_step = progress.step
            save_best(self.run, weights, step=progress.step)
            return
        with average.lent_to(self.model) if average is not None else contextlib.nullcontext():
            result = validate(self.model, self.tokenizers, self.validation, self.config)
        self._logged_at += result.seconds
        score = -result.loss if self.settings.best_metric == "loss" else result.evaluation.score("BLEU")
        is_best = progress.best_score is None or score > progress.best_score
        if is_best:
            progress.best_step, progress.best_score, progress.validations_without_better = progress.step, score, 0
            save_best(self.run, weights, step=progress.step)
        else:
            progress.validations_without_better += 1
        self._report(result, self.validation, is_best=is_best)

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

    def _save(self) -> None:
        save_last(self.run, self.model, self.optimizer, self.average, self.progress)
