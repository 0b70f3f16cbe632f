"""What tests start from: a toy language, digits to reverse, and tiny tokenizers, models, configs and runs.

Tests import these functions (`from harness import random_model`). What is made once per process (`toy`) and what ends
with a test (`pretend`, `browser`) is a fixture of tests/conftest.py.
"""

import contextlib
import errno
import functools
import hashlib
import io
import json
import os
import random
import re
import termios
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import pytest
import sentencepiece
import torch
import torch.nn.functional as F
import typer
from jaxtyping import config as shape_checks
from typer.testing import CliRunner, Result

from translate.cli import app
from translate.config.languages import Languages
from translate.config.load import load_config
from translate.config.schema import Config, ModelConfig, TokenizerConfig
from translate.data.batching import Batch, EncodedPair, collate
from translate.data.extension import add_tags
from translate.data.tokenizer import PAD_ID, Tokenizers, prepare_tokenizers
from translate.decoding import Translation, Translator
from translate.exchange import import_model
from translate.exchange.importing import ImportedModel
from translate.model import Transformer
from translate.runs.checkpoint import add_prefix, read_tensors, write_checkpoint, write_tensors
from translate.runs.directory import Checkpoint, RunDirectory, create_run
from translate.runs.progress import Progress
from translate.runs.weights import build_model, get_parameters

Sentences = tuple[list[str], list[str]]
MakeTranslator = Callable[..., Translator]

TOY_WORDS = {"Hund": "dog", "Haus": "house", "läuft": "runs", "schläft": "sleeps", "grün": "green", "und": "and"}
TAGS = {"source": "<2{}>", "target": "<to-{}>", "both": "__{}__"}  # one spelling for each of `data.language_tags`
TINY_MODEL = {"d_model": 8, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 1, "num_decoder_layers": 1}

_DIGITS = """
data:
  train: [{kind: text, source: train.in, target: train.out}]
  validation: {kind: text, source: validation.in, target: validation.out}
  test: {held_out: {kind: text, source: validation.in, target: validation.out}}
tokenizer: {vocab_size: 40, byte_fallback: false}
model: {d_model: 16, num_heads: 2, d_ff: 32, num_encoder_layers: 1, num_decoder_layers: 1, dropout: 0.1, norm: pre}
training:
  {max_steps: 12, batch_tokens: 300, schedule: constant, learning_rate: 0.005, warmup_steps: 3, precision: fp32,
   device: cpu, validate_every: 6, save_every: 4, log_every: 5, sample_translations: 1}
decoding: {beam_size: 2, max_length_factor: 1.0, max_length_constant: 3, device: cpu}
"""


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Write a file of UTF-8 with one line per text."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def corpus_lines(name: str, *, step: int = 1) -> list[str]:
    """The lines of a file of the embedded corpus, such as train.de, or each so many-th of them."""
    return (Path(__file__).resolve().parents[2] / "data" / name).read_text(encoding="utf-8").splitlines()[::step]


def toy_sentences(number: int, *, longest: int, draw: random.Random, words: dict[str, str] = TOY_WORDS) -> Sentences:
    """Sentences of a toy language and their translations.

    A translation has one word per word, but two for "und", so that its length differs from the source's.
    """
    sources = [draw.choices(list(words), k=draw.randint(1, longest)) for _ in range(number)]
    targets = [[words[word] + (" and" if word == "und" else "") for word in source] for source in sources]
    return [" ".join(source) for source in sources], [" ".join(target) for target in targets]


def write_reversed_digits(folder: Path, name: str, *, num_pairs: int, draw: random.Random, longest: int = 7) -> None:
    """Write pairs of digits and reversed digits into NAME.in and NAME.out of a folder."""
    sources = ["".join(draw.choices("0123456789", k=draw.randint(2, longest))) for _ in range(num_pairs)]
    write_lines(folder / f"{name}.in", sources)
    write_lines(folder / f"{name}.out", [line[::-1] for line in sources])


def write_digits(folder: Path, *fixed: str) -> Callable[..., Config]:
    """Write a task that `translate.train` learns in seconds: `digits.yaml`, 211 pairs, and 23 for validation.

    Returns:
        A function that gives the config with the overrides `fixed` and its own.
    """
    write_reversed_digits(folder, "train", num_pairs=211, draw=random.Random(1))
    write_reversed_digits(folder, "validation", num_pairs=23, draw=random.Random(2))
    (folder / "digits.yaml").write_text(_DIGITS, encoding="utf-8")

    def load(*overrides: str) -> Config:
        return load_config(str(folder / "digits.yaml"), (*fixed, *overrides), require_files=True).config

    return load


