"""Settings that usually fail, on their own or with the given data: a table with one row per check.

Invalid configs are refused when they are read. The settings found here are allowed, and sometimes even intended.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from translate.config.languages import Languages
from translate.config.schema import Config
from translate.config.yaml import shown_path
from translate.lint.findings import Finding, Severity
from translate.runs.run import open_run
from translate.training.optimizer import ends_at_max_steps, learning_rate

# The paper's peak rate is d_model^-0.5 · 4000^-0.5. Rates in use with Adam are at most five times as high (fairseq's
# and Marian's examples, and our presets: 0.4 to 3 times), and with Muon ten times (our preset: five times). Below a
# twentieth, a training run does not get far.
_PAPER_WARMUP = 4000
_MAX_RATE_FACTORS = {"adam": 5.0, "adamw": 5.0, "muon": 10.0}
_MIN_RATE_FACTOR = 0.05
# T5 was fine-tuned at a tenth of the peak rate of its pre-training (Raffel et al. 2020, arXiv 1910.10683, section
# 3.1), BERT at a fifth to a half (Devlin et al. 2019, arXiv 1810.04805, appendix A).
_MAX_RATE_SHARE = 0.5
_GOOD_RATE_SHARE = 0.2
# Published runs on small corpora see them 50 times (fairseq's example for IWSLT14) to 100 times (JoeyNMT's), our
# presets 10 to 20 times. Repeated without dropout, text teaches little after 4 times and nothing after 40 (Muennighoff
# et al. 2023, arXiv 2305.16264).
_MAX_EPOCHS = 100


class DataFacts(NamedTuple):
    """Sizes of data and model by which settings are judged."""

    num_pairs: int  # before filtering
    num_left_out: int  # by the filter
    num_target_tokens: int  # in one epoch, with end symbols
    num_batches: int  # in one epoch
    num_parameters: int  # trained ones
    is_extended: bool  # whether a vocabulary has entries that the fine-tuned run's does not have

    def num_steps(self, config: Config) -> int:
        """Optimizer steps per epoch."""
        return math.ceil(self.num_batches / config.training.accumulate_batches)


def peak_rate(config: Config) -> float:
    """The highest learning rate of a training run, which every schedule reaches at the end of its warm-up."""
    return learning_rate(max(1, config.training.warmup_steps), config.training, d_model=config.model.d_model)


def usual_rate(d_model: int) -> float:
    """The highest learning rate of the paper's schedule."""
    return 1.0 / math.sqrt(d_model * _PAPER_WARMUP)


