"""A config for text: the preset, vocabulary and steps that suit its size and this machine."""

import math
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import sentencepiece

from translate.config.data import Direction, TextCorpus
from translate.config.load import load_config
from translate.config.schema import Config, TrainingConfig
from translate.config.yaml import dump_yaml, presets_directory
from translate.data.cache import DataCache
from translate.data.corpora import read_corpus
from translate.data.tokenizer import VocabularyTooLarge
from translate.distributed.process_group import SINGLE_PROCESS
from translate.errors import InputError
from translate.lint.check import FINAL_VALIDATIONS, MAX_INSPECTED_PAIRS, Inspection, Report, check
from translate.lint.corpora import take_sample
from translate.lint.dry_run import DryRun
from translate.lint.vocabulary import LITTLE_NORMALIZED, find_normalized
from translate.messages import describe_seconds
from translate.starter.corpus import has_placeholders
from translate.training.setup import choose_place
from translate.trigrams import choose_bleu_tokenizer, count_words

_NIGHT = 480.0  # minutes
_USED_SHARE, _TRIED_SHARE = 0.93, 0.2  # of the minutes that are given: for training, and for trying models
_LEAST_STEPS = 100
_FAST_PRESET = "multi30k-muon"  # in these sizes: width, layers per stack, and the steps that are worth its size
_FAST_SIZES = [(128, 2, _LEAST_STEPS), (192, 2, 400), (256, 3, 700)]
_SIZES = [f"model.{key}" for key in ("d_model", "d_ff", "num_encoder_layers", "num_decoder_layers", "dropout")]


class NewConfig(NamedTuple):
    """A config, and what `translate check` says about it."""

    text: str  # YAML
    preset: str
    report: Report
    choices: dict[str, str]  # that a user should know


class TextSettings(NamedTuple):
    """What suits a text, whichever model is trained on it."""

    preset: str  # of the usual model
    num_epochs: int
    num_tokens: float  # of the targets, estimated
    settings: dict[str, Any]
    data: dict[str, Any]
    choices: dict[str, str]  # see `NewConfig`

    def extend(self, preset: str) -> dict[str, Any]:
        """A config for the text that extends a preset, whose test sets null removes."""
        path = str(presets_directory() / f"{preset}.yaml")
        test = dict.fromkeys(load_config(path).config.data.test) | {"test": self.data["test"]}
        return {"extends": path, "data": self.data | {"test": test}}


class Choice(NamedTuple):
    """A model, its speed on this machine, and its training in some time."""

    preset: str
    settings: dict[str, Any]
    report: Report
    measured: DryRun
    least_steps: int  # with fewer, a smaller model is better
    most_epochs: float  # with more, the text would only be memorised
    num_steps: int = 0
    num_validations: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        steps = f"{self.num_steps:,} steps, {self.num_steps / self.report.plan.steps_per_epoch:.1f} epochs"
        return f"{self.preset} with {self.measured.num_parameters:,} weights, {steps}, {describe_seconds(self.seconds)}"


def choose_in_time(choices: Iterable[Choice], minutes: float, *, preparation: float) -> Choice:
    """Choose the first model for which enough steps fit into the time, or the last one.

    There are ten validations, or as many as fit into 15 % of the time.

    Args:
        choices: The best first.
        preparation: The seconds before the first step.

    Raises:
        InputError: The last one cannot make useful steps either.
    """
    for choice in choices:
        steps_per_epoch, validation = choice.report.plan.steps_per_epoch, choice.measured.seconds_per_validation or 0.0
        step, most_steps = choice.measured.seconds_per_epoch / steps_per_epoch, choice.most_epochs * steps_per_epoch
        num_validations = max(1, min(10, int(9.0 * minutes / (validation or minutes))))
        others = preparation + (num_validations + FINAL_VALIDATIONS) * validation
        num_steps = min(max(1, int((_USED_SHARE * 60 * minutes - others) / step)), math.ceil(most_steps))
        choice = Choice(*choice[:6], num_steps, num_validations, others + num_steps * step)
        if num_steps >= choice.least_steps:
            break
    if num_steps < min(_LEAST_STEPS, choice.least_steps, most_steps):
        least = math.ceil(1.1 * (others + _LEAST_STEPS * step) / _USED_SHARE / 60)
        needs = f"{_LEAST_STEPS} steps of a small model and its validations take {least} minutes here"
        raise InputError(f"--minutes {minutes:g} is too short: {needs}; give --minutes {least} or more")
    return choice