def stream_digits(folder: Path, *, segment_pairs: int) -> None:
    """Make the training pairs of a folder with `digits.yaml` a stream."""
    sides = [(folder / name).read_text().splitlines() for name in ("train.in", "train.out")]
    rows = [json.dumps({"in": source, "out": target}) for source, target in zip(*sides, strict=True)]
    write_lines(folder / "train.json", rows)
    text = (folder / "digits.yaml").read_text()
    listed = "{kind: text, source: train.in, target: train.out}"
    stream = "{kind: json, path: train.json, source_column: in, target_column: out, streaming: true}"
    assert listed in text
    text = text.replace(listed, stream).replace("data:", f"data:\n  stream_segment_pairs: {segment_pairs}", 1)
    (folder / "digits.yaml").write_text(text)


@contextlib.contextmanager
def renaming_as_windows_does() -> Iterator[None]:
    """A file that this process has open cannot be renamed or replaced. Needs Linux's /proc, and does nothing without.

    A file that was open when another replaced it counts too.
    """

    def open_files() -> Iterator[str]:
        for descriptor in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
            with contextlib.suppress(OSError):  # the descriptor of the folder itself
                yield os.readlink(f"/proc/self/fd/{descriptor}").removesuffix(" (deleted)")

    def checked(rename: Callable[..., None]) -> Callable[..., None]:
        def rename_closed(old: str | Path, new: str | Path) -> None:
            for path in open_files():
                if Path(path).is_relative_to(Path(old).absolute()) or path == str(Path(new).absolute()):
                    raise PermissionError(errno.EACCES, "renamed while it is open", path)
            rename(old, new)

        return rename_closed

    with pytest.MonkeyPatch.context() as patch:
        for name in ("replace", "rename"):
            patch.setattr(os, name, checked(getattr(os, name)))
        yield


@contextlib.contextmanager
def files_up_to(num_bytes: int) -> Iterator[None]:
    """No file may grow beyond this size, as on a full disk, for root too; pytest's own files are held to it as well."""
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@contextlib.contextmanager
def terminal(*, is_pipe: bool = False, columns: int = 80) -> Iterator[tuple[TextIO, Callable[[], str]]]:
    """A terminal to write to, or a pipe, and a function that gives all that was written."""
    reader, writer = os.pipe() if is_pipe else os.openpty()
    if not is_pipe:
        termios.tcsetwinsize(writer, (24, columns))
    with os.fdopen(reader, "rb", buffering=0) as shown, os.fdopen(writer, "w", encoding="utf-8") as stream:

        def read() -> str:
            print("END", end="", file=stream, flush=True)
            text = ""
            while not text.endswith("END"):
                text += shown.read(100_000).decode()
            return text.removesuffix("END")

        yield stream, read


def values_of(batches: Iterable[Batch]) -> list[tuple[object, ...]]:
    """Everything in some batches, to be compared."""
    return [(batch.indices, *(ids.tolist() for ids in batch[:3])) for batch in batches]


def tiny_config(**sections: dict[str, Any]) -> Config:
    """A config with a model of 8 dimensions, with changes by section: `tiny_config(model={"norm": "pre"})`."""
    tiny: dict[str, dict[str, Any]] = {
        "tokenizer": {"vocab_size": 300},
        "model": TINY_MODEL,
        "decoding": {"beam_size": 2, "max_length_factor": 0.0, "max_length_constant": 4, "device": "cpu"},
    }
    changed = {name: tiny.get(name, {}) | sections.get(name, {}) for name in {*tiny, *sections}}
    return Config.model_validate({"name": "tiny", **changed})


@functools.cache
def toy_tokenizers(**settings: Any) -> Tokenizers:
    """Tokenizers of the toy language; a joint vocabulary of 300 pieces, unless the settings differ."""
    sentences = toy_sentences(100, longest=6, draw=random.Random(5))
    return prepare_tokenizers(TokenizerConfig(**{"vocab_size": 300} | settings), *sentences)


