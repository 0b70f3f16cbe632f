"""A config for text: the preset, vocabulary and steps that suit its size and this machine."""

import math
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import sentencepiece

from translate.config.data import Direction, TextCorpus
from translate.config.load import load_config
from translate.config.schema import Config, TrainingConfig
from translate.config.yaml import dump_yaml, presets_directory
from translate.data.corpora import read_corpus
from translate.data.tokenizer import VocabularyTooLarge
from translate.distributed.process_group import SINGLE_PROCESS
from translate.lint.check import MAX_INSPECTED_PAIRS, Report, check
from translate.lint.corpora import take_sample
from translate.lint.vocabulary import MUCH_NORMALIZED, find_normalized
from translate.training.setup import choose_place
from translate.trigrams import choose_bleu_tokenizer, count_words

_MOST_SECONDS = 8 * 3600.0  # of a training run: a night


class NewConfig(NamedTuple):
    """A config, and what `translate check` says about it."""

    text: str  # YAML
    preset: str
    report: Report


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


def propose_config(direction: Direction, *, name: str, folder: Path) -> NewConfig:
    """Write and check a config for the files of a split, which will be in the folder NAME next to it.

    Args:
        folder: Where the files are now.

    Raises:
        InputError: Training would refuse the data.
    """
    source, target = (folder / f"train.{code}" for code in direction)
    corpus = read_corpus(TextCorpus(source=source, target=target), key="data.train")
    num_words = [count_words(side) for side in corpus[1:3]]
    num_tokens = [1.3 * words or 0.7 * sum(map(len, side)) for words, side in zip(num_words, corpus[1:3], strict=True)]
    num_characters = len(set(chain.from_iterable(chain(corpus.sources, corpus.targets))))
    device = choose_place(Config(), SINGLE_PROCESS).type
    preset, num_epochs, settings = choose_settings(num_tokens, num_characters, device=device)
    preset_file = str(presets_directory() / f"{preset}.yaml")
    base = load_config(preset_file).config
    targets = take_sample(corpus, max_pairs=MAX_INSPECTED_PAIRS).targets
    normalizer = sentencepiece.SentencePieceNormalizer(rule_name=base.tokenizer.normalization)
    changed, _ = find_normalized(targets, normalizer.normalize(targets))
    if len(changed) >= MUCH_NORMALIZED * len(targets):
        settings["tokenizer.normalization"] = "identity"
    if tokenizer := choose_bleu_tokenizer(direction.target, targets):
        settings["evaluation.bleu_tokenizer"] = tokenizer
    data: dict[str, Any] = {f"{side}_language": code for side, code in direction._asdict().items()}
    for part in ("train", "validation", "test"):
        data[part] = {"kind": "text", "source": f"{part}.{direction.source}", "target": f"{part}.{direction.target}"}
    data["test"] = dict.fromkeys(base.data.test) | {"test": data["test"]}
    tried = settings | choose_steps(int(num_epochs * num_tokens[1] / (base.training.step_tokens or 1)), base.training)
    values = {"extends": preset_file, "data": {"root": str(folder), **data}, **tried}
    try:
        report = check(load_config(values).config, max_seconds=3.0)
    except VocabularyTooLarge as error:  # the text has few different words
        settings["tokenizer.vocab_size"] = error.largest
        report = check(load_config(values | settings).config, max_seconds=3.0)

    plan, num_steps = report.plan, num_epochs * report.plan.steps_per_epoch
    most = int(plan.num_steps * _MOST_SECONDS / plan.seconds) if plan.seconds else num_steps
    settings |= choose_steps(min(num_steps, most), base.training)
    chosen: int = settings.get("training.max_steps", base.training.max_steps)
    document: dict[str, Any] = {"extends": preset, "data": {"root": name, **data}}
    for key, value in settings.items():
        section, _, leaf = key.partition(".")
        if base.model_dump()[section][leaf] != value:
            document.setdefault(section, {})[leaf] = value
    text = f"""\
# From `translate init`. `translate config show {name}.yaml` has all values; null removes a test set of the preset.
# Training sees the text {chosen / plan.steps_per_epoch:.0f} times; validation decides which of its checkpoints is best.
"""
    if most < num_steps:
        text += f"# These are the steps that {device} makes in a night; max_steps: {num_steps} would be better.\n"
    plan = plan._replace(num_steps=chosen, seconds=plan.seconds and plan.seconds * chosen / plan.num_steps)
    return NewConfig(text + dump_yaml(document, is_short=True), preset, report._replace(plan=plan))


def choose_steps(num_steps: int, preset: TrainingConfig) -> dict[str, Any]:
    """The settings of a training with about `num_steps`, rounded to two digits; empty if the preset has about as many.

    The peak of the learning rate is the preset's. With noam it depends on the warm-up, which stays as long if the
    training has time for it.
    """
    if abs(num_steps / preset.max_steps - 1.0) < 0.1:
        return {}
    max_steps = round(num_steps, 1 - int(math.log10(num_steps)))
    between = math.ceil(max_steps / 8)  # validations
    steps: dict[str, Any] = {"max_steps": max_steps, "warmup_steps": max_steps // 10}
    if preset.schedule == "noam":
        warmup = steps["warmup_steps"] = min(preset.warmup_steps, max_steps // 4)
        steps["learning_rate"] = round(preset.learning_rate * math.sqrt(warmup / preset.warmup_steps), 3)
    steps |= {"validate_every": between, "save_every": between}
    return {f"training.{key}": value for key, value in steps.items()}
