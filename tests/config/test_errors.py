"""Errors in a config: they name the key, the value, the bound or the nearest key, and the place."""

from collections.abc import Callable
from pathlib import Path

import pytest

from translate.config.load import load_config

Error = Callable[..., str]

HERE = "(command line)"
CORPUS_FORM = "{kind: text, source: a.de, target: a.en}"
KINDS = "'text', 'tsv', 'json', 'csv', 'parquet', 'hub'"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.learnig_rate=1", f"unknown key training.learnig_rate {HERE}; did you mean training.learning_rate?"),
        ("d_model=3", f"unknown key d_model {HERE}; did you mean model.d_model?"),
        ("device=cpu", f"unknown key device {HERE}; did you mean training.device or decoding.device?"),
        ("modle.d_model=3", f"unknown key modle {HERE}; did you mean model?"),
        (
            "model.layers=3",
            f"unknown key model.layers {HERE}; did you mean model.num_encoder_layers or model.num_decoder_layers?",
        ),
        ("model.xyzzy=3", f"unknown key model.xyzzy {HERE}"),
        ("training.lr=3", f"unknown key training.lr {HERE}; did you mean training.learning_rate?"),
        ("lr=1e-3", f"unknown key lr {HERE}; did you mean training.learning_rate?"),
        ("beam=3", f"unknown key beam {HERE}; did you mean decoding.beam_size?"),
        ("training.batch_size=9", f"unknown key training.batch_size {HERE}; did you mean training.batch_tokens?"),
        (
            "batch_size=9",
            f"unknown key batch_size {HERE}; did you mean training.batch_tokens or decoding.batch_tokens?",
        ),
        ("training.epochs=9", f"unknown key training.epochs {HERE}; did you mean training.max_epochs?"),
        (
            "training.steps=9",
            f"unknown key training.steps {HERE}; did you mean training.max_steps or training.warmup_steps?",
        ),
        ("model.heads=9", f"unknown key model.heads {HERE}; did you mean model.num_heads?"),
        ("tokenizer.vocab=9", f"unknown key tokenizer.vocab {HERE}; did you mean tokenizer.vocab_size?"),
        ("model.beam_size=9", f"unknown key model.beam_size {HERE}; did you mean decoding.beam_size?"),
        ("modell.xyzzy=3", f"unknown key modell {HERE}; did you mean model?"),
        (
            "training.schedule=cosin",
            "training.schedule = \"cosin\": should be 'noam', 'inverse_sqrt', 'constant', 'linear' or 'cosine'"
            f" {HERE}; did you mean cosine?",
        ),
        ("data.train.0.sorce=a", f"unknown key data.train.0.sorce {HERE}; did you mean data.train.0.source?"),
        (
            "data.train.1.source=a",
            f"unknown key data.train.1.source {HERE}; did you mean data.train.1.source_tag or"
            " data.train.1.source_column?",
        ),
        ("data.train.0.text=a", f"unknown key data.train.0.text {HERE}; did you mean data.train.0.target?"),
        ("data.validation.tsv=a", f"unknown key data.validation.tsv {HERE}"),
        ("data.test.first.pth=a", f"unknown key data.test.first.pth {HERE}; did you mean data.test.first.path?"),
        ("data.train.0.kind=txt", f'data.train.0.kind = "txt": should be one of {KINDS} {HERE}; did you mean text?'),
        ("data.train.0.kind=[a]", f'data.train.0.kind = ["a"]: should be one of {KINDS} {HERE}'),
        ("data.train.0.kind=tsv", f"data.train.0.path is missing, and has no default {HERE}"),
        ("data.train=[{source: a}]", f"data.train.0.kind is missing, and has no default {HERE}"),
        ("data.train=[a]", f'data.train.0 = "a": should be a mapping, such as {CORPUS_FORM} for a corpus {HERE}'),
        ("data.train=a", f'data.train = "a": should be a list of corpora, such as [{CORPUS_FORM}] {HERE}'),
        ("data.test=[a]", f'data.test = ["a"]: should be a mapping, such as {CORPUS_FORM} for a corpus {HERE}'),
        (
            "data.test.other=null",
            f"data.test.other = null: should be a mapping, such as {CORPUS_FORM} for a corpus {HERE}",
        ),
        (
            "data.test={a b: {kind: tsv, path: x}}",
            f"data.test.a b = \"a b\": should match pattern '^[\\w-]+$' {HERE}",
        ),
        (
            "data.test={a.b: {kind: tsv, path: x}}",
            "command line: data.test: the key 'a.b' has a dot; in a mapping, write a section's keys below it",
        ),
        ("data.train.0.weight=0", f"data.train.0.weight = 0: should be greater than 0 {HERE}"),
        ("data.train.0.weight=.inf", f"data.train.0.weight = .inf: should be a finite number {HERE}"),
        ("data.train.0.weight=.nan", f"data.train.0.weight = .nan: should be a finite number {HERE}"),
        (
            "data.train.0.source=3",
            f"data.train.0.source = 3: should be text, in quotes if it looks like something else {HERE}",
        ),
        (
            "data.train.0.augment={uppercase: 1}",
            f"unknown key data.train.0.augment.uppercase {HERE}; did you mean data.train.0.augment.upper_case?",
        ),
        (
            "data.validation.augment.typo=1",
            f"unknown key data.validation.augment.typo {HERE}; did you mean data.validation.augment.typos?",
        ),
        (
            "data.validation.augment.typos=2",
            f"data.validation.augment.typos = 2: should be less than or equal to 1 {HERE}",
        ),
        (
            "data.train.0.augment={upper_case: 0.5, title_case: 0.3, lower_case: 0.4}",
            "data.train.0.augment.upper_case + title_case + lower_case = 1.2: a pair has one of them, so at most 1"
            f" {HERE}",
        ),
        (
            "data.train.0.augment=0.1",
            f"data.train.0.augment = 0.1: should be a section of keys and values, or be left out {HERE}",
        ),
        ("data.train.2.weight=2", "command line: data.train.2: '2' is no index of a list of 2, counted from 0"),
        ("data.train.x=2", "command line: data.train.x: 'x' is no index of a list of 2, counted from 0"),
        ("model.d_model=1", f"model.d_model = 1: should be greater than or equal to 2 {HERE}"),
        ('model.d_model="8"', f'model.d_model = "8": should be a whole number {HERE}'),
        ("model.d_model=8.0", f"model.d_model = 8.0: should be a whole number {HERE}"),
        ("model.d_model=true", f"model.d_model = true: should be a whole number {HERE}"),
        ("model.d_model=.inf", f"model.d_model = .inf: should be a whole number {HERE}"),
        ("model.dropout=a", f'model.dropout = "a": should be a number {HERE}'),
        ("model.dropout=1", f"model.dropout = 1: should be less than 1 {HERE}"),
        ("model.norm=mid", f"model.norm = \"mid\": should be 'post' or 'pre' {HERE}"),
        ("model=", f"model = null: should be a section of keys and values, or be left out {HERE}"),
        ("model=3", f"model = 3: should be a section of keys and values, or be left out {HERE}"),
        ("model.d_model.x=3", f'model.d_model = {{"x": 3}}: should be a whole number {HERE}'),
        ("model.num_heads=5", "model.num_heads = 5 must divide model.d_model = 64 (command line, run.yaml:9:3)"),
        ("training.trackers=wandb", f'training.trackers = "wandb": should be a list, such as [wandb] {HERE}'),
        ("training.freeze=encoder", f'training.freeze = "encoder": should be a list, such as [encoder] {HERE}'),
        (
            "training.freeze=[encoder.layers]",
            "training.freeze = encoder.layers: should be embeddings, encoder, decoder, or layers such as encoder.0 or"
            f" decoder.2-5; did you mean encoder? {HERE}",
        ),
        (
            "training.freeze=[embedding]",
            "training.freeze = embedding: should be embeddings, encoder, decoder, or layers such as encoder.0 or"
            f" decoder.2-5; did you mean embeddings? {HERE}",
        ),
        (
            "training={lora_rank: 4, lora_targets: []}",
            f"training.lora_rank = 4 needs at least one of training.lora_targets {HERE}",
        ),
        ("data.leave_out=equal", f'data.leave_out = "equal": should be a list, such as [repeated] {HERE}'),
        ("training.lora_targets=query", f'training.lora_targets = "query": should be a list, such as [query] {HERE}'),
        (
            "training.lora_targets=[q]",
            f"training.lora_targets.0 = \"q\": should be 'query', 'key', 'value', 'output' or 'feed_forward' {HERE}",
        ),
        (
            "training.trackers=[wand]",
            f"training.trackers.0 = \"wand\": should be 'tensorboard', 'wandb' or 'mlflow' {HERE}; did you mean wandb?",
        ),
        ("training.tf32=yes", f'training.tf32 = "yes": should be true or false {HERE}'),
        (
            "training.warmup_steps=0",
            f"training.warmup_steps = 0 must be at least 1 for training.schedule = 'noam' {HERE}",
        ),
        ("name=2024", f"name = 2024: should be text, in quotes if it looks like something else {HERE}"),
        (
            "name=..",
            "name = \"..\": a run's name has letters, digits, '_', '-' and '.', and does not begin with '-' or '.'"
            f" {HERE}",
        ),
        ("name=[", "command line: name: not valid YAML: while parsing a flow node"),
        ("data.validation={a: 1, a: 2}", "command line: data.validation: the key 'a' is given twice"),
        ("1=x", f"unknown key 1 {HERE}"),
        (f"data.root={'[' * 240}{']' * 240}", "the config is nested too deeply"),
        ("model", "'model' is no override: write dotted.key=value, such as model.d_model=256"),
        (
            f"data.train.{'9' * 5000}.weight=1",
            f"'data.train.{'9' * 69}' is no override: write dotted.key=value, such as model.d_model=256",
        ),
        ('extends="\ud800"', "command line: 'extends=\"\\ud800\"': extends can only stand in a config file"),
        (
            "data.train.0.source=x\udcff",
            "command line: data.train.0.source: not valid YAML: the character '\\udcff', which is not UTF-8: rename the"
            " file, or give a link to it",
        ),
        (
            f"training.warmup_steps={'9' * 400}",
            f"training.warmup_steps = {'9' * 79}…: should be less than or equal to 9007199254740992 {HERE}",
        ),
        (
            "training.device=cuda:99999999999999999999",
            f"training.device = \"cuda:99999999999999999999\": should match pattern '^[a-z]+(:[1-9]?[0-9])?$' {HERE}",
        ),
        (
            "decoding.device=cuda:١",
            f"decoding.device = \"cuda:١\": should match pattern '^[a-z]+(:[1-9]?[0-9])?$' {HERE}",
        ),
        ("model..d_model=3", "'model..d_model=3' is no override: write dotted.key=value, such as model.d_model=256"),
    ],
)
def test_what_is_wrong_with_an_override(override: str, message: str, error: Error) -> None:
    assert error(override).split(", expected the node")[0] == message


