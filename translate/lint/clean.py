"""Training corpora without the pairs that break a rule; the rules are the kinds of pairs that `check` reports.

All pairs are judged, then those that are kept are written. A large text is in a file, as in training. In memory are the
four hashes of each pair, and the rule that it breaks: 33 bytes.
"""

import contextlib
import logging
import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from operator import ne
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from translate.atomic import atomic_folder, open_output, text_bytes, write_text
from translate.bars import show_progress
from translate.config.data import Corpus, TextCorpus, WeightedCorpus, without_reverse
from translate.config.languages import Languages
from translate.config.load import LoadedConfig
from translate.config.schema import TokenizerConfig
from translate.config.show import annotated_yaml
from translate.config.yaml import Origin
from translate.data.corpora import ParallelCorpus, read_corpus
from translate.data.tokenizer import Tokenizer, train_tokenizer
from translate.errors import InputError, RunError
from translate.lint import corpora as inspection
from translate.lint.corpora import Sample, Survey, survey_corpus
from translate.lint.findings import Suspects
from translate.lint.interface import BREAKS
from translate.lint.languages import KnownLanguage, learn_known
from translate.lint.misalignment import Ints, count_items, find_unlikely_lengths
from translate.lint.near_duplicates import near_duplicate_hashes

logger = logging.getLogger(__name__)

_BLOCK_PAIRS = 50_000  # inspected at once, with a dictionary of their own
_SLOW = re.compile("[a-z]+_like_|shifted|unrelated")  # rules that need a closer look
_SUBWORDS = TokenizerConfig(normalization="nmt_nfkc_cf", character_coverage=0.9995, byte_fallback=False)
_VOCAB_SIZES = (8000, 2000, 500)  # the first for which there is enough text
_NOT_TEXT = {"line_end": re.compile("\n|\r\\Z"), "control": re.compile("[\0\ud800-\udfff]")}  # in a line, by its rule
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r", "\0": r"\0"})


class CleanedCorpus(NamedTuple):
    """A corpus, and what was removed from it; each pair counts for the first rule that it breaks."""

    key: str  # in the config that was given
    name: str
    num_pairs: int
    num_kept: int
    removed: tuple[Suspects, ...]


def clean(loaded: LoadedConfig, output: Path, rules: Sequence[str]) -> list[CleanedCorpus]:
    """Write the training corpora without the pairs that break a rule, those pairs, and a config for the rest.

    Args:
        output: A new or empty folder.
        rules: Keys of `KINDS`, in its order.

    Raises:
        InputError: A corpus cannot be used, or nothing is left of it.
        RunError: The files cannot be written.
    """
    data, languages = loaded.config.data, Languages(loaded.config.data)
    given = without_reverse(data.corpora("train"))
    read = {key: _in_lines(read_corpus(each, key=key, languages=languages), each, key) for key, each in given.items()}
    surveys = [*map(survey_corpus, read, read.values(), given.values())]
    for survey, rule in product(surveys, _NOT_TEXT.keys() - {*rules}):
        for line, pair in enumerate(zip(*survey.corpus[1:3], strict=True), start=1):
            if any(map(_NOT_TEXT[rule].search, pair)):
                raise InputError(f"{survey.key}, {survey.unit} {line:,}: is not plain text; apply the rule {rule}")
    judged = surveys if any("_like_" in rule for rule in rules) else []  # by language
    by_size = sorted(judged, key=lambda each: -len(each.source_hashes))
    known = learn_known({each.key: (data.direction_of(given[each.key]), *each.corpus[1:3]) for each in by_size})
    held_out: defaultdict[str, list[Ints]] = defaultdict(list)  # hashes of the sources, by language
    for key, corpus in data.corpora().items() if "leaked" in rules else ():
        sources = read_corpus(corpus, key=key).sources
        held_out[data.direction_of(corpus).source].append(near_duplicate_hashes(sources, keep_digits=True))
    sides = {key: data.direction_of(corpus)[: 1 + corpus.both_directions] for key, corpus in given.items()}
    broken = [_judge(each, rules, known, [held_out[code] for code in sides[each.key]]) for each in surveys]
    written, reports = dict[str, TextCorpus](), []
    with atomic_folder(output) as folder, open_output(folder / "removed.tsv") as table:
        table.write(b"corpus\tline\trule\tsource\ttarget\n")
        for survey, by_pair in zip(surveys, broken, strict=True):
            text = written[survey.key] = _as_text(given[survey.key], survey, Path(os.path.abspath(output)))
            _write(survey, rules, by_pair, [folder / path.name for path in (text.source, text.target)], table)
            removed = {rule: np.flatnonzero(by_pair == number) for number, rule in enumerate(rules)}
            suspects = tuple(inspection.list_suspects(survey, removed))
            num_kept = int((by_pair == len(rules)).sum())
            reports.append(CleanedCorpus(survey.key, survey.corpus.name, len(by_pair), num_kept, suspects))
        write_text(folder / "config.yaml", _config(loaded, written))
    return reports


def _in_lines(corpus: ParallelCorpus, settings: Corpus, key: str) -> ParallelCorpus:
    """A corpus whose strings are lines; in the others, a break is a fault."""
    if settings.kind not in ("po", "xliff"):
        return corpus
    sides = [[BREAKS.sub(" ", string) for string in side] for side in corpus[1:3]]
    if count := sum(map(ne, zip(*corpus[1:3], strict=True), zip(*sides, strict=True))):
        logger.info(f"{key}: breaks within strings, in {count:,} pairs, become spaces: a line has no breaks")
    return corpus._replace(sources=sides[0], targets=sides[1])