def choose_settings(
    num_tokens: Sequence[float], num_characters: int, *, device: str
) -> tuple[str, int, dict[str, Any]]:
    """Choose the preset for a corpus, the number of epochs, and settings that may differ from the preset's.

    The preset multi30k has 8,000 subwords for the 900,000 tokens of Multi30k, and sees them 22 times. Of 1,000 and
    4,000 of its pairs, the validation loss was lowest after 45 and 72 times. `translate check` warns from 50 parameters
    per target token on.

    Args:
        num_tokens: Estimated numbers of tokens in the sources and in the targets.
        num_characters: The number of different characters.
        device: The kind of device that will train.
    """
    scale = math.sqrt(sum(num_tokens) / 900_000)
    num_subwords = max(min(8000 * scale, 16_000 if device == "cpu" else 32_000), num_characters + 500)  # with 256 bytes
    num_epochs = round(min(max(22 / scale, 10), 60))
    size = 500 * math.ceil(num_subwords / 500)
    settings: dict[str, Any] = {"tokenizer.vocab_size": size}
    if num_characters > 1000:
        settings["tokenizer.character_coverage"] = 0.9995
    if num_tokens[1] >= 3e6:  # some 200,000 pairs
        if device != "cpu":
            return "transformer-base", 3 * num_epochs, settings
        return "multi30k", num_epochs, settings | {"model.dropout": 0.1}
    most = 45 * num_tokens[1]  # parameters: 28 d² in two layers, and d for each subword
    if 3 * 28 * 256**2 + 256 * size <= most:
        return "multi30k", num_epochs, settings
    width = max((d_model for d_model in (128, 192) if 2 * 28 * d_model**2 + d_model * size <= most), default=64)
    return "demo", num_epochs, settings | {"model.d_model": width, "model.d_ff": 4 * width, "model.dropout": 0.3}


def propose_config(direction: Direction, *, name: str, folder: Path, minutes: float | None = None) -> NewConfig:
    """Write and check a config for the files of a split, which will be in the folder NAME next to it.

    Args:
        folder: Where the files are now.
        minutes: The time in which training should end; None: a night.

    Raises:
        InputError: Training would refuse the data, or the time is too short.
    """
    text = _suit_text(direction, folder)
    return _write_config(text, _choose_model(text, minutes=minutes), name=name, minutes=minutes)


def _suit_text(direction: Direction, folder: Path) -> TextSettings:
    """Read a text, and choose what depends on it alone: the usual model, its vocabulary, and which characters stay."""
    source, target = (folder / f"train.{code}" for code in direction)
    corpus = read_corpus(TextCorpus(source=source, target=target), key="data.train")
    num_words = [count_words(side) for side in corpus[1:3]]
    num_tokens = [1.3 * words or 0.7 * sum(map(len, side)) for words, side in zip(num_words, corpus[1:3], strict=True)]
    num_characters = len(set(chain.from_iterable(chain(corpus.sources, corpus.targets))))
    device = choose_place(Config(), SINGLE_PROCESS).type
    preset, num_epochs, settings = choose_settings(num_tokens, num_characters, device=device)
    languages = {f"{side}_language": code for side, code in direction._asdict().items()}
    data: dict[str, Any] = {"root": str(folder), **languages}
    for part in ("train", "validation", "test"):
        data[part] = {"kind": "text", "source": f"{part}.{direction.source}", "target": f"{part}.{direction.target}"}
    text = TextSettings(preset, num_epochs, num_tokens[1], settings, data, choices={})
    normalization = load_config(text.extend(preset)).config.tokenizer.normalization
    targets = take_sample(corpus, max_pairs=MAX_INSPECTED_PAIRS).targets
    normalizer = sentencepiece.SentencePieceNormalizer(rule_name=normalization)
    changed, lost = find_normalized(targets, normalizer.normalize(targets))
    if len(changed) >= LITTLE_NORMALIZED * len(targets):
        settings["tokenizer.normalization"] = "identity"
        kept = filter(str.isprintable, dict(lost.most_common(5)))
        text.choices["kept"] = f"{' '.join(kept)} as in the text: tokenizer.normalization=identity"
    if tokenizer := choose_bleu_tokenizer(direction.target, targets):
        settings["evaluation.bleu_tokenizer"] = tokenizer
    if has_placeholders(targets):
        settings["tokenizer.add_pieces"], data["train"]["augment"] = ["<placeholders>"], {"copy": 0.1}
        text.choices["copied"] = "placeholders, tags, addresses: tokenizer.add_pieces, augment.copy"
    return text


