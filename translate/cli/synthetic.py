"""`distill` and `backtranslate`: corpora translated by one model, to train another on."""

import dataclasses
import itertools
import json
import logging
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from translate.cli.terminal.console import showing_activity
from translate.cli.terminal.lines import check_outputs, open_lines
from translate.cli.terminal.options import CheckpointOption, RunArgument, complete_run, takes_decoding_options
from translate.cli.terminal.parts import DecodingJob, decode_in_parts, runs_unchanged
from translate.errors import InputError

if TYPE_CHECKING:
    from translate.config.schema import Config
    from translate.decoding import ConditionCounts
    from translate.distributed.process_group import World

logger = logging.getLogger(__name__)

_LINES_TO_JUDGE = 1000  # from which a text in the wrong language is recognised

OutputFolder = Annotated[
    Path, Option("--output", "-o", metavar="DIR", help="Folder for corpus.jsonl and provenance.json.")
]


@takes_decoding_options
def distill(
    runs: Annotated[
        list[Path],
        Argument(
            metavar="RUN",
            help="The teacher; several form an ensemble.",
            autocompletion=complete_run,
        ),
    ],
    output: OutputFolder,
    source: Annotated[
        Path | None, Option(metavar="FILE", help="Translate this text instead of the sources of the training data.")
    ] = None,
    nearest: Annotated[
        Literal["bleu", "chrf"] | None,
        Option(
            "--nearest-reference",
            metavar="NAME",
            help="From each --n-best list, take the translation nearest to the reference by bleu or chrf.",
        ),
    ] = None,
    checkpoint: CheckpointOption = "best",
    *,
    options: dict[str, Any],
) -> None:
    """Translate a run's training data into a corpus for training a smaller or a single model.

    A student learns more from its teacher's translations, which vary less, than from references (Kim and Rush 2016).
    The config of the first RUN names the data; each pair is translated once, whatever the weight of its corpus. The
    defaults below apply unless that config says otherwise. With --n-best N, each source has N pairs.

    DIR/corpus.jsonl has all pairs, with flags where a translation is empty, was cut off or repeats itself.
    DIR/provenance.json records the origin. Repeat an interrupted command to continue it.

    Examples:
      translate distill runs/big -o data/distilled
      translate distill runs/a runs/b runs/c -o data/d --nearest-reference bleu
      translate distill runs/big --source news.de -o data/news
    """
    SyntheticCommand("distill", runs, source, output, checkpoint, nearest, options).run()


@takes_decoding_options
def backtranslate(
    run: RunArgument,
    file: Annotated[Path, Argument(metavar="FILE", help="Text in the target language of the model to train.")],
    output: OutputFolder,
    checkpoint: CheckpointOption = "best",
    *,
    options: dict[str, Any],
) -> None:
    """Translate monolingual text with a reverse model, into a corpus whose targets are the original lines.

    RUN translates in reverse: English to German, to train a model from German to English. The defaults below apply
    unless its config says otherwise. Beam search and a tag are best with little data; sampling (--search sample) is
    for large data and good models (Edunov et al. 2018, section 5.3). The tag marks synthetic sources (Caswell et al.
    2019): it is the source_tag in the printed lines for data.train.

    DIR/corpus.jsonl has all pairs, with flags where a translation is empty, was cut off or repeats itself.
    DIR/provenance.json records the origin. Repeat an interrupted command to continue it.

    Examples:
      translate backtranslate runs/en-de news.en -o data/bt
      translate backtranslate runs/en-de news.en -o data/bt --search sample
    """
    SyntheticCommand("backtranslate", [run], file, output, checkpoint, None, options).run()


