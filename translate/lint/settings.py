"""Settings that usually fail, told before the run: each by arithmetic, or by a paper that measured it.

A config that is wrong is refused when it is read. What stands here is allowed, and now and then even meant.
"""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

from translate.config.schema import Config

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")

# The paper's peak rate is d_model^-0.5 · 4000^-0.5. Rates in use with Adam stand within a factor of five above it
# (fairseq's and Marian's examples, and our presets: 0.4 to 1.8 times); below a twentieth a training does not get far.
_PAPER_WARMUP = 4000
_MAX_RATE_FACTOR = 5.0
_MIN_RATE_FACTOR = 0.05


class Finding(NamedTuple):
    """Something that a person should know before a long run."""

    severity: Severity  # error: the training would fail or be worth nothing; warning: usually a mistake; note: know it
    name: str  # for machines; the same in every version
    message: str  # what is so, with its numbers
    mend: str  # what to do about it
    examples: tuple[str, ...] = ()  # where, a line each

    @property
    def summary(self) -> str:
        """The finding in one line, for a log."""
        return f"{self.severity}: {self.message}; {self.mend}"


def by_severity(findings: list[Finding]) -> list[Finding]:
    """Errors first, then warnings, then notes; within each in the order given."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def advise(config: Config) -> list[Finding]:
    """What the settings alone tell."""
    return [finding for rule in _CONFIG_RULES if (finding := rule(config)) is not None]


def peak_learning_rate(config: Config) -> float:
    """The highest rate that the schedule reaches, if the training is long enough."""
    training = config.training
    if training.schedule != "noam":
        return training.learning_rate
    return training.learning_rate / math.sqrt(config.model.d_model * training.warmup_steps)


def _warmup(config: Config) -> Finding | None:
    training = config.training
    if training.warmup_steps < training.max_steps:
        return None
    return Finding(
        "warning",
        "warmup_longer_than_training",
        f"training.warmup_steps = {training.warmup_steps} is not less than training.max_steps = {training.max_steps}:"
        " the learning rate never reaches its peak and never falls",
        f"set training.warmup_steps to about {max(1, training.max_steps // 10)}, or train longer",
    )


def _learning_rate(config: Config) -> Finding | None:
    """Too high diverges, too low does not get anywhere. Source: Popel and Bojar 2018, arXiv 1804.00247."""
    peak = peak_learning_rate(config)
    usual = 1.0 / math.sqrt(config.model.d_model * _PAPER_WARMUP)
    if usual * _MIN_RATE_FACTOR <= peak <= usual * _MAX_RATE_FACTOR:
        return None
    what = "high" if peak > usual else "low"
    is_noam = config.training.schedule == "noam"
    given = f"training.learning_rate = {config.training.learning_rate:g}"
    given += f" is a factor for noam and gives a peak of {peak:.1e}, which is" if is_noam else " is"
    mend = (
        "training.learning_rate=1 and training.warmup_steps=4000" if is_noam else f"training.learning_rate={usual:.0e}"
    )
    return Finding(
        "warning",
        f"learning_rate_{what}",
        f"{given} {what} for model.d_model = {config.model.d_model}: the paper's schedule peaks at {usual:.1e}",
        f"try {mend}",
    )


def _post_norm(config: Config) -> Finding | None:
    """Post-norm needs a warm-up, and does not bear depth.

    Sources: Xiong et al. 2020, arXiv 2002.04745 (warm-up); Bapna et al. 2018, arXiv 1808.07561 (depth).
    """
    model, training = config.model, config.training
    depth = max(model.num_encoder_layers, model.num_decoder_layers)
    if model.norm != "post":
        return None
    if depth >= 16:
        return Finding(
            "warning",
            "post_norm_deep",
            f"model.norm = 'post' with {depth} layers: from about 16 on such models do not learn (Bapna et al. 2018)",
            "set model.norm=pre",
        )
    if depth >= 6 and training.warmup_steps <= 500:
        return Finding(
            "warning",
            "post_norm_without_warmup",
            f"model.norm = 'post' with {depth} layers and training.warmup_steps = {training.warmup_steps}:"
            " without a long warm-up such models diverge or stay bad (Xiong et al. 2020)",
            "set training.warmup_steps=4000, or model.norm=pre",
        )
    return None


def _weight_decay(config: Config) -> Finding | None:
    """Source: Loshchilov and Hutter 2019, arXiv 1711.05101: Adam scales L2's gradient up like every other."""
    training = config.training
    if training.optimizer != "adam" or training.weight_decay < 1e-3:
        return None
    return Finding(
        "warning",
        "weight_decay_with_adam",
        f"training.weight_decay = {training.weight_decay:g} with training.optimizer = 'adam' is L2 regularisation,"
        " which Adam turns into a far stronger pull than decay",
        "set training.optimizer=adamw",
    )