def test_errors_in_files_name_line_and_column_and_all_are_reported(error: Error) -> None:
    Path("bad.yaml").write_text(
        "model:\n  d_model: 64\n  d_modle: 3\ntraining:\n  max_steps: 0\ndata:\n  train: [{kind: tsv}]\n"
    )
    assert error(name="bad.yaml").splitlines() == [
        "data.train.0.path is missing, and has no default (bad.yaml:7:11)",
        "unknown key model.d_modle (bad.yaml:3:3); did you mean model.d_model?",
        "training.max_steps = 0: should be greater than or equal to 1 (bad.yaml:5:3)",
    ]
    Path("bad.yaml").write_text("name: x\nmodel:\n")
    assert (
        error(name="bad.yaml") == "model = null: should be a section of keys and values, or be left out (bad.yaml:2:1)"
    )


def test_sections_that_do_not_agree(error: Error) -> None:
    assert error("tokenizer.vocabulary=separate") == (
        "model.tie_embeddings = 'all' needs tokenizer.vocabulary = 'joint'; 'decoder' and 'none' do not (command line)"
    )
    assert "model.max_positions = 1024 is less than" in error("model.positions=learned", "data.max_source_tokens=1024")
    loaded = load_config("run.yaml", ["model.positions=learned", "data.max_source_tokens=1023"])
    assert loaded.config.data.max_source_tokens == 1023
