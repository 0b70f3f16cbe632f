"""`distill` and `backtranslate`: corpora translated by one model to train another."""

import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer
from typer import Argument, Option

from translate.bars import show_progress
from translate.cli.terminal.lines import check_outputs
from translate.cli.terminal.options import (
    RUN,
    CheckpointOption,
    RunArgument,
    SavedRun,
    takes_decoding_options,
    takes_languages,
)
from translate.cli.terminal.parts import DecodingJob, decode_in_parts, load_for_parts
from translate.errors import InputError

if TYPE_CHECKING:
    from translate.decoding import ConditionCounts, Translator

logger = logging.getLogger(__name__)

OutputFolder = Annotated[
    Path, Option("--output", "-o", metavar="DIR", help="Folder for corpus.jsonl and provenance.json.")
]


@takes_decoding_options("search beam_size n_best to from_ length_penalty batch_tokens precision device")
@takes_languages
def distill(
    runs: Annotated[list[SavedRun], Argument(help="The teacher; several form an ensemble.", **RUN)],
    output: OutputFolder,
    source: Annotated[Path | None, Option(metavar="FILE", help="Translate this instead of the training data.")] = None,
    nearest: Annotated[
        Literal["bleu", "chrf"] | None,
        Option(
            "--nearest-reference", metavar="NAME", help="Of --n-best translations take the closest by bleu or chrf."
        ),
    ] = None,
    checkpoint: CheckpointOption = "best",
    *,
    languages: dict[str, Any],
    options: dict[str, Any],
) -> None:
    """Translate a run's training data into a corpus for training a smaller or a single model.

    A student learns more from its teacher's translations, which vary less, than from references (Kim and Rush 2016).
    The config of the first RUN names the data; each pair is translated once, whatever the weight of its corpus. With
    --n-best N, each source has N pairs.

    DIR/corpus.jsonl has all pairs, with flags where a translation is empty, was cut off or repeats itself.
    DIR/provenance.json records the origin. Repeat an interrupted command to continue it.

    Examples:
      translate distill runs/big -o data/distilled
      translate distill runs/a runs/b runs/c -o data/d --nearest-reference bleu
      translate distill runs/big --source news.de -o data/news
    """
    made = _SyntheticCorpus("distill", runs, source, output, checkpoint, nearest, languages, options)
    decode_in_parts(made.prepare, made.finish)


@takes_decoding_options("search beam_size to from_ temperature top_k top_p batch_tokens precision device")
@takes_languages
def backtranslate(
    run: RunArgument,
    file: Annotated[Path, Argument(metavar="FILE", help="Text in the target language of the model to train.")],
    output: OutputFolder,
    checkpoint: CheckpointOption = "best",
    *,
    languages: dict[str, Any],
    options: dict[str, Any],
) -> None:
    """Translate monolingual text with a reverse model, into a corpus whose targets are the original lines.

    RUN translates in reverse: English to German, to train a model from German to English. If it translates both ways,
    add --to de. Beam search and a tag are best with little data; sampling (--search sample) is for large data and good
    models (Edunov et al. 2018, section 5.3). The tag marks synthetic sources (Caswell et al. 2019): it is the
    source_tag in the printed lines for data.train.

    DIR/corpus.jsonl has all pairs, with flags where a translation is empty, was cut off or repeats itself.
    DIR/provenance.json records the origin. Repeat an interrupted command to continue it.

    Examples:
      translate backtranslate runs/en-de news.en -o data/bt
      translate backtranslate runs/en-de news.en -o data/bt --search sample
    """
    made = _SyntheticCorpus("backtranslate", [run], file, output, checkpoint, None, languages, options)
    decode_in_parts(made.prepare, made.finish)


