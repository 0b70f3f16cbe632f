"""Settings that usually fail, by themselves or with the data at hand: each by arithmetic, or by a paper.

A config that is wrong is refused when it is read. What is found here is allowed, and sometimes even meant.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from translate.config.schema import Config
from translate.lint.findings import Finding

# The paper's peak rate is d_model^-0.5 · 4000^-0.5. Rates in use with Adam are at most five times as high (fairseq's
# and Marian's examples, and our presets: 0.4 to 1.8 times); below a twentieth a training does not get far.
_PAPER_WARMUP = 4000
_MAX_RATE_FACTOR = 5.0
_MIN_RATE_FACTOR = 0.05
_FEW_STEPS = 10  # with fewer no warm-up is short enough
# Published trainings on small corpora see them 50 times (fairseq's example for IWSLT14) to 100 times (JoeyNMT's), our
# presets 10 to 20 times. Of text that is repeated without dropout, little is learnt after 4 times and nothing after 40
# (Muennighoff et al. 2023, arXiv 2305.16264).
_MAX_EPOCHS = 100


class DataFacts(NamedTuple):
    """The sizes of data and model that settings are judged by."""

    num_pairs: int  # before filtering
    num_left_out: int  # by the filter
    num_target_tokens: int  # of one epoch, with end symbols
    num_batches: int  # of one epoch
    num_parameters: int  # of the model, as far as they are trained
    target_vocab_size: int

    def num_steps(self, config: Config) -> int:
        """Optimizer steps of one epoch."""
        return math.ceil(self.num_batches / config.training.accumulate_batches)


def settings_findings(config: Config) -> Iterator[Finding]:
    """Findings about the settings alone."""
    yield from _optimization(config)
    yield from _validation_and_search(config)
    if config.data.train and all(corpus.source_tag for corpus in config.data.train):
        message = "each corpus of data.train has a source_tag: no source is seen as it will be translated, without one"
        hint = "train on a corpus without a tag too, or leave the tags out"
        yield Finding("warning", "all_tagged", message, hint)


def peak_rate(config: Config) -> float:
    """The highest learning rate of a training."""
    training = config.training
    factor = math.sqrt(config.model.d_model * training.warmup_steps) if training.schedule == "noam" else 1.0
    return training.learning_rate / factor


def usual_rate(d_model: int) -> float:
    """The highest learning rate of the paper's schedule."""
    return 1.0 / math.sqrt(d_model * _PAPER_WARMUP)


