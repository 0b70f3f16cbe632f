"""What is wrong with a config: a message names the key, the value, its bound or the nearest key, and the place."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from harness import in_order

from translate.config.languages import Languages
from translate.config.load import load_config, override_config
from translate.config.schema import Config, TrainingConfig
from translate.errors import InputError

Error = Callable[..., str]
SCHEDULES = get_args(TrainingConfig.model_fields["schedule"].annotation)
STREAM = "streaming: true, source_column: de, target_column: en"
TAGGED = "{kind: text, source: a, target: b, source_tag: <bt>}"
PAIR = "{kind: tsv, path: a.tsv}"
BACK = "{kind: tsv, path: a.tsv, source_language: en, target_language: de}"
BOTH = "{kind: tsv, path: a.tsv, both_directions: true}"
SAME = f"data.validation={BOTH}"
OLD = "data.validation_also={old: {kind: tsv, path: old.tsv}}"

MEANT = {  # an unknown key, and the nearest ones
    "training.learnig_rate=1": ["training.learning_rate"],
    "device=cpu": ["training.device", "decoding.device"],
    "modle.d_model=3": ["model"],
    "model.layers=3": ["model.num_encoder_layers", "model.num_decoder_layers"],
    "model.beam_size=9": ["decoding.beam_size"],
    "model.xyzzy=3": [],
    "training.batch_size=9": ["training.batch_tokens"],
    "data.train.1.source=a": ["data.train.1.source_language, data.train.1.source_tag", "data.train.1.source_column"],
    "data.train.0.streaming=true": [],
    "data.test.first.pth=a": ["data.test.first.path"],
    "data.validation.augment.typo=1": ["data.validation.augment.typos"],
}

WRONG: list[tuple[str, ...]] = [  # overrides, joined by " & ", and the words of the message in order
    ("training.schedule=cosin", 'training.schedule = "cosin"', *map(repr, SCHEDULES), "did you mean cosine?"),
    ("data.train.0.kind=txt", 'data.train.0.kind = "txt"', "'text', 'tsv', 'json'", "did you mean text?"),
    ("data.train.0.kind=tsv", "data.train.0.path"),
    ("data.train=[{source: a}]", "data.train.0.kind"),
    ("data.train=[a]", 'data.train.0 = "a"', "{kind: tsv"),
    ("data.train=a", 'data.train = "a"', "list"),
    ("data.train={kind: tsv, path: a, pth: b}", "data.train.0.pth (command line)", "data.train.0.path?"),
    (f"data.train=[{PAIR}] & data.train.-1.weight=2", "data.train.-1 ", "list of 1", "data.train.0"),
    ("data.train={}", "data.train = {}: ", "list"),
    ("data.train.0={kind: tsv, path: a, source_column: -1}", "data.train.0.source_column = -1: ", "number", "name"),
    ("tokenizer.add_pieces=<a>", 'tokenizer.add_pieces = "<a>"', "list"),
    ("data.language_tag=x", 'data.language_tag = "x"', "pattern"),
    ("data.test=[a]", 'data.test = ["a"]', "mapping"),
    ("data.test.other=null", "data.test.other = null", "mapping"),
    ("data.test={a b: {kind: tsv, path: x}}", "data.test.a b"),
    ("data.test={a.b: {kind: tsv, path: x}}", "data.test", "'a.b'", "dot"),
    ("data.train.0.weight=0", "data.train.0.weight = 0:", "greater than 0"),
    ("data.train.0.augment={upper_case: 0.9, lower_case: 0.3}", "data.train.0.augment.upper_case", "1.2"),
    ("data.train.0.augment=0.1", "data.train.0.augment = 0.1:"),
    (f"data.test={{a: {{kind: parquet, path: a, {STREAM}}}}}", "data.test.a.streaming = true", "data.train"),
    (f"data.test.news={TAGGED}", "data.test.news.source_tag = <bt>", "data.train"),
    *((f"data.train.0.source_tag='{tag}'", "data.train.0.source_tag") for tag in ("<b t>", "<s>")),
    (f"{OLD} & data.validation=null", "data.validation_also", "data.validation"),
    (f"data.validation={{a: {PAIR}, b: {PAIR}}}", "data.validation.a", "data.validation.b", "de-en"),
    (f"{OLD} & data.validation={{old: {PAIR}, new: {BACK}}}", "data.validation.old", "data.validation_also.old"),
    (f"data.validation={{new: {TAGGED}}}", "data.validation.new.source_tag = <bt>"),
    (f"data.validation={{new: {PAIR}}} & data.validation.new.pth=x", "data.validation.new.pth", "new.path?"),
    (f"data.train=[{PAIR}, {BACK}]", "data.train.0", "no languages", "data.train.1"),
    ("data.languages=[en, fr]", 'data.languages: "en" (command line)', "training.initialize_from"),
    (f"{SAME} & data.target_language=de", "data.validation.both_directions = true", "both de"),
    (f"data.test={{a: {BOTH}, a-de-en: {PAIR}}}", "data.test.a-de-en", "both_directions"),
    (f"data.train={{kind: parquet, path: a, {STREAM}}} & data.sampling_temperature=5", "temperature = 5", "0.st"),
    ("tokenizer.add_characters=true", "tokenizer.add_characters", "training.initialize_from"),
    ("tokenizer.vocabulary=separate", "model.tie_embeddings = 'all'", "tokenizer.vocabulary = 'joint'"),
    ('model.d_model="8"', 'model.d_model = "8":', "whole number"),
    ("model.dropout=a", 'model.dropout = "a":', "number"),
    ("model=", "model = null:"),
    ("model.num_heads=5", "model.num_heads = 5", "model.d_model = 64", "run.yaml:9"),
    ("model.positions=learned & data.max_source_tokens=1024", "model.max_positions = 1024", "data.max_source_tokens"),
    ("training.trackers=[wand]", 'training.trackers.0 = "wand":', "'tensorboard', 'wandb'", "did you mean wandb?"),
    ("training={lora_rank: 4, lora_targets: []}", "training.lora_rank = 4", "training.lora_targets"),
    ("training.tf32=yes", 'training.tf32 = "yes":', "true or false"),
    ("training.warmup_steps=0", "training.warmup_steps = 0", "training.schedule = 'noam'"),
    ("training.batch_tokens=aut", "training.batch_tokens = ", "auto"),
    ("training={batch_tokens: auto, accumulate_batches: 3}", "accumulate_batches = 3", "batch_tokens = 'auto'"),
    ("training={optimizer: muon, parallel: fsdp}", "training.optimizer = 'muon'", "training.parallel = 'fsdp'"),
    ("training={optimizer: muon, precision: fp16}", "training.optimizer = 'muon'", "bf16"),
    ("training={average_kept: true, keep_last: 1}", "training.average_kept", "training.keep_last", "keep_best"),
    ("training.keep_best=3 & data.validation=null", "training.keep_best", "data.validation"),
    (f"training.warmup_steps={'9' * 400}", f"training.warmup_steps = {'9' * 79}…", "9007199254740992"),
    ("decoding.n_best=6", "decoding.n_best = 6", "decoding.beam_size = 5"),
    ("decoding={n_best: 2, mbr: chrf, search: sample}", "decoding.n_best = 2", "1", "decoding.mbr = 'chrf'"),
    ("name=2024", "name = 2024:", "text"),
    ("data.train.0.source=x\udcff", "data.train.0.source", "'\\udcff'"),
    (f"data.root={'[' * 240}{']' * 240}", "nested"),
    ("model..d_model=3", "'model..d_model=3'", "dotted.key=value"),
    ("extends=demo", "unknown key extends"),
]


@pytest.mark.parametrize("override", MEANT)
def test_an_unknown_key_and_the_ones_that_were_meant(override: str, error: Error) -> None:
    key = override.partition("=")[0]
    message = error(override)
    assert in_order(message, "modle" if "modle" in key else key, "command line")
    _, _, question = message.partition("did you mean ")
    assert question == (f"{' or '.join(MEANT[override])}?" if MEANT[override] else "")


@pytest.mark.parametrize("row", WRONG, ids=lambda row: row[0][:60])
def test_what_is_wrong_with_an_override(row: tuple[str, ...], error: Error) -> None:
    overrides, *words = row
    message = error(*overrides.split(" & "))
    assert in_order(message, *words), message
    assert "command line" in message or "dotted.key=value" in message or words == ["nested"]
    assert "\n" not in message and "pydantic" not in message.lower()


def test_errors_in_files_name_the_line_and_all_are_reported(error: Error) -> None:
    Path("bad.yaml").write_text(
        "model:\n  d_model: 64\n  d_modle: 3\ntraining:\n  max_steps: 0\ndata:\n  train: [{kind: tsv}]\n"
    )
    first, second, third = error(name="bad.yaml").splitlines()
    assert in_order(first, "data.train.0.path", "(bad.yaml:7)")
    assert in_order(second, "model.d_modle", "(bad.yaml:3)", "model.d_model?")
    assert in_order(third, "training.max_steps = 0:", "(bad.yaml:5)")
    Path("bad.yaml").write_text("name: x\nmodel:\n")
    assert in_order(error(name="bad.yaml"), "model = null:", "(bad.yaml:2)")


ALLOWED = [
    "model.positions=learned & data.max_source_tokens=1023",
    "training.batch_tokens=auto",
    "decoding={n_best: 6, search: sample}",  # sampling draws as many
    f"{OLD} & data.validation_also.old=null & data.validation=null",
]


@pytest.mark.parametrize("overrides", ALLOWED)
def test_what_is_allowed(run_yaml: None, overrides: str) -> None:
    load_config("run.yaml", overrides.split(" & "))


def test_a_tag_of_two_corpora_is_one(run_yaml: None) -> None:
    data = load_config("run.yaml", [f"data.train=[{TAGGED}, {TAGGED}]"]).config.data
    assert Languages(data).all_tags == (["<bt>"], [])


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("decoding.beem_size", 2, "decoding.beem_size"),
        ("decoding.beam_size", "5", 'decoding.beam_size = "5"'),
        ("training.tf32", 1, "training.tf32 = 1"),
        ("training.learning_rate", math.inf, "training.learning_rate = .inf"),
        ("decoding.beam_size", np.float64(2.5), "decoding.beam_size = 2.5"),
        ("decoding.beam_size", {5}, "decoding.beam_size = {5}"),
        ("decoding", {"forbidden_ids": [b"x"]}, "decoding.forbidden_ids.0 = b'x'"),
    ],
)
def test_overrides_in_python_are_as_strict(key: str, value: object, word: str) -> None:
    with pytest.raises(InputError) as error:
        override_config(Config(), {key: value})
    assert word in str(error.value)