def _smoothing(config: Config) -> Finding | None:
    smoothing = config.training.label_smoothing
    if smoothing <= 0.3:
        return None
    return Finding(
        "warning",
        "label_smoothing_high",
        f"training.label_smoothing = {smoothing:g}: that share of the probability goes to wrong words; 0.1 is usual",
        "set training.label_smoothing=0.1",
    )


def _dropout_high(config: Config) -> Finding | None:
    """Source: Araabi and Monz 2020, arXiv 2011.02266: at best 0.3 for the smallest corpora; more hurts."""
    if config.model.dropout <= 0.5:
        return None
    return Finding(
        "warning",
        "dropout_high",
        f"model.dropout = {config.model.dropout:g}: more than half of each layer's output is thrown away; even the"
        " smallest corpora are served best by 0.3",
        "set model.dropout=0.3",
    )


def _validation(config: Config) -> Finding | None:
    training = config.training
    if config.data.validation is None:
        if training.patience is not None:
            return Finding(
                "warning",
                "patience_without_validation",
                f"training.patience = {training.patience} counts validations, and data.validation names no corpus",
                "give data.validation, or set training.patience=null",
            )
        return Finding(
            "warning",
            "no_validation",
            "data.validation names no corpus: nothing tells how good the model is, and the last checkpoint counts as"
            " the best",
            "keep a thousand or so pairs out of training and name them as data.validation",
        )
    if training.validate_every > training.max_steps:
        return Finding(
            "warning",
            "validation_once",
            f"training.validate_every = {training.validate_every} is more than training.max_steps ="
            f" {training.max_steps}: the only validation is at the end, and no better checkpoint can be chosen",
            f"set training.validate_every to about {max(1, training.max_steps // 10)}",
        )
    if training.patience is not None and training.patience * training.validate_every >= training.max_steps:
        return Finding(
            "note",
            "patience_too_long",
            f"training.patience = {training.patience} validations of {training.validate_every} steps are all of the"
            f" training's {training.max_steps} steps: it cannot stop early",
            "lower training.patience or training.validate_every if it should",
        )
    return None


def _beam(config: Config) -> Finding | None:
    """Source: Koehn and Knowles 2017, https://aclanthology.org/W17-3204, section 3.6: quality falls beyond 30 or so."""
    decoding = config.decoding
    if decoding.search != "beam" or decoding.mbr != "none" or decoding.beam_size <= 30:
        return None
    return Finding(
        "note",
        "beam_wide",
        f"decoding.beam_size = {decoding.beam_size}: each validation takes as many times the work of greedy search, and"
        " beams over 30 or so translate worse (Koehn and Knowles 2017)",
        "set decoding.beam_size=5",
    )


_CONFIG_RULES: tuple[Callable[[Config], Finding | None], ...] = (
    _warmup,
    _learning_rate,
    _post_norm,
    _weight_decay,
    _smoothing,
    _dropout_high,
    _validation,
    _beam,
)