def _optimization(config: Config) -> Iterator[Finding]:
    """A learning rate too high or too low; post-norm too deep or without warm-up; regularization too much or wrong.

    Sources: Popel and Bojar 2018, arXiv 1804.00247 (learning rate); Xiong et al. 2020, arXiv 2002.04745 (warm-up);
    Bapna et al. 2018, arXiv 1808.07561 (depth). Loshchilov and Hutter 2019, arXiv 1711.05101: Adam scales L2's gradient
    up like every other. Araabi and Monz 2020, arXiv 2011.02266: a dropout of 0.3 is best for the smallest corpora.
    """
    model, training = config.model, config.training
    warmup, steps = f"training.warmup_steps = {training.warmup_steps}", f"training.max_steps = {training.max_steps}"
    warmup_steps = training.warmup_steps
    if warmup_steps >= training.max_steps:
        message = f"{warmup} is not less than {steps}: the learning rate never reaches its peak and never falls"
        hint = "train longer: so few steps try the program, and no model"
        if training.max_steps >= _FEW_STEPS:
            warmup_steps = training.max_steps // 10
            hint = f"set training.warmup_steps={warmup_steps}, or train longer"
        yield Finding("warning", "warmup_longer_than_training", message, hint)
    peak, usual = peak_rate(config), usual_rate(model.d_model)
    given, hint = f"training.learning_rate = {peak:g} is", f"try training.learning_rate={usual:.0e}"
    if training.schedule == "noam":
        given += f" a factor for noam and gives a peak of {peak:.1e}, which is"
        factor = math.sqrt(warmup_steps / _PAPER_WARMUP)  # gives the usual peak
        hint = f"try training.learning_rate={factor:.2g} with training.warmup_steps={warmup_steps}"
    is_new = training.initialize_from is None  # for fine-tuning see `finetuning`
    if is_new and not usual * _MIN_RATE_FACTOR <= peak <= usual * _MAX_RATE_FACTOR:
        what = "high" if peak > usual else "low"
        message = f"{given} {what} for model.d_model = {model.d_model}: the paper's schedule peaks at {usual:.1e}"
        yield Finding("warning", f"learning_rate_{what}", message, hint)
    depth = max(model.num_encoder_layers, model.num_decoder_layers)
    layers = f"model.norm = 'post' with {depth} layers"
    if model.norm == "post" and depth >= 16:
        message = f"{layers}: from about 16 on such models do not learn (Bapna et al. 2018)"
        yield Finding("warning", "post_norm_deep", message, "set model.norm=pre")
    elif is_new and model.norm == "post" and depth >= 6 and training.warmup_steps <= 500:
        message = f"{layers} and {warmup}: without a long warm-up such models diverge or stay bad (Xiong et al. 2020)"
        hint = "set model.norm=pre"
        if training.max_steps > _PAPER_WARMUP:
            hint += f", or training.warmup_steps={_PAPER_WARMUP}"
        yield Finding("warning", "post_norm_without_warmup", message, hint)
    if training.optimizer == "adam" and training.weight_decay >= 1e-3:
        decay = f"training.weight_decay = {training.weight_decay:g} with training.optimizer = 'adam'"
        message = f"{decay} is L2 regularisation, which Adam makes far stronger"
        yield Finding("warning", "weight_decay_with_adam", message, "set training.optimizer=adamw")
    frozen = f"training.freeze = [{', '.join(training.freeze)}]" if training.freeze else ""
    if training.lora_rank > 0:
        frozen = f"training.lora_rank = {training.lora_rank}"
    if frozen and is_new:
        message = f"{frozen}: what is frozen keeps its random initial values, and nothing is learnt there"
        yield Finding(
            "warning", "frozen_at_random", message, "name a run by training.initialize_from, or train all weights"
        )
    is_extended = config.tokenizer.add_characters or config.tokenizer.add_pieces or config.data.source_tags
    if is_extended and (training.lora_rank > 0 or "embeddings" in training.freeze):
        message = f"{frozen}: the embeddings of what is added to the vocabulary are frozen too, and not learnt"
        yield Finding(
            "warning", "added_entries_frozen", message, "train the embeddings, or add nothing to the vocabulary"
        )
    if training.label_smoothing > 0.3:
        message = f"training.label_smoothing = {training.label_smoothing:g}: so much goes to wrong words; 0.1 is usual"
        yield Finding("warning", "label_smoothing_high", message, "set training.label_smoothing=0.1")
    if model.dropout > 0.5:
        message = f"model.dropout = {model.dropout:g} drops over half of a layer; 0.3 is best for the smallest corpora"
        yield Finding("warning", "dropout_high", message, "set model.dropout=0.3")


def _validation_and_search(config: Config) -> Iterator[Finding]:
    """Validations that are missing, too seldom or without effect; beams that make each of them slow.

    Source: Koehn and Knowles 2017, aclanthology.org/W17-3204, section 3.6: beams over 30 or so translate worse.
    """
    training, decoding, patience = config.training, config.decoding, config.training.patience
    steps, every = f"training.max_steps = {training.max_steps}", training.validate_every
    if config.data.validation is None and patience is not None:
        message = f"training.patience = {patience} counts validations, and data.validation names no corpus"
        hint = "give data.validation, or set training.patience=null"
        yield Finding("warning", "patience_without_validation", message, hint)
    elif config.data.validation is None:
        message = "data.validation names no corpus: nothing shows how good the model is; the last checkpoint is best"
        hint = "keep a thousand or so pairs out of training and name them as data.validation"
        yield Finding("warning", "no_validation", message, hint)
    elif every > training.max_steps:
        message = f"training.validate_every = {every} is more than {steps}: only the last checkpoint is validated"
        hint = f"set training.validate_every={max(1, training.max_steps // 10)}"
        yield Finding("warning", "validation_once", message, hint)
    elif patience is not None and patience * every >= training.max_steps:
        message = f"training.patience = {patience} validations of {every} steps reach {steps}: it cannot stop early"
        hint = "lower training.patience or training.validate_every if it should"
        yield Finding("note", "patience_too_long", message, hint)
    if decoding.ranks_a_beam and decoding.beam_size > 30:
        message = f"decoding.beam_size = {decoding.beam_size}: beams over 30 or so take long and translate worse"
        yield Finding("note", "beam_wide", message, "set decoding.beam_size=5")


