"""`show attention|masks|positions|curves|alignments`: pictures of a model and its training."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from translate.cli.terminal.help import Commands
from translate.cli.terminal.lines import check_outputs, write_lines
from translate.cli.terminal.options import (
    RUN,
    CheckpointOption,
    Decorator,
    RunArgument,
    SavedRun,
    add_options,
    as_runs,
    takes_languages,
)
from translate.errors import InputError
from translate.messages import escaped

if TYPE_CHECKING:
    from translate.visualize.panels import Picture

logger = logging.getLogger(__name__)

show_app = Commands(help="Draw pictures of a model and its training.")


def picture_command(name: str) -> Decorator:
    """Make a function the command `show NAME`, with the options of a picture; `file` is its output file."""
    formats = "a page (.html) or a figure (.png or .svg)"
    output = Option("--output", "-o", metavar="FILE", help=f"Write {formats} to this file. Default: {name}.html.")
    options = {"output": Annotated[Path | None, output]}

    def choose_file(_: object, output: Path = Path(f"{name}.html")) -> Path:
        from translate.visualize.page import picture_format

        picture_format(output)
        check_outputs({"--output": output})
        return output

    return lambda command: show_app.command(name)(add_options(command, options, name="file", gather=choose_file))


@picture_command("attention")
@takes_languages
def show_attention(
    file: Path,
    run: RunArgument,
    sentence: Annotated[str, Argument(metavar="SENTENCE", help="A sentence in the source language.")],
    target: Annotated[str | None, Option(metavar="TEXT", help="Force this translation instead of decoding.")] = None,
    kind: Annotated[
        Literal["encoder", "decoder", "cross"],
        Option(help="Self-attention of encoder or decoder, or cross-attention; a page starts with it."),
    ] = "cross",
    layer: Annotated[int | None, Option(metavar="N", min=0, max=1000, help="Counted from 0. Default: all.")] = None,
    head: Annotated[int | None, Option(metavar="N", min=0, max=1000, help="Counted from 0. Default: all.")] = None,
    words: Annotated[bool, Option("--words", help="Show whole words instead of subwords.")] = False,
    checkpoint: CheckpointOption = "best",
    *,
    languages: dict[str, Any],
) -> None:
    """What each head attends to in one sentence: encoder, decoder and cross-attention of every layer.

    Examples:
      translate show attention runs/demo "Ein Hund läuft durch den Schnee."
      translate show attention runs/demo "Ein Hund bellt." --target "A dog barks."
      translate show attention runs/demo "Ein Hund bellt." --kind encoder --layer 1
    """
    from translate.decoding.loading import load_own_translator
    from translate.visualize.attention import AttentionChoice, look_at_attention

    choice = AttentionChoice(kind, layer, head, "words" if words else "subwords")
    loaded = load_own_translator(run, checkpoint=checkpoint)
    translator, name, step = loaded.translator.toward(**languages), escaped(run.path.resolve().name), loaded.model.step
    attention = look_at_attention(translator, sentence, target=target, choice=choice, name=name, step=step)
    attention.save(file)
    logger.info(f"{file}: {attention.pair.source_text} → {attention.pair.target_text}")


@picture_command("masks")
@takes_languages
def show_masks(
    file: Path,
    run: RunArgument,
    sentences: Annotated[list[str], Argument(metavar="SENTENCE", help="Sentences that form a batch.")],
    target: Annotated[list[str] | None, Option(metavar="TEXT", help="A translation; once per sentence.")] = None,
    checkpoint: CheckpointOption = "best",
    *,
    languages: dict[str, Any],
) -> None:
    """The masks of a batch of sentences: source padding, target padding, causal, and combined.

    Example:
      translate show masks runs/demo "Der Hund schläft." "Ein Koch kocht Reis."
    """
    from translate.decoding.loading import load_own_translator
    from translate.visualize.masks import masks_picture

    translator = load_own_translator(run, checkpoint=checkpoint).translator.toward(**languages)
    _save(masks_picture(translator, sentences, target or []), file)


@picture_command("positions")
def show_positions(
    file: Path,
    config_or_run: Annotated[str, Argument(metavar="CONFIG|RUN", help="A config, a preset or a run directory.")],
    length: Annotated[
        int | None,
        Option(metavar="N", min=2, max=1000, help="Number of positions, or longest distance. Default: 64, or 160."),
    ] = None,
    checkpoint: CheckpointOption = "best",
) -> None:
    """How the model encodes word order: the positional table, similarities, and more.

    Examples:
      translate show positions transformer-base --length 100
      translate show positions runs/demo --output positions.png
    """
    from translate.config.load import load_config, names_run

    if names_run(config_or_run):
        run = as_runs(config_or_run)
        config, model, name = run.config, run.load_model(checkpoint).model, escaped(run.path.resolve().name)
    else:
        config, model = load_config(config_or_run).config, None
        name = config.name
    from translate.visualize.positions import positions_picture

    _save(positions_picture(config.model, model, length=length, name=name), file)


@picture_command("curves")
def show_curves(
    file: Path,
    runs: Annotated[list[SavedRun], Argument(help="Run directories, finished or still training.", **RUN)],
    over: Annotated[Literal["step", "minutes"], Option(help="The horizontal axis.")] = "step",
) -> None:
    """Training curves: loss, BLEU, learning rate, speed and gradient norm, over steps or time, with a table.

    Examples:
      translate show curves runs/demo
      translate show curves runs/wide runs/deep --output curves.png
    """
    from translate.visualize.curves import curves_picture

    _save(curves_picture(runs, over=over), file)


@picture_command("alignments")
@takes_languages
def show_alignments(
    file: Path,
    run: RunArgument,
    source: Annotated[Path, Option(metavar="F", help="Text in the source language.")],
    reference: Annotated[Path, Option(metavar="F", help="Its translations.")],
    layer: Annotated[
        int | None,
        Option(metavar="N", min=-1000, max=999, help="The decoder layer. Default: decoding.alignment_layer."),
    ] = None,
    pharaoh: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write the links, as 0-0 1-2. Default: the picture's name with .align."),
    ] = None,
    first: Annotated[int, Option(metavar="N", min=1, max=1_000_000_000, help="First line in the picture.")] = 1,
    number: Annotated[int, Option(metavar="N", min=1, max=200, help="Number of lines in the picture.")] = 8,
    checkpoint: CheckpointOption = "best",
    *,
    languages: dict[str, Any],
) -> None:
    """Word alignments of given pairs from cross-attention: a picture of some, and a Pharaoh file of all.

    Examples:
      translate show alignments runs/demo --source news.de --reference news.en
      translate show alignments runs/demo --source a.de --reference a.en --first 11
    """
    from translate.decoding.alignment import format_pharaoh
    from translate.decoding.loading import load_own_translator
    from translate.evaluation.test_sets import choose_test_set
    from translate.visualize.alignments import align_pairs, alignments_picture

    links_file = pharaoh or file.with_suffix(".align")
    loaded = load_own_translator(run, checkpoint=checkpoint)
    translator = loaded.translator.toward(**languages)
    _, pairs = choose_test_set(run.config, source=source, references=[reference], name=None)
    check_outputs({"--output": file, "--pharaoh": links_file})
    if first > len(pairs.sources):
        raise InputError(f"--first {first}: {source} has {len(pairs.sources)} lines")
    if layer is not None:
        translator = translator.with_options(alignment_layer=layer)
    aligned = align_pairs(translator, pairs.sources, pairs.targets)
    shown = aligned[first - 1 : first - 1 + number]
    number_of_layer = translator.config.alignment_layer % len(translator.model.decoder.layers)
    how = f"The mean over the heads of decoder layer {number_of_layer} (counted from 0)"
    picture = alignments_picture(shown, first_line=first, how=how, name=escaped(run.path.resolve().name))
    write_lines((format_pharaoh(pair.links) for pair in aligned), links_file)
    last = first + len(shown) - 1
    _save(picture, file, f"lines {first} to {last}; {links_file}: the links of {len(aligned)} lines. {how}.")


def _save(picture: "Picture", file: Path, message: str = "") -> None:
    from translate.visualize.page import save_picture

    save_picture(picture, file)
    logger.info(f"{file}: {message or picture.title}")