def random_model(
    vocabulary: int | Tokenizers, *, noise: float = 0.2, pad_id: int = PAD_ID, **shape: Any
) -> Transformer:
    """An untrained model in training mode, in which a forgotten weight shows: norms are not ones, biases not zeros.

    Args:
        vocabulary: Size of both vocabularies, or the tokenizers that have them.
        shape: Values of `ModelConfig`; the smallest model otherwise.
    """
    sizes = [vocabulary] * 2 if isinstance(vocabulary, int) else [side.vocab_size for side in vocabulary[:2]]
    config = ModelConfig.model_validate(TINY_MODEL | shape)
    model = Transformer(config, source_vocab_size=sizes[0], target_vocab_size=sizes[1], pad_id=pad_id)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(noise * torch.randn_like(parameter))
    return model


def model_to_export(
    *, vocabulary: str = "joint", noise: float = 0.3, **shape: object
) -> tuple[Transformer, Tokenizers]:
    """An untrained model with 2+3 layers, and its tokenizers, which differ in size if they are separate."""
    tokenizers = toy_tokenizers()
    if vocabulary == "separate":
        source, target = (
            toy_tokenizers(vocabulary="separate", vocab_size=size, byte_fallback=False) for size in (23, 27)
        )
        tokenizers = source._replace(target=target.target)
    sizes = {"d_model": 20, "num_heads": 2, "d_ff": 28, "num_encoder_layers": 2, "num_decoder_layers": 3}
    return random_model(tokenizers, noise=noise, **sizes | shape).eval(), tokenizers


TINY_PRETRAINED = {  # the shape of a MarianMT or M2M100 model
    "d_model": 20, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 28, "decoder_ffn_dim": 28, "max_position_embeddings": 97,
}  # fmt: skip


def train_spm(lines: Sequence[str], **options: Any) -> bytes:
    """A SentencePiece model with 400 pieces and Marian's special ids, unless the options differ."""
    model, ids = io.BytesIO(), {"unk_id": 1, "eos_id": 0, "bos_id": -1, "pad_id": -1}
    settings = {"minloglevel": 2, "num_threads": 1, "vocab_size": 400, **ids, **options}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, **settings)
    return model.getvalue()


@functools.cache
def _fairseq_spm(model_type: str) -> bytes:
    lines = [*corpus_lines("train.de")[:1500], *corpus_lines("train.en")[:1500]]
    return train_spm(lines, model_type=model_type, unk_id=0, bos_id=1, eos_id=2)


def import_(folder: Path, run: Path, *overrides: str, **options: Any) -> ImportedModel:
    """Import another toolkit's model as `translate import` does."""
    return import_model(str(folder), run, overrides=overrides, command=["translate", "import"], **options)