def _judge(
    survey: Survey, rules: Sequence[str], known: Mapping[str, KnownLanguage], held_out: Sequence[Sequence[Ints]]
) -> NDArray[np.int8]:
    """For each pair, the index in `rules` of the first rule that it breaks; `len(rules)` if it breaks none.

    Lengths and repetitions are judged last, among the pairs that are left.

    Raises:
        InputError: No pair is left.
    """
    num_pairs, sides = len(survey.source_hashes), survey.corpus[1:3]
    broken = np.full(num_pairs, len(rules), dtype=np.int8)

    def mark(found: Mapping[str, Ints]) -> None:
        for rule in filter(found.__contains__, rules):
            broken[found[rule]] = np.minimum(broken[found[rule]], rules.index(rule))

    mark(inspection.find_everywhere(survey))
    for keys, hashes in zip(survey[6:], held_out, strict=False):  # of targets only if they are sources too
        mark({"leaked": np.flatnonzero(np.isin(keys, np.concatenate([keys[:0], *hashes])) & (keys != 0))})
    if any(map(_SLOW.match, rules)):
        tokenizer, threads, num_blocks = _train_tokenizer(survey), os.cpu_count() or 1, -(-num_pairs // _BLOCK_PAIRS)
        with show_progress(f"Inspecting {survey.key}", num_pairs, unit="pairs") as advance:
            for numbers in np.array_split(np.arange(num_pairs), num_blocks):
                block = Sample(numbers, *([*side[numbers[0] : numbers[-1] + 1]] for side in sides))
                ids = [tokenizer.encode_lines(lines, num_threads=threads) if tokenizer else [] for lines in block[1:]]
                vocab_size = tokenizer.vocab_size if tokenizer else 0
                found, misaligned = inspection.inspect_closely(survey, block, *ids, vocab_size=vocab_size, known=known)
                mark(found | {"unrelated": misaligned.pairs})
                for first, last, offset in misaligned.shifts:
                    mark({"unrelated" if offset is None else "shifted": np.arange(first, last + 1)})
                advance(len(numbers))
    kept, lengths = np.flatnonzero(broken == len(rules)), [count_items(side) for side in sides]
    find_unlikely = partial(find_unlikely_lengths, is_interface=survey.is_interface)
    while "unlikely_length" in rules and len(unlikely := find_unlikely(*(each[kept] for each in lengths))):
        mark({"unlikely_length": kept[unlikely]})
        kept = np.delete(kept, unlikely)  # without these, what is usual is a little narrower
    again = inspection.find_repetitions(*(each[kept] for each in inspection.repetition_hashes(survey)))
    mark({rule: kept[numbers] for rule, numbers in again.items()})
    if broken.max() < len(rules):
        most = rules[int(np.bincount(broken).argmax())]
        hint = f"look at them with `translate check`, or keep such pairs with --keep {most}"
        raise InputError(f"{survey.key}: no pair is left of {num_pairs:,}, and most break the rule {most}; {hint}")
    return broken


def _train_tokenizer(survey: Survey) -> Tokenizer | None:
    """A vocabulary of both sides without case; None: there is too little text."""
    _, *sides = inspection.take_sample(survey.corpus, max_pairs=_BLOCK_PAIRS)
    for size in _VOCAB_SIZES:
        with contextlib.suppress(InputError, RunError):
            return train_tokenizer([*sides[0], *sides[1]], _SUBWORDS.model_copy(update={"vocab_size": size}))
    return None


def _as_text(corpus: Corpus, survey: Survey, folder: Path) -> TextCorpus:
    """A corpus as text files in a folder, with its other keys."""
    codes = survey.corpus.direction or ("", "")
    names = codes if codes[0] != codes[1] else ("source", "target")
    paths = [folder / f"{survey.key.removeprefix('data.')}.{name}" for name in names]
    keys = {key: getattr(corpus, key) for key in WeightedCorpus.model_fields}
    return TextCorpus(**keys, source=paths[0], target=paths[1])


def _write(
    survey: Survey, rules: Sequence[str], broken: NDArray[np.int8], files: Sequence[Path], table: BinaryIO
) -> None:
    """Write the pairs that break no rule, and add the others to the table."""
    pairs = zip(broken, survey.corpus.sources, survey.corpus.targets, strict=True)
    with open_output(files[0]) as sources, open_output(files[1]) as targets:
        for line, (rule, source, target) in enumerate(pairs, start=1):
            if rule < len(rules):
                cells = (survey.key, str(line), rules[rule], source.translate(_ESCAPES), target.translate(_ESCAPES))
                table.write(text_bytes("\t".join(cells) + "\n"))
            else:
                sources.write(text_bytes(f"{source}\n"))
                targets.write(text_bytes(f"{target}\n"))


def _config(loaded: LoadedConfig, corpora: Mapping[str, TextCorpus]) -> str:
    """The given config with other training corpora, by their keys in it, and another name; without defaults."""
    config, own = loaded.config, Origin(place="translate clean")
    data = config.data.model_copy(update={"train": tuple(corpora.values())})
    config = config.model_copy(update={"name": f"{config.name}-cleaned", "data": data})  # it is another run
    origins = {key: each for key, each in loaded.origins.items() if not key.startswith("data.train.")} | {"name": own}
    for index, key in enumerate(corpora):
        new, old = f"data.train.{index}.", f"{key}."
        origins |= {new + name[len(old) :]: each for name, each in loaded.origins.items() if name.startswith(old)}
        origins |= {f"{new}{name}": own for name in ("kind", "source", "target")}
    return annotated_yaml(LoadedConfig(config, origins), is_whole=False)