def _choose_model(text: TextSettings, *, minutes: float | None) -> Choice | Report:
    """Try the usual model and small ones, and choose one that fits into the time; without a time, the usual one.

    Returns:
        The choice; or what `check` says, if training would fail.
    """
    cache, num_epochs, limit = DataCache(), text.num_epochs, 60 * (minutes or _NIGHT)
    found, inspected = list[Choice](), list[Inspection]()

    def try_training(preset: str, changes: dict[str, Any]) -> Report:
        config = load_config(text.extend(preset) | text.settings | changes).config
        max_seconds = min(2.0 if found else 4.0, limit / 60)
        try:
            is_first = not (minutes or found)
            return check(config, max_seconds=max_seconds, cache=cache, inspected=inspected, tries_longest=is_first)
        except VocabularyTooLarge as error:  # the text has few different words
            text.settings["tokenizer.vocab_size"] = error.largest
            return try_training(preset, changes)

    training = load_config(text.extend(text.preset)).config.training
    usual_steps = choose_steps(int(num_epochs * text.num_tokens / (training.step_tokens or 1)), training)
    # Of each model: the steps and epochs that it needs at least, and the epochs that help at most.
    models: list[tuple[str, dict[str, Any], int, float, float]] = []
    for width, depth, least_steps in _FAST_SIZES:
        if width <= text.settings.get("model.d_model", width):
            sizes = dict(zip(_SIZES, (width, 4 * width, depth, depth, 0.1), strict=True))
            models.append((_FAST_PRESET, sizes, least_steps, 0.0, 0.4 * num_epochs))
    least_epochs = num_epochs / (6 if text.preset == "transformer-base" else 2)
    models.append((text.preset, {}, 0, least_epochs, num_epochs))
    started, preparation = time.perf_counter(), 0.0
    for preset, sizes, least_steps, least_epochs, most_epochs in models if minutes else models[::-1]:
        if found and minutes:  # of a larger model, an epoch takes longer
            needed = max(least_epochs, least_steps / found[-1].report.plan.steps_per_epoch)
            is_late = time.perf_counter() - started > _TRIED_SHARE * limit
            if is_late or needed * found[-1].measured.seconds_per_epoch > limit:
                break
        report = try_training(preset, sizes or usual_steps)
        preparation = preparation or time.perf_counter() - started  # training prepares the same
        if report.dry_run is None:
            break
        least_steps = max(least_steps, int(least_epochs * report.plan.steps_per_epoch))
        found.append(Choice(preset, sizes, report, report.dry_run, least_steps, most_epochs))
    if not found:
        return report
    if minutes:
        return choose_in_time(found[::-1], minutes, preparation=preparation)
    for other in (10, 30, 120):
        with suppress(InputError):  # too short
            text.choices[f"--minutes {other}"] = str(choose_in_time(found, other, preparation=preparation))
    return choose_in_time([found[0]._replace(least_steps=0)], _NIGHT, preparation=preparation)


def _write_config(text: TextSettings, chosen: Choice | Report, *, name: str, minutes: float | None) -> NewConfig:
    report = chosen if isinstance(chosen, Report) else chosen.report
    steps_per_epoch, preset, settings = report.plan.steps_per_epoch, text.preset, text.settings
    num_steps, num_validations, seconds, remark = text.num_epochs * steps_per_epoch, None, None, ""
    if isinstance(chosen, Choice):
        if minutes:
            num_validations, remark = chosen.num_validations, f"# Chosen for {minutes:g} minutes: {chosen}.\n"
        elif chosen.num_steps < num_steps:
            remark = f"# As many steps as fit into a night here; max_steps: {num_steps} would be better.\n"
        preset, num_steps, seconds = chosen.preset, chosen.num_steps, chosen.seconds
        is_long = preset == _FAST_PRESET and num_steps > 6 * steps_per_epoch
        settings |= chosen.settings | ({"model.dropout": 0.2} if is_long else {})
    base = load_config(text.extend(preset)).config
    settings |= choose_steps(num_steps, base.training, num_validations=num_validations)
    max_steps = settings.get("training.max_steps", base.training.max_steps)
    document = text.extend(preset) | {"extends": preset}
    for key, value in ({"data.root": name} | settings).items():
        section, _, leaf = key.partition(".")
        if base.model_dump()[section][leaf] != value:
            document.setdefault(section, {})[leaf] = value
    header = f"""\
# From `translate init`. `translate config show {name}.yaml` has all values; null removes a test set of the preset.
# Training sees the text {max_steps / steps_per_epoch:.0f} times; validation decides which checkpoint is best.
{remark}"""
    report = report._replace(plan=report.plan._replace(num_steps=max_steps, seconds=seconds))
    return NewConfig(header + dump_yaml(document, is_short=True), preset, report, text.choices)


def choose_steps(num_steps: int, preset: TrainingConfig, *, num_validations: int | None = None) -> dict[str, Any]:
    """The settings of a training with about `num_steps`, rounded to two digits; empty if the preset has about as many.

    With a number of validations the steps are exact, and a tenth of them lies between checkpoints.

    The peak of the learning rate is the preset's. With noam it depends on the warm-up, which stays as long if the
    training has time for it.
    """
    if num_validations is None and abs(num_steps / preset.max_steps - 1.0) < 0.1:
        return {}
    max_steps = num_steps if num_validations else round(num_steps, 1 - int(math.log10(num_steps)))
    between = math.ceil(max_steps / (num_validations or 8))
    steps: dict[str, Any] = {"max_steps": max_steps, "warmup_steps": max_steps // 10}
    if preset.schedule == "noam":
        warmup = steps["warmup_steps"] = min(preset.warmup_steps, max_steps // 4)
        steps["learning_rate"] = round(preset.learning_rate * math.sqrt(warmup / preset.warmup_steps), 3)
    steps |= {"validate_every": between, "save_every": math.ceil(max_steps / 10) if num_validations else between}
    return {f"training.{key}": value for key, value in steps.items()}