def make_m2m100(folder: Path, kind: str, *, max_length: int = 30, **settings: Any) -> Path:
    """Write a folder with the files of `facebook/m2m100_418M`, NLLB-200 ("nllb") or mBART-50, small and untrained."""
    import transformers

    folder.mkdir(parents=True)
    spm = _fairseq_spm("unigram" if kind == "mbart" else "bpe")
    (folder / "sentencepiece.bpe.model").write_bytes(spm)
    processor = sentencepiece.SentencePieceProcessor(model_proto=spm)
    pieces = [processor.id_to_piece(token) for token in range(3, processor.get_piece_size())]
    names, num_languages = ["<s>", "<pad>", "</s>", "<unk>", *pieces], 100
    tokenizer_config: dict[str, Any] = {"tokenizer_class": "M2M100Tokenizer"}
    if kind == "nllb":
        codes = ["deu_Latn", "eng_Latn", "fra_Latn"]
        added = dict(enumerate([*codes, "<mask>"], start=len(names))) | dict(enumerate(names[:4]))
        tokenizer_config = {"tokenizer_class": "NllbTokenizer", "extra_special_tokens": codes}
        tokenizer_config["added_tokens_decoder"] = {
            str(row): {"content": name, "special": True, "normalized": False} for row, name in added.items()
        }
        num_languages = 4
    elif kind == "mbart":
        codes = transformers.models.mbart50.tokenization_mbart50.FAIRSEQ_LANGUAGE_CODES
        tokenizer_config, num_languages = {"tokenizer_class": "MBart50Tokenizer"}, len(codes) + 1
    else:
        codes = transformers.models.m2m_100.tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES["m2m100"]
        tokenizer_config["additional_special_tokens"] = [f"__{code}__" for code in codes]
        (folder / "vocab.json").write_text(json.dumps({piece: row for row, piece in enumerate(names)}))
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    name = "MBart" if kind == "mbart" else "M2M100"
    config = getattr(transformers, f"{name}Config")(
        vocab_size=len(names) + num_languages + 3,  # with rows that have no name
        **TINY_PRETRAINED | {"encoder_layerdrop": 0.0, "decoder_start_token_id": 2, "scale_embedding": True} | settings,
    )
    torch.manual_seed(7)
    model = getattr(transformers, f"{name}ForConditionalGeneration")(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # so that translations differ
            parameter.normal_(std=0.3)
            if "norm.weight" in name:
                parameter.mul_(0.3).add_(1.0)
        model.model.shared.weight[1] = 0.0
    model.generation_config = transformers.GenerationConfig(
        decoder_start_token_id=2, eos_token_id=2, pad_token_id=1, bos_token_id=0, max_length=max_length, num_beams=5
    )
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(folder)
    return folder


def teach_mbart(folder: Path, *, num_steps: int) -> None:
    """Train the model of `make_m2m100(…, "mbart")` on three directions; its "French" is English in reverse."""
    import transformers

    torch.manual_seed(7)
    config = transformers.MBartConfig.from_pretrained(folder)
    model, tokenizer = (
        transformers.MBartForConditionalGeneration(config),
        transformers.MBart50Tokenizer.from_pretrained(folder),
    )
    german, english = corpus_lines("train.de")[:20], corpus_lines("train.en")[:20]
    french = [" ".join(reversed(line.split())) for line in english]
    batches = []
    for source, sources, target, targets in (
        ("de_DE", german, "en_XX", english), ("en_XX", english, "de_DE", german), ("de_DE", german, "fr_XX", french),
    ):  # fmt: skip
        tokenizer.src_lang, tokenizer.tgt_lang = source, target
        batch = tokenizer(
            sources, text_target=targets, return_tensors="pt", padding=True, max_length=20, truncation=True
        )
        labels = batch["labels"]
        batch["decoder_input_ids"] = F.pad(labels[:, :-1], (1, 0), value=2)
        batches.append({**batch, "labels": labels.masked_fill(labels == 1, -100)})
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for step in range(num_steps):
        optimizer.zero_grad()
        model(**batches[step % len(batches)]).loss.backward()
        optimizer.step()
    for stack in (model.model.encoder, model.model.decoder):
        stack.embed_positions.weight.data[:2] = 0.0  # no token has these
    model.final_logits_bias.normal_(std=0.1)
    model.generation_config = transformers.GenerationConfig.from_pretrained(folder)
    model.save_pretrained(folder)


@contextlib.contextmanager
def without_shape_checks() -> Iterator[None]:
    """Shapes are not checked, which takes most of the time of a tiny model: for what repeats another test's calls."""
    was_disabled = bool(shape_checks.jaxtyping_disable)
    shape_checks.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        shape_checks.update("jaxtyping_disable", was_disabled)


@without_shape_checks()
def teach(
    model: Any,
    tokenizers: Tokenizers,
    sentences: Sentences,
    *,
    num_steps: int,
    batch_size: int,
    rate: Callable[[int], float],
) -> None:
    """Train a model on sentences and their translations, and put it into evaluation mode."""
    sides = zip((tokenizers.source, tokenizers.target), sentences, strict=True)
    ids = [tokenizer.encode_lines(lines, num_threads=1) for tokenizer, lines in sides]
    pairs = list(map(EncodedPair, *ids))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98))
    draw = random.Random(2)
    for step in range(1, num_steps + 1):
        optimizer.param_groups[0]["lr"] = rate(step)
        batch = collate(draw.sample(pairs, batch_size), range(batch_size))
        logits = model(batch.source_ids, batch.target_input_ids)
        loss = F.cross_entropy(logits.flatten(0, 1), batch.target_output_ids.flatten(), ignore_index=PAD_ID)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()


class Toy(NamedTuple):
    """A run on disk, its model, and sentences that the model has not seen."""

    path: Path
    config: Config
    model: Transformer
    tokenizers: Tokenizers
    sources: list[str]
    references: list[str]