class _SyntheticCorpus(NamedTuple):
    """What a command line asks for: the text to translate, the runs, and the folder of the corpus."""

    command: Literal["distill", "backtranslate"]
    runs: Sequence[SavedRun]
    file: Path | None  # None: the sources of the training data
    output: Path
    checkpoint: str
    nearest: Literal["bleu", "chrf"] | None
    languages: dict[str, Any]  # of --to and --from
    options: dict[str, Any]  # settings of the section `decoding`

    @property
    def corpus(self) -> Path:
        return self.output / "corpus.jsonl"

    def load(self) -> "Translator":
        """Load the translator, perhaps with an ensemble."""
        from translate.decoding.loading import load_translator

        first, *others = self.runs
        how: dict[str, Any] = {"checkpoint": self.checkpoint, "options": self.options, **self.languages}
        return load_translator(first, token_scores=False, ensemble=others, **how).translator

    def prepare(self) -> DecodingJob:
        """Check the files, read the text, load the translator, and collect the facts that must match on all ranks."""
        from translate.atomic import explain_write_errors
        from translate.config.languages import Languages
        from translate.decoding import Request
        from translate.decoding.sharded import ShardedDecoder
        from translate.decoding.synthetic import PairFormat, read_monolingual, read_training_sources

        output, corpus = self.output, self.corpus
        check_outputs({"--output": corpus})
        if output.exists() and not output.is_dir():
            raise InputError(f"--output {output}: is a file, not a folder; name another")
        is_unfinished = any(output.glob(f"{corpus.name}.parts/*.part"))  # stopped before its provenance was written
        finished = [output / "provenance.json"] if is_unfinished else [corpus, output / "provenance.json"]
        for made in finished:
            if made.exists():
                raise InputError(f"--output {output}: already has a {made.name}; name another folder, or remove it")
        config = self.runs[0].config
        direction = Languages(config.data).choose(**self.languages)
        if self.nearest is not None:  # chosen from the whole beam
            options = self.options
            if options.setdefault("n_best", options.get("beam_size", config.decoding.beam_size)) < 2:
                raise InputError("--nearest-reference chooses among --n-best translations, but that is 1: raise it")
            if self.file is not None:
                raise InputError("--nearest-reference cannot be combined with --source, which has no references")
        with show_progress("Reading the text"):
            if self.file is None:
                lines, references, inputs = read_training_sources(self.runs[0], config.data, direction)
            else:
                lines, references, inputs = read_monolingual(self.file, self.runs[0], config.data, direction)
        named, num_lines = {"RUN": self.runs[:1], "ensemble": self.runs[1:]}, sum(text["lines"] for text in inputs)
        with show_progress(f"Loading {', '.join(map(str, self.runs))}"):
            translator, dependencies = load_for_parts(
                self.load, named, {}, checkpoint=self.checkpoint, num_lines=num_lines
            )
        dependencies["pairs"] = f"{self.command} {self.nearest}"
        facts = {**dependencies, "text": json.dumps(inputs)}
        with explain_write_errors(output):
            output.mkdir(parents=True, exist_ok=True)
        tokenizer = config.evaluation.bleu_tokenizer
        pairs = PairFormat(self.command == "backtranslate", self.nearest, references, tokenizer)
        depends_on = facts if self.nearest else dependencies
        decoder = ShardedDecoder(translator, depends_on, "text", corpus, None, pairs, is_new=not corpus.exists())
        return DecodingJob(decoder, facts, num_lines, (Request(line) for line in lines))

    def finish(self, job: DecodingJob, counts: "ConditionCounts") -> None:
        """Write the provenance of the corpus, and print how to train on it."""
        from translate.atomic import write_text
        from translate.config.data import Direction
        from translate.config.languages import UNKNOWN
        from translate.config.yaml import dump_scalar
        from translate.decoding.synthetic import describe_origin
        from translate.fingerprint import fingerprint

        translator, is_reversed = job.decoder.translator, self.command == "backtranslate"
        settings = translator.config.model_copy(update={"engine": job.facts["engine"]})
        origin = {
            "command": ["translate", *sys.argv[1:]],
            **describe_origin(self.runs, self.checkpoint, settings=settings, counts=counts),
            "inputs": json.loads(job.facts["text"]),
            "corpus": {"file": self.corpus.name, "sha256": fingerprint(self.corpus)},
        }
        text = json.dumps(origin, indent=2, ensure_ascii=False) + "\n"
        write_text(self.output / "provenance.json", text, is_new=True)
        values = ["kind: json", f"path: {dump_scalar(str(self.corpus.resolve()))}", "source_column: source"]
        values += ["target_column: target", *["source_tag: <bt>"] * is_reversed]
        languages, direction = translator.languages, translator.direction or Direction(UNKNOWN, UNKNOWN)
        is_named = any(corpus.source_language or corpus.target_language for corpus in languages.data.train)
        if languages.has_choice or is_named:
            sides = ("target", "source") if is_reversed else ("source", "target")
            values += [f"{side}_language: {code}" for side, code in zip(sides, direction, strict=True)]
            if direction.source == UNKNOWN:
                logger.warning(f"The language of each {sides[0]} is {UNKNOWN}, that is unknown: choose one with --from")
        logger.info(f"{self.corpus} has all pairs, with flags. To train on it in addition to other corpora:")
        typer.echo("data:\n  train:\n    - " + "\n      ".join(values))