@dataclasses.dataclass(frozen=True)
class SyntheticCommand:
    """The arguments of `distill` and `backtranslate`."""

    name: Literal["distill", "backtranslate"]
    runs: Sequence[Path]
    file: Path | None  # None: the sources of the training data are translated
    output: Path
    checkpoint: str
    nearest: Literal["bleu", "chrf"] | None
    options: dict[str, Any]
    inputs: list[dict[str, Any]] = dataclasses.field(default_factory=list)  # name, lines and checksum, once it is read

    def run(self) -> None:
        """Translate, in parts that a later start can use."""
        decode_in_parts(self._prepare, self._finish)

    def _prepare(self, world: "World") -> DecodingJob:
        """Check the files, read the text, load the translator, and collect what must be the same on all ranks."""
        from translate.atomic import write_error
        from translate.config.load import read_resolved_config
        from translate.decoding import Request
        from translate.decoding.loading import load_translator
        from translate.decoding.sharded import ShardedDecoder, collect_dependencies, share_machine
        from translate.decoding.synthetic import PairFormat
        from translate.runs.directory import open_run

        corpus = self.output / "corpus.jsonl"
        check_outputs({"--output": corpus}, [self.file])
        if self.output.exists() and not self.output.is_dir():
            raise InputError(f"--output {self.output}: is a file, not a folder; name another")
        for made in (corpus, self.output / "provenance.json"):
            if made.exists():
                raise InputError(
                    f"--output {self.output}: already has a {made.name}; name another folder, or remove it"
                )
        share_machine(world.environment)
        config = read_resolved_config(open_run(self.runs[0]).config)
        options = self.options
        if self.nearest is not None:  # is chosen among the whole beam
            options = {"n_best": options.get("beam_size", config.decoding.beam_size), **options}
            if options["n_best"] < 2:
                raise InputError("--nearest-reference chooses among --n-best translations, but that is 1: raise it")
        with showing_activity() as show:
            show("Reading the text")
            lines, references = self._read(config)
            show(f"Loading {', '.join(map(str, self.runs))}")
            runs = {"RUN": self.runs[:1], "ensemble": self.runs[1:]}
            with runs_unchanged(runs, self.checkpoint):
                translator = load_translator(
                    self.runs[0],
                    checkpoint=self.checkpoint,
                    options=options,
                    token_scores=False,
                    ensemble=self.runs[1:],
                ).translator
                dependencies = collect_dependencies(translator, runs, checkpoint=self.checkpoint)
        dependencies["pairs"] = f"{self.name} {self.nearest}"
        facts = {**dependencies, "text": json.dumps(self.inputs)}
        try:
            self.output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise write_error(self.output, error) from error
        pairs = PairFormat(self.name == "backtranslate", self.nearest, references)
        decoder = ShardedDecoder(
            translator, facts if self.nearest else dependencies, "text", output=corpus, alignments=None, pairs=pairs
        )
        total = sum(each["lines"] for each in self.inputs)
        return DecodingJob(decoder, facts, total, (Request(line) for line in lines))

    def _read(self, config: "Config") -> "tuple[Iterable[str], Sequence[str]]":
        """Open the text to translate, note its checksum, and return it with its references, if there are any."""
        from translate.data.cache import text_digest
        from translate.data.corpora import join_texts, read_corpus
        from translate.data.text import require_file
        from translate.fingerprint import fingerprint

        if self.file is not None:
            if self.nearest:
                raise InputError(
                    "--nearest-reference cannot be combined with --source: only the training data have references"
                )
            require_file(self.file)
            opened = open_lines(self.file)
            if not opened.total:
                raise InputError(f"{self.file}: is empty, so there is nothing to translate")
            self._check_language(self.file, config)
            self.inputs.append({"name": str(self.file), "lines": opened.total, "sha256": fingerprint(self.file)})
            return opened, ()
        try:
            corpora = [read_corpus(each, key=f"data.train.{index}") for index, each in enumerate(config.data.train)]
        except InputError as error:
            raise InputError(f"config of {self.runs[0]}: {error}; or give a text as --source FILE") from error
        if not corpora:
            raise InputError(f"{self.runs[0]} has no data.train in its config: give a text as --source FILE")
        for corpus in corpora:
            checksum = fingerprint(text_digest(corpus.sources), text_digest(corpus.targets))
            self.inputs.append({"name": corpus.name, "lines": len(corpus.sources), "sha256": checksum})
        return join_texts(corpora)

    def _check_language(self, file: Path, config: "Config") -> None:
        """Raise an InputError if the text looks like what the run writes, by the run's own validation corpus."""
        from translate.data.corpora import read_corpus
        from translate.lint.languages import is_other_side

        try:
            known = config.data.validation and read_corpus(config.data.validation, key="data.validation")
        except InputError:  # not on this machine
            return
        lines = list(itertools.islice(open_lines(file), _LINES_TO_JUDGE))
        if known and is_other_side(lines, known.sources, known.targets):
            source, target = config.data.source_language, config.data.target_language
            raise InputError(
                f"{file}: looks like {target}, but {self.runs[0]} translates {source} to {target}; name a run that"
                f" translates {target}, or a text in {source}"
            )

    def _finish(self, job: DecodingJob, counts: "ConditionCounts") -> None:
        """Write the provenance of the corpus, and print how to train on it."""
        from translate.atomic import write_text
        from translate.config.yaml import dump_scalar
        from translate.decoding.synthetic import describe_origin
        from translate.fingerprint import fingerprint

        corpus, settings = job.decoder.output, job.decoder.translator.config
        origin = {
            "command": ["translate", *sys.argv[1:]],
            **describe_origin(self.runs, self.checkpoint, settings=settings, counts=counts),
            "inputs": self.inputs,
            "corpus": {"file": corpus.name, "sha256": fingerprint(corpus)},
        }
        write_text(self.output / "provenance.json", json.dumps(origin, indent=2, ensure_ascii=False) + "\n")
        logger.info(
            f"{corpus} has all pairs, with flags where something may be wrong; training leaves out pairs with an empty"
            " side and counts them. To train on it in addition to other corpora:"
        )
        values = ["kind: json", f"path: {dump_scalar(str(corpus.resolve()))}", "source_column: source"]
        values += ["target_column: target", *["source_tag: <bt>"] * (self.name == "backtranslate")]
        typer.echo("data:\n  train:\n    - " + "\n      ".join(values))