class Case:
    """A config with the sizes of its data. Messages and hints of the checks are filled in with its attributes."""

    def __init__(self, config: Config, facts: DataFacts) -> None:
        self.model, self.training = config.model, config.training
        training, max_steps = config.training, config.training.max_steps
        self.is_new = training.initialize_from is None  # for fine-tuning, see `rate_findings`
        self.is_validated = config.data.validation is not None
        self.depth = max(config.model.num_encoder_layers, config.model.num_decoder_layers)
        warmup = training.warmup_steps if training.warmup_steps < max_steps else max(1, max_steps // 10)
        self.warmup = str(warmup)  # the one to suggest
        self.peak, self.usual = peak_rate(config), usual_rate(config.model.d_model)
        self.rate_hint = f"try training.learning_rate={self.usual:.0e}"
        if training.schedule == "noam":
            factor = math.sqrt(warmup / _PAPER_WARMUP)
            self.rate_hint = f"try training.learning_rate={factor:.2g} with training.warmup_steps={warmup}"
            self.warmup = f"{warmup} training.learning_rate={factor:.2g}"
        self.frozen = f"training.freeze = [{', '.join(training.freeze)}]" if training.freeze else ""
        if training.lora_rank > 0:
            self.frozen = f"training.lora_rank = {training.lora_rank}"
        self.holds_added = {"embeddings"} | ({"decoder"} if self.model.tie_embeddings in ("none", "inputs") else set())
        languages = Languages(config.data)
        directions = languages.directions if len(languages.directions) > 1 else []
        validated = [*map(config.data.direction_of, config.data.corpora("validation").values())]
        self.unvalidated = ", ".join(str(each) for each in directions if each not in validated)
        self.step_size = f"training.{'step_tokens' if training.accumulate_batches == 1 else 'accumulate_batches'}"
        self.facts, self.steps_per_epoch = facts, facts.num_steps(config)
        self.is_whole = not config.data.is_streamed  # only a segment of a stream is known
        self.num_pairs = facts.num_pairs - facts.num_left_out
        self.share_left_out = facts.num_left_out / facts.num_pairs
        self.tokens_per_step = facts.num_target_tokens / self.steps_per_epoch
        self.parameters_per_token = facts.num_parameters / facts.num_target_tokens
        self.epochs = max_steps / self.steps_per_epoch
        self.most_steps = _MAX_EPOCHS * self.steps_per_epoch
        self.epochs_trained = min(self.epochs, training.max_epochs or math.inf)
        self.last_step = max(1, int(self.epochs_trained * self.steps_per_epoch))
        self.last_rate = learning_rate(self.last_step, training, d_model=config.model.d_model)


class Check(NamedTuple):
    """A row of the table below."""

    name: str  # for machines; the same in every version
    severity: Severity
    is_due: Callable[[Case], bool]
    message: str
    hint: str  # what to do; `key=value` in it can be given on the command line


# fmt: off
# Sources: Popel and Bojar 2018, arXiv 1804.00247 (learning rate); Xiong et al. 2020, arXiv 2002.04745 (warm-up); Bapna
# et al. 2018, arXiv 1808.07561 (depth); Sennrich and Zhang 2019, arXiv 1905.11901 (dropout; 1,000 tokens per step are
# best on the smallest corpora); Wu et al. 2021, aclanthology.org/2021.acl-long.480 (on Multi30k transformer-base, with
# over 100 parameters per target token, is clearly worse than a model of 3 million parameters).
CHECKS = [
    Check("warmup_longer_than_training", "warning",
          lambda case: case.training.warmup_steps >= case.training.max_steps > 1,
          "training.warmup_steps = {training.warmup_steps} is not less than training.max_steps = {training.max_steps}:"
          " the learning rate never reaches its peak and never falls",
          "set training.warmup_steps={warmup}, or train longer"),
    Check("learning_rate_unusual", "warning",
          lambda case: case.is_new and not case.usual * _MIN_RATE_FACTOR <= case.peak
          <= case.usual * _MAX_RATE_FACTORS[case.training.optimizer],
          "training.learning_rate = {training.learning_rate:g} with training.schedule = {training.schedule!r} peaks at"
          " {peak:.1e}; the paper's schedule for model.d_model = {model.d_model} peaks at {usual:.1e}", "{rate_hint}"),
    Check("post_norm_deep", "warning",
          lambda case: case.is_new and case.model.norm == "post"
          and (case.depth >= 16 or (case.depth >= 6 and case.training.warmup_steps <= 500)),
          "model.norm = 'post' with {depth} layers and training.warmup_steps = {training.warmup_steps}: without a long"
          " warm-up, such models diverge or stay poor, and from 16 layers on with one too", "set model.norm=pre"),
    Check("frozen_at_random", "warning", lambda case: bool(case.frozen) and case.is_new,
          "{frozen}: frozen weights keep their random initial values and learn nothing",
          "name a run as training.initialize_from, or train all weights"),
    Check("added_entries_frozen", "warning",
          lambda case: case.facts.is_extended and (not case.holds_added.isdisjoint(case.training.freeze)
          or (case.training.lora_rank > 0 and "embeddings" not in case.training.lora_targets)),
          "{frozen}: the embeddings of added vocabulary entries, or their rows of the output layer, are frozen too, so"
          " they are never learnt",
          "train them (LoRA: training.lora_targets has embeddings), or add nothing to the vocabulary"),
    Check("no_validation", "warning", lambda case: not case.is_validated,
          "data.validation names no corpus: nothing shows how good the model is, the last checkpoint is best, and"
          " training.patience has no effect",
          "hold about a thousand pairs out of training, and name them as data.validation"),
    Check("direction_not_validated", "warning", lambda case: case.is_validated and bool(case.unvalidated),
          "data.validation has no corpus for {unvalidated}: only the other directions choose the best checkpoint",
          "make data.validation a mapping with a corpus for each direction, or set its both_directions=true"),
    Check("many_left_out", "warning", lambda case: case.share_left_out > 0.1,
          "{facts.num_left_out:,} of {facts.num_pairs:,} training pairs ({share_left_out:.1%}) are left out: they are"
          " empty, exceed data.max_source_tokens, data.max_target_tokens or data.max_length_ratio, or data.leave_out"
          " names them", "look at the reasons; raise the limit if these are good pairs"),
    Check("small_steps", "warning", lambda case: case.tokens_per_step < 500 and case.facts.num_batches > 1,
          "an optimizer step sees {tokens_per_step:.0f} target tokens (training.batch_tokens = {training.batch_tokens},"
          " training.accumulate_batches = {training.accumulate_batches}): its gradient is mostly noise; papers report"
          " success with 1,000 or more",
          "raise {step_size}, and training.batch_tokens as far as memory allows"),
    Check("no_dropout", "warning",
          lambda case: case.is_whole and case.model.dropout == 0.0 and case.num_pairs < 1_000_000 and case.epochs >= 5,
          "model.dropout = 0 with {num_pairs:,} pairs seen {epochs:.0f} times: the model memorises them",
          "set model.dropout=0.3 for tens of thousands of pairs, 0.1 for a million"),
    Check("model_large_for_corpus", "warning",
          lambda case: case.is_whole and case.is_new and case.parameters_per_token > 50,
          "{facts.num_parameters:,} parameters for {facts.num_target_tokens:,} target tokens,"
          " {parameters_per_token:.0f} per token: a smaller model usually translates better (Wu et al. 2021) and trains"
          " faster",
          "halve model.d_model and the numbers of layers, or add data"),
    Check("very_many_epochs", "warning",
          lambda case: case.is_whole and case.epochs_trained > _MAX_EPOCHS and case.training.patience is None,
          "training.max_steps = {training.max_steps} passes {epochs_trained:,.0f} times over the {num_pairs:,} pairs,"
          " at {steps_per_epoch} steps per epoch: published runs on small corpora end after 50 to 100 times",
          "set training.max_steps={most_steps} or fewer, or stop early with training.patience"),
    Check("schedule_cut_short", "warning",
          lambda case: case.is_whole and case.epochs_trained < 0.95 * case.epochs
          and ends_at_max_steps(case.training),
          "training.max_epochs = {training.max_epochs} ends the training at step {last_step}, and training.schedule ="
          " {training.schedule!r} falls until training.max_steps = {training.max_steps}: the last learning rate is"
          " {last_rate:.1e}", "set training.max_steps={last_step}"),
]
# fmt: on


def settings_findings(config: Config, facts: DataFacts) -> Iterator[Finding]:
    """Findings about the settings alone, and about the settings with the data."""
    case = Case(config, facts)
    for check in CHECKS:
        if check.is_due(case):
            message, hint = (text.format(**vars(case)) for text in (check.message, check.hint))
            yield Finding(check.severity, check.name, message, hint)
    yield from rate_findings(config)


def rate_findings(config: Config) -> Iterator[Finding]:
    """Warn of a learning rate at which fine-tuning forgets what the run has learnt.

    LoRA is not checked: its best rates are about ten times higher, and it forgets less (Biderman et al. 2024, arXiv
    2405.09673).
    """
    training = config.training
    if training.initialize_from is None or training.lora_rank > 0:
        return
    base, run = open_run(training.initialize_from).config, shown_path(training.initialize_from)
    before, whose = usual_rate(config.model.d_model), "of the paper's schedule for a new model of this width"
    # An imported run's rate is unknown, and that of a fine-tuning was lower, or LoRA's and higher.
    if base.data.train and base.training.initialize_from is None and base.training.lora_rank == 0:
        before, whose = peak_rate(base), f"with which {run} was trained"
    if (peak := peak_rate(config)) > _MAX_RATE_SHARE * before:
        message = (
            f"training.learning_rate = {training.learning_rate:g} with training.schedule = {training.schedule!r} peaks"
            f" at {peak:.1e}, over half of the {before:.1e} {whose}: the model soon forgets much of what the run has"
            " learnt"
        )
        hint = f"try training.learning_rate={_GOOD_RATE_SHARE * before:.0e}"
        hint += " training.schedule=cosine" if training.schedule == "noam" else ""
        yield Finding("warning", "fine_tuning_rate_high", message, hint)