def data_findings(config: Config, facts: DataFacts) -> Iterator[Finding]:
    """Findings about the settings together with the size of the data.

    Sources: Sennrich and Zhang 2019, arXiv 1905.11901 (dropout; 1,000 tokens a step are best on the smallest corpora);
    Wu et al. 2021, aclanthology.org/2021.acl-long.480: on Multi30k transformer-base, over 100 parameters a target
    token, is clearly worse than a model of 3 million.
    """
    training, beam_size = config.training, config.decoding.beam_size
    share = facts.num_left_out / facts.num_pairs
    if share >= 0.01:
        why = "they are empty, or over data.max_source_tokens, data.max_target_tokens or data.max_length_ratio"
        message = f"{facts.num_left_out:,} of {facts.num_pairs:,} training pairs ({share:.1%}) are left out: {why}"
        hint = "look at the reasons; raise the limit if these are good pairs"
        yield Finding("warning" if share > 0.1 else "note", "many_left_out", message, hint)
    if beam_size > facts.target_vocab_size:
        entries = f"the {facts.target_vocab_size} entries of the target vocabulary"
        message = f"decoding.beam_size = {beam_size} is more than {entries}: the first step cannot fill the beam"
        yield Finding("warning", "beam_larger_than_vocabulary", message, "set decoding.beam_size=5")
    num_steps = facts.num_steps(config)
    tokens = facts.num_target_tokens / num_steps
    if tokens < 500 and facts.num_batches > 1:
        message = (
            f"an optimizer step sees {tokens:.0f} target tokens (training.batch_tokens = {training.batch_tokens},"
            f" training.accumulate_batches = {training.accumulate_batches}): its gradient is mostly noise; 1,000 is the"
            " least that papers report to work"
        )
        hint = "raise training.step_tokens, and training.batch_tokens as far as memory allows"
        yield Finding("warning", "small_steps", message, hint)
    if config.data.is_streamed:  # only a segment is known, so nothing is said about the whole size
        return
    num_pairs, epochs = facts.num_pairs - facts.num_left_out, training.max_steps / num_steps
    steps = f"training.max_steps = {training.max_steps}"
    if config.model.dropout == 0.0 and num_pairs < 1_000_000 and epochs >= 5:
        message = f"model.dropout = 0 with {num_pairs:,} pairs seen {epochs:.0f} times: the model learns them by heart"
        hint = "set model.dropout=0.3 for tens of thousands of pairs, 0.1 for a million"
        yield Finding("warning", "no_dropout", message, hint)
    ratio = facts.num_parameters / facts.num_target_tokens
    if ratio > 50 and training.initialize_from is None:
        sizes = f"{facts.num_parameters:,} parameters for {facts.num_target_tokens:,} target tokens"
        better = "a smaller model usually translates better (Wu et al. 2021) and trains faster"
        message = f"{sizes}, {ratio:.0f} a token: {better}"
        hint = "halve model.d_model and the numbers of layers, or find more text"
        yield Finding("warning", "model_large_for_corpus", message, hint)
    epochs = min(epochs, training.max_epochs or math.inf)
    if epochs < 1.0:
        message = f"{steps} of {num_steps} steps an epoch: {1 - epochs:.0%} of the data are never seen"
        hint = f"set training.max_steps to at least {num_steps}, if that is not meant"
        yield Finding("note", "less_than_an_epoch", message, hint)
    elif epochs > _MAX_EPOCHS and training.patience is None:
        often = f"{epochs:,.0f} times through the {num_pairs:,} pairs"
        usual = f"published trainings on small corpora end after 50 to {_MAX_EPOCHS} times"
        message = f"{steps} of {num_steps} an epoch is {often}: {usual}"
        hint = f"set training.max_steps={_MAX_EPOCHS * num_steps} or fewer, or stop early by training.patience"
        yield Finding("warning", "very_many_epochs", message, hint)
