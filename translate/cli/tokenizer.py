"""`tokenizer train`, `encode` and `decode`: only SentencePiece."""

import logging
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from translate.cli.terminal.help import Commands
from translate.cli.terminal.lines import check_outputs, open_lines, write_lines
from translate.cli.terminal.options import InputFile
from translate.errors import InputError

if TYPE_CHECKING:
    from translate.data.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

tokenizer_app = Commands(help="Train a tokenizer, or see how it segments text.")

ModelArgument = Annotated[Path, Argument(metavar="MODEL", help="A SentencePiece model file, or a run directory.")]
Side = Annotated[
    Literal["source", "target"], Option(help="Which tokenizer of a run with separate vocabularies to use.")
]


@tokenizer_app.command("train")
def train_tokenizer(
    corpora: Annotated[list[Path], Argument(metavar="FILE", help="Text, one sentence per line; may be gzipped.")],
    output: Annotated[Path, Option("--output", "-o", metavar="FILE", help="The model file to write.")],
    kind: Annotated[Literal["unigram", "bpe"], Option("--type", metavar="NAME", help="unigram or bpe.")] = "bpe",
    vocab_size: Annotated[
        int, Option(metavar="N", min=8, max=1_000_000, help="Number of subwords, including symbols and bytes.")
    ] = 8000,
    character_coverage: Annotated[
        float,
        Option(metavar="X", min=0.98, max=1.0, help="Share of characters that get their own subword, 0.98 to 1."),
    ] = 1.0,
    byte_fallback: Annotated[bool, Option(show_default=False, help="Spell unknown characters in bytes.")] = True,
    normalization: Annotated[
        Literal["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"],
        Option(metavar="NAME", help="Unicode normalisation: nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf or identity."),
    ] = "nmt_nfkc",
) -> None:
    """Train a SentencePiece model on text files, for tokenizer.source_model in a config.

    Example:
      translate tokenizer train train.de train.en -o joint.model --vocab-size 8000
    """
    from translate.atomic import open_output
    from translate.config.load import override_config
    from translate.config.schema import Config
    from translate.data.text import read_lines
    from translate.data.tokenizer import train_tokenizer as train_model

    numbers = {"tokenizer.vocab_size": vocab_size, "tokenizer.character_coverage": character_coverage}
    kinds = {"tokenizer.type": kind, "tokenizer.normalization": normalization}
    config = override_config(Config(), {**numbers, **kinds, "tokenizer.byte_fallback": byte_fallback}).tokenizer
    if not output.resolve().parent.is_dir():
        raise InputError(f"{output}: cannot be written: there is no folder {output.parent}")
    lines = [line for path in corpora for line in read_lines(path)]
    check_outputs({"--output": output})
    model = train_model(lines, config)
    with open_output(output) as file:
        file.write(model.model_bytes)
    logger.info(f"{output}: {model.vocab_size} subwords learnt from {len(lines)} lines")


@tokenizer_app.command("encode")
def encode_text(
    model: ModelArgument,
    file: InputFile = None,
    side: Side = "source",
    ids: Annotated[bool, Option("--ids", help="Print ids instead of subwords.")] = False,
) -> None:
    """Print the subwords of each line, separated by spaces.

    Example:
      echo "Ein Hund läuft." | translate tokenizer encode runs/demo
    """
    from translate.data.tokenizer import WHOLE_PARTS

    tokenizer = _load_tokenizer(model, side)
    encoded = ([*chain(*map(tokenizer.encode, WHOLE_PARTS.findall(line)))] for line in open_lines(file))
    write_lines((" ".join(map(str, line) if ids else tokenizer.pieces(line)) for line in encoded), None)


@tokenizer_app.command("decode")
def decode_ids(model: ModelArgument, file: InputFile = None, side: Side = "source") -> None:
    """Print the text of each line of subwords or ids, as `encode` prints them.

    Example:
      translate tokenizer encode runs/demo input.de > input.subwords
      translate tokenizer decode runs/demo input.subwords
    """
    tokenizer = _load_tokenizer(model, side)
    # Split only at the spaces that `encode` inserts: other white space can be a subword, or part of one.
    tokens = ([token for token in line.split(" ") if token] for line in open_lines(file))
    write_lines((tokenizer.decode(tokenizer.parse(line)) for line in tokens), None)


def _load_tokenizer(model: Path, side: Literal["source", "target"]) -> "Tokenizer":
    from translate.data.tokenizer import read_tokenizer
    from translate.runs.run import open_run

    return getattr(open_run(model).tokenizers, side) if model.is_dir() else read_tokenizer(model)
