"""Settings that usually fail with the data at hand: too little of them, or too much, for the model and the steps."""

import math
from collections.abc import Callable
from typing import NamedTuple

from translate.config.schema import Config
from translate.lint.settings import Finding


class DataFacts(NamedTuple):
    """What advice about data needs to know of them."""

    num_pairs: int  # before filtering
    num_left_out: int  # by the filter
    num_target_tokens: int  # of one epoch, end symbols counted
    num_batches: int  # of one epoch
    num_parameters: int  # of the model
    target_vocab_size: int

    def num_steps(self, config: Config) -> int:
        """Optimizer steps of one epoch."""
        return math.ceil(self.num_batches / config.training.accumulate_batches)


def advise_on_data(config: Config, facts: DataFacts) -> list[Finding]:
    """What the settings tell together with the size of the data."""
    rules = _SEGMENT_RULES if config.data.is_streamed else _SEGMENT_RULES + _DATA_RULES
    return [finding for rule in rules if (finding := rule(config, facts)) is not None]


def _filtered(config: Config, facts: DataFacts) -> Finding | None:
    share = facts.num_left_out / facts.num_pairs
    if share < 0.01:
        return None
    return Finding(
        "warning" if share > 0.1 else "note",
        "many_left_out",
        f"{facts.num_left_out:,} of {facts.num_pairs:,} training pairs ({share:.1%}) are left out: they are empty, or"
        " over data.max_source_tokens, data.max_target_tokens or data.max_length_ratio",
        "look at the reasons; raise the limit if these are good pairs",
    )


def _beam_and_vocabulary(config: Config, facts: DataFacts) -> Finding | None:
    if config.decoding.beam_size <= facts.target_vocab_size:
        return None
    return Finding(
        "warning",
        "beam_larger_than_vocabulary",
        f"decoding.beam_size = {config.decoding.beam_size} is more than the {facts.target_vocab_size} entries of the"
        " target vocabulary: the first step cannot fill the beam",
        "set decoding.beam_size=5",
    )


def _small_steps(config: Config, facts: DataFacts) -> Finding | None:
    """Sennrich and Zhang 2019 (arXiv 1905.11901) do best with 1,000 tokens a step on the smallest corpora."""
    tokens = facts.num_target_tokens / facts.num_steps(config)
    if tokens >= 500 or facts.num_batches == 1:
        return None
    return Finding(
        "warning",
        "small_steps",
        f"an optimizer step sees {tokens:.0f} target tokens (training.batch_tokens = {config.training.batch_tokens},"
        f" training.accumulate_batches = {config.training.accumulate_batches}): its gradient is mostly noise; 1,000 is"
        " the least that papers report to work",
        "raise training.step_tokens, and training.batch_tokens as far as memory allows",
    )


def _no_dropout(config: Config, facts: DataFacts) -> Finding | None:
    """Source: Sennrich and Zhang 2019, https://arxiv.org/abs/1905.11901."""
    num_pairs = facts.num_pairs - facts.num_left_out
    epochs = config.training.max_steps / facts.num_steps(config)
    if config.model.dropout > 0.0 or num_pairs >= 1_000_000 or epochs < 5:
        return None
    return Finding(
        "warning",
        "no_dropout",
        f"model.dropout = 0 with {num_pairs:,} pairs seen {epochs:.0f} times: the model will learn them by heart",
        "set model.dropout=0.3 for tens of thousands of pairs, 0.1 for a million",
    )


def _large_model(config: Config, facts: DataFacts) -> Finding | None:
    """On Multi30k transformer-base, over 100 parameters a target token, is clearly worse than a model of 3 million.

    Source: Wu et al. 2021, https://aclanthology.org/2021.acl-long.480.
    """
    ratio = facts.num_parameters / facts.num_target_tokens
    if ratio <= 50:
        return None
    return Finding(
        "warning",
        "model_large_for_corpus",
        f"{facts.num_parameters:,} parameters for {facts.num_target_tokens:,} target tokens, {ratio:.0f} a token:"
        " a smaller model as a rule translates better (Wu et al. 2021) and trains faster",
        "halve model.d_model and the numbers of layers, or find more text",
    )


def _epochs(config: Config, facts: DataFacts) -> Finding | None:
    training, num_steps = config.training, facts.num_steps(config)
    epochs = min(training.max_steps / num_steps, training.max_epochs or math.inf)
    if epochs < 1.0:
        return Finding(
            "note",
            "less_than_an_epoch",
            f"training.max_steps = {training.max_steps} of {num_steps} steps an epoch: {1 - epochs:.0%} of the data"
            " are never seen",
            f"set training.max_steps to at least {num_steps}, if that is not meant",
        )
    if epochs > 300 and training.patience is None:
        return Finding(
            "warning",
            "very_many_epochs",
            f"training.max_steps = {training.max_steps} is {epochs:.0f} times through the data, {num_steps} steps each",
            "lower training.max_steps, or set training.patience=10 to stop when validation does not improve",
        )
    return None


# What holds of a part of the data, too, as it is known of streamed corpora; and what does not.
_SEGMENT_RULES: tuple[Callable[[Config, DataFacts], Finding | None], ...] = (
    _filtered,
    _beam_and_vocabulary,
    _small_steps,
)
_DATA_RULES: tuple[Callable[[Config, DataFacts], Finding | None], ...] = (
    _no_dropout,
    _large_model,
    _epochs,
)
