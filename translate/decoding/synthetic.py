"""Synthetic corpora: lines paired with their translations, to train another model on.

Each line is a JSON object, which `kind: json` of `data.train` reads back exactly, including tabs and quotes.
"""

import contextlib
import datetime
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from sacrebleu.metrics.chrf import CHRF

from translate._version import package_versions
from translate.bleu import load_bleu
from translate.config.data import DataConfig, Direction
from translate.config.decoding import DecodingConfig
from translate.config.languages import UNKNOWN, Languages
from translate.data.cache import text_digest
from translate.data.corpora import join_texts, read_corpus
from translate.data.text import stream_lines
from translate.decoding.translation import ConditionCounts, Translation
from translate.errors import InputError
from translate.files import check_is_text, require_file
from translate.fingerprint import fingerprint
from translate.runs.checkpoint import read_tensors
from translate.runs.directory import Checkpoint
from translate.runs.metadata import read_step
from translate.runs.run import SavedRun
from translate.trigrams import is_other_side

_LINES_TO_JUDGE = 1000  # from which a text in the wrong language is recognised


@dataclass(frozen=True)
class PairFormat:
    """The conversion of translations into lines of a corpus: one pair per n-best translation, none left out.

    A pair whose translation has conditions, such as `truncated`, has their names as `flags`.

    Args:
        is_reversed: The translation is the source of the pair, as in back-translation, and else its target.
        nearest: From each n-best list keep only the translation nearest to the reference, by this sentence score.
        references: The reference of each line, by its number from 0; only needed for `nearest`.
        bleu_tokenizer: SacreBLEU's tokenizer for `nearest = "bleu"`.

    Source: Sennrich et al. 2016, https://arxiv.org/abs/1511.06709 (back-translation); Kim and Rush 2016,
        https://arxiv.org/abs/1606.07947, section 3.2 (distillation) and 3.3 (the nearest of the n-best list).
    """

    is_reversed: bool
    nearest: Literal["bleu", "chrf"] | None = None
    references: Sequence[str] = ()
    bleu_tokenizer: str = "13a"

    def lines(self, translations: Iterable[Translation], counts: ConditionCounts, first_number: int) -> Iterator[str]:
        """Yield the lines of some translations, without line ends.

        Args:
            counts: Counts the conditions of the translations that are kept.
            first_number: The number of the first line in the whole input, from 0.
        """
        if self.nearest is not None:
            translations = self._nearest(translations, first_number)
        for translation in counts.watch(translations):
            for entry in (translation, *translation.alternatives):
                source, target = (entry.text, translation.source)[:: 1 if self.is_reversed else -1]
                flags = {"flags": sorted(entry.flags)} if entry.flags else {}
                yield json.dumps({"source": source, "target": target, **flags}, ensure_ascii=False)

    def _nearest(self, translations: Iterable[Translation], first_number: int) -> Iterator[Translation]:
        """The translation of each n-best list with the highest sentence score; of equals, the model's own choice."""
        metric = CHRF() if self.nearest == "chrf" else load_bleu(self.bleu_tokenizer)
        for number, translation in enumerate(translations, start=first_number):
            reference = [self.references[number]]
            candidates = (translation, *translation.alternatives)
            best = max(candidates, key=lambda entry: metric.sentence_score(entry.text, reference).score)
            yield best._replace(source=translation.source, alternatives=())


def describe_origin(
    runs: Sequence[SavedRun], checkpoint: Checkpoint, *, settings: DecodingConfig, counts: ConditionCounts
) -> dict[str, Any]:
    """The provenance of translations, as JSON values: runs and their weights, versions, the search and its counts."""
    described = []
    for run in runs:
        file = run.files.checkpoint(checkpoint)
        step = read_step(file, read_tensors(file, prefixes=()).metadata)
        name, where = run.config.name, str(run.path.resolve())
        described.append({"name": name, "run": where, "file": file.name, "step": step, "sha256": fingerprint(file)})
    return {
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": package_versions(),
        "runs": described,
        "decoding": settings.model_dump(mode="json"),
        "counts": {name: counts[name] for name in sorted({"lines", "empty", "truncated", *counts})},
    }


class SourceText(NamedTuple):
    """A text to translate into a synthetic corpus."""

    lines: Iterable[str]
    references: Sequence[str]  # one for each line, or none
    inputs: list[dict[str, Any]]  # name, lines and checksum of each file or corpus


def read_training_sources(run: SavedRun, data: DataConfig, direction: Direction) -> SourceText:
    """Read the sources of a run's training data in a direction, and their references.

    Raises:
        InputError: The run has no such data, or they cannot be read.
    """
    languages, (source, target) = Languages(data), direction
    wanted = [known for known in languages.directions if known.target == target and source in (known.source, UNKNOWN)]
    try:
        train = data.corpora("train").items()
        corpora = [read_corpus(corpus, key=key) for key, corpus in train if data.direction_of(corpus) in wanted]
    except InputError as error:
        raise InputError(f"config of {run}: {error}; or give a text as --source FILE") from error
    if not corpora:
        raise InputError(f"data.train of {run} has no corpus from {source} to {target}: give a text as --source FILE")
    inputs = [
        {"name": corpus.name, "lines": len(corpus.sources), "sha256": fingerprint(*map(text_digest, corpus[1:3]))}
        for corpus in corpora
    ]
    return SourceText(*join_texts(corpora), inputs)


def read_monolingual(file: Path, run: SavedRun, data: DataConfig, direction: Direction) -> SourceText:
    """Open a text, unless it looks like the target language, judging by the run's own validation corpus.

    Raises:
        InputError: The text is empty, cannot be read, or looks like the target language.
    """
    require_file(file)
    check_is_text(file)
    num_lines, known = sum(1 for _ in stream_lines(file)), None
    if not num_lines:
        raise InputError(f"{file}: is empty, so there is nothing to translate")
    with contextlib.suppress(InputError):  # the corpus is not on this machine
        for key, corpus in data.corpora("validation").items():
            if data.direction_of(corpus) == direction:
                known = read_corpus(corpus, key=key)
    first_lines = list(itertools.islice(stream_lines(file), _LINES_TO_JUDGE))
    if known and is_other_side(first_lines, known.sources, known.targets):
        source, target = direction
        raise InputError(f"{file}: looks like {target}, but {run} translates {source} to {target}; name another text")
    return SourceText(stream_lines(file), (), [{"name": str(file), "lines": num_lines, "sha256": fingerprint(file)}])