def write_run(
    path: Path, config: Config, tokenizers: Tokenizers, model: Transformer, *, which: Checkpoint = "best", step: int = 7
) -> Path:
    """Write a run directory with one checkpoint, which translates but cannot be resumed."""
    run = create_run(path, config=config, tokenizers=tokenizers, command=["translate", "train"])
    write_tensors(run.checkpoint(which), add_prefix(get_parameters(model), "model."), {"step": str(step)})
    return path


def write_weights(run: RunDirectory, model: Transformer, which: Checkpoint, step: int, **progress: Any) -> None:
    """Write a model's weights as a checkpoint; `last` with what a resumed training needs, as far as `verify` looks."""
    weights = get_parameters(model)
    tensors, metadata = add_prefix(weights, "model."), {"step": str(step)}
    if which == "last":
        for entry in ("exp_avg", "exp_avg_sq"):
            tensors |= {f"optimizer.{name}/{entry}": torch.zeros_like(weight) for name, weight in weights.items()}
        tensors |= {f"optimizer.{name}/step": torch.tensor(float(step)) for name in weights}
        metadata["progress"] = Progress("data", step=step, **progress).to_json()
    write_checkpoint(run, which, tensors, metadata)


def flip_a_bit(file: Path) -> None:
    """Damage a file in its middle."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)


def cut(file: Path) -> None:
    """Damage a file at its end."""
    os.truncate(file, file.stat().st_size - 1)


def make_toy(path: Path, config: Config | None = None, *, num_steps: int = 240, seed: int = 1) -> Toy:
    """A run whose model has learnt the toy language, so that its translations differ and end by themselves.

    Args:
        config: From English to German if its data say so.
        num_steps: 0 for a model that has learnt nothing; 150 for one that makes mistakes.
    """
    config = config or tiny_config(
        model={"d_model": 32, "num_heads": 4, "d_ff": 64, "dropout": 0.0, "initialization": "xavier"},
        decoding={"beam_size": 5, "max_length_factor": 2.0, "max_length_constant": 20},
    )
    sides = slice(None, None, -1 if config.data.source_language == "en" else 1)
    sentences = toy_sentences(3000, longest=6, draw=random.Random(1))[sides]
    tokenizers = prepare_tokenizers(config.tokenizer, *sentences)
    torch.manual_seed(seed)
    model = build_model(config, tokenizers)

    # The rate falls in the end; else the last digits of a CPU decide whether the model learns where sentences end.
    def rate(step: int) -> float:
        return 5e-3 * min(step / 30, 1.0, (num_steps + 1 - step) / 120)

    teach(model, tokenizers, sentences, num_steps=num_steps, batch_size=24, rate=rate)
    write_run(path, config, tokenizers, model)
    return Toy(path, config, model, tokenizers, *toy_sentences(37, longest=6, draw=random.Random(3))[sides])


def make_two_ways(folder: Path, kinds: Sequence[str], *, num_steps: int = 400, **sections: Any) -> dict[str, Toy]:
    """Runs of one model that has learnt both directions of the toy language, by the kind of tags that tell it.

    Args:
        kinds: Values of `data.language_tags`; each has its own spelling of tags.
        num_steps: 0 for a model that has learnt nothing.
        sections: Changes to the runs' config, by section.
    """
    shape = {"d_model": 32, "num_heads": 4, "d_ff": 64, "dropout": 0.0, "norm": "pre", "positions": "rotary"}
    search = {"beam_size": 5, "max_length_factor": 2.0, "max_length_constant": 20}
    corpus = {"kind": "text", "source": "toy.de", "target": "toy.en", "both_directions": True}
    configs = {}
    for kind in kinds:
        data = {"train": [corpus], "language_tags": kind, "language_tag": TAGS[kind]}
        changes = {"model": shape, "decoding": search, "data": data}
        configs[kind] = tiny_config(**{name: each | sections.get(name, {}) for name, each in changes.items()})
    there = toy_sentences(1500, longest=5, draw=random.Random(1))
    tokenizers, taught = prepare_tokenizers(tiny_config().tokenizer, *there), (list[str](), list[str]())
    for languages in (Languages(config.data) for config in configs.values()):
        tokenizers = add_tags(tokenizers, *languages.all_tags)
        for direction, sides in zip(languages.directions, (there, there[::-1]), strict=True):
            for lines, tag, texts in zip(taught, languages.tags_of(direction), sides, strict=True):
                lines += [f"{tag} {text}" if tag else text for text in texts]
    torch.manual_seed(1)
    model = build_model(next(iter(configs.values())), tokenizers).eval()

    def rate(step: int) -> float:
        return 1e-2 * min(1.0, step / 30, (num_steps + 1 - step) / 150)

    teach(model, tokenizers, taught, num_steps=num_steps, batch_size=32, rate=rate)
    new = toy_sentences(20, longest=5, draw=random.Random(3))
    return {
        kind: Toy(write_run(folder / kind, config, tokenizers, model), config, model, tokenizers, *new)
        for kind, config in configs.items()
    }


def assert_same(translations: Sequence[Translation], expected: Sequence[Translation]) -> None:
    """Check that translations are alike: texts and conditions exactly, the model's numbers but for rounding."""

    def without_numbers(each: Translation) -> Translation:
        return each._replace(log_prob=0.0, score=0.0, token_log_probs=(), alternatives=(), pieces=())

    assert list(map(without_numbers, translations)) == list(map(without_numbers, expected))
    for one, other in zip(translations, expected, strict=True):
        assert abs(one.log_prob - other.log_prob) < 1e-3 and abs(one.score - other.score) < 1e-3
        pairs = zip(one.token_log_probs, other.token_log_probs, strict=True)
        assert all(abs(mine - theirs) < 1e-4 for mine, theirs in pairs)
        assert_same(one.alternatives, other.alternatives)
        assert_same(one.pieces, other.pieces)


def in_order(text: str, *words: str) -> bool:
    """Whether a message has these words in this order: the keys, values and places that it names."""
    return re.search(".*".join(map(re.escape, words)), text, flags=re.DOTALL) is not None


def counts_told(text: str) -> str:
    """The counts that a command reports at its end, without the time that it took."""
    (counts,) = re.findall(r"^(\d+ lines, .*) in [\d.]+ s", text, flags=re.MULTILINE)
    return str(counts)


def page_data(page: str) -> Any:
    """What the script of a picture's page draws."""
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, flags=re.DOTALL)
    return json.loads(data)


def run_command(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    """Run `translate` in this process; an exception other than its own exit fails the test."""
    return CliRunner().invoke(
        app, list(map(str, arguments)), input=stdin, prog_name="translate", catch_exceptions=False
    )


def succeed(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    """Run `translate` in this process, which must end with exit code 0."""
    result = run_command(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result


def commands(name: str = "", command: Any = None) -> dict[str, Any]:
    """Every command of `translate` and group of commands, as typer has them, by the words that call it."""
    command = command or typer.main.get_command(app)
    found = {name: command}
    for each in getattr(command, "commands", ()):
        found |= commands(f"{name} {each}".strip(), command.get_command(None, each))
    return found


class RunState(NamedTuple):
    """Everything that must be equal, byte for byte, in two runs of the same training: all but times."""

    last: dict[str, str]  # checksums of tensors: weights, average, optimizer
    best: dict[str, str]
    best_step: str
    progress: dict[str, Any]
    metrics: list[dict[str, Any]]


def state_of(path: Path) -> RunState:
    """Read the `RunState` of a run directory."""

    def checksum(tensor: torch.Tensor) -> str:
        return hashlib.sha256(tensor.reshape(-1).view(torch.uint8).numpy().tobytes()).hexdigest()

    run = RunDirectory(path)
    last, best = read_tensors(run.checkpoint("last")), read_tensors(run.checkpoint("best"))
    progress = json.loads(last.metadata["progress"])
    # The checksum of the metrics file covers times; its records are compared below without them.
    assert progress.pop("metrics_bytes") is not None and progress.pop("metrics_sha256") is not None
    assert progress["window"].pop("seconds") >= 0.0
    records = [json.loads(line) for line in run.metrics.read_text(encoding="utf-8").splitlines()]
    for record in records:
        for timed in [name for name in record if name in ("seconds", "waiting") or name.endswith("_per_second")]:
            del record[timed]
    return RunState(
        {name: checksum(tensor) for name, tensor in last.tensors.items()},
        {name: checksum(tensor) for name, tensor in best.tensors.items()},
        best.metadata["step"],
        progress,
        records,
    )
