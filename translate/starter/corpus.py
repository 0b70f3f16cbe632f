"""Text that has no config yet: what a user named, its languages, and which of its pairs are held out."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from translate.atomic import atomic_write, text_bytes
from translate.config.data import LANGUAGE_CODE, Corpus, Direction, HubCorpus, TextCorpus
from translate.data.corpora import ParallelCorpus, read_corpus
from translate.data.filtering import find_new, hash_lines, hash_pairs
from translate.data.tables import FORMATS, hub_columns, table_columns
from translate.data.text import stream_lines
from translate.errors import InputError
from translate.files import require_file
from translate.language_codes import find_language
from translate.lint.findings import KINDS
from translate.lint.near_duplicates import near_duplicate_hashes
from translate.trigrams import are_in_one_language

_KINDS = {suffix: kind for kind, form in FORMATS.items() for suffix in form.suffixes}
_CODE = re.compile("(?!id$|ID$)([a-z]{2}|[A-Z]{2})|([a-z]{2,3}|[A-Z]{2,3})[-_][A-Za-z]{2,4}")  # id numbers rows
_SIDES = {"source", "src"}, {"target", "tgt", "trg"}  # names of columns that name no language
_COLUMNS = "source_column", "target_column"
_JUDGED_LINES = 5000  # lines whose trigrams show whether both sides are in one language
_FEWEST_PAIRS, _MOST_CHARACTERS = 1000, 5000  # the latter on a side: several times data.max_source_tokens
_MOST_HELD_OUT, _HELD_OUT_SHARE = 1000, 20  # sets as large as Multi30k's, or one pair in twenty
_BREAKS = re.compile("[\r\n\0]+")  # which cells of tables may contain


class Split(NamedTuple):
    """Which pairs of a corpus go where, and how many go nowhere."""

    parts: dict[str, NDArray[np.int64]]  # the positions in train, validation and test
    left_out: dict[str, int]  # by reason


def find_corpora(
    source: str, target: Path | None, *, from_: str | None, to: str | None
) -> tuple[Direction, dict[str, Corpus]]:
    """Find what a user named, and its languages.

    Returns:
        The direction, a corpus `train`, and if it is a data set that has them, its own `validation` and `test`.

    Raises:
        InputError: A file is missing, or the languages are not clear.
    """
    path, codes = Path(source), (from_, to)
    suffix = _suffix(path)
    if target is not None:
        endings = [_suffix(file)[1:] for file in (path, target)]
        for file in (path, target):
            require_file(file)
            if _suffix(file).lower() in _KINDS:
                raise InputError(f"{file}: is a table, judging by its name, and has both languages: name no other file")
        found = [code or (end if _CODE.fullmatch(end) else None) for code, end in zip(codes, endings, strict=True)]
        direction = _direction(found, f"the names {path.name} and {target.name} do not end in language codes")
        if endings == [direction.target, direction.source]:
            raise InputError(f"{path.name} and {target.name} are the other way round from --from and --to")
        return direction, {"train": TextCorpus(source=path, target=target)}
    if kind := _KINDS.get(suffix.lower()):
        direction, chosen = _choose_columns(source, table_columns(path, kind), codes, FORMATS[kind].naming)
        return direction, {"train": TypeAdapter[Corpus](Corpus).validate_python({"kind": kind, "path": path} | chosen)}
    is_file = path.exists() or path.parent.exists() or _CODE.fullmatch(suffix[1:])
    if is_file or not re.fullmatch(r"[\w-]+/[\w.-]+", source):
        next(stream_lines(path), None)  # says what a file is that is not text
        raise InputError(f"{source}: name the file with its translations too; tables end in {', '.join(_KINDS)}")
    subset, splits = hub_columns(source, codes)
    parts = {"train": "train" if "train" in splits else next(iter(splits))}
    parts |= {name: name for name in ("validation", "test") if {"validation", "test"} <= splits.keys()}
    direction, chosen = _choose_columns(source, splits[parts["train"]], codes, "fields")
    named = {"dataset": source, "subset": subset, **chosen}
    return direction, {part: HubCorpus.model_validate({"split": split, **named}) for part, split in parts.items()}


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix


def _choose_columns(
    place: str, columns: Sequence[str], codes: Sequence[str | None], naming: str
) -> tuple[Direction, dict[str, Any]]:
    """Choose the columns with the names of the languages, or else of the sides; or the only two, but not of a CSV.

    The first line of a TSV is a header if two of its cells are such names; `Ja` is a word, and `ja` or `JA` a language.

    Args:
        columns: What the format lists; `naming` says what that is: see `Format`.
    """
    if not any(columns):
        raise InputError(f"{place}: has no text")
    is_line = naming in ("cells", "header")
    names = [column if is_line else column.rpartition(".")[2] for column in columns]
    languages = [name for name in names if _CODE.fullmatch(name)]
    sides = [next((name for name in names if name.lower() in side), None) for side in _SIDES]
    if naming == "cells" and len([*languages, *filter(None, sides)]) < 2:
        names, languages, sides = [], [], [None, None]
    if len(languages) == 2:
        given = [code and find_language(code, languages) for code in codes]
        others = (name for name in languages if name not in given)
        codes = [code or next(others, None) for code in codes]
    shown = f"{', '.join(columns):.300}"
    direction = _direction(codes, f"{place} has the columns {shown}")
    if naming == "languages":  # whose reader takes variants of a language too
        return direction, dict(zip(_COLUMNS, direction, strict=True))
    for found in ([find_language(code, names) for code in direction], sides):
        if None not in found:
            return direction, dict(zip(_COLUMNS, (columns[names.index(name)] for name in found if name), strict=True))
    if len(columns) == 2 and not languages and naming != "header":
        return direction, dict(zip(_COLUMNS, columns if names else (0, 1), strict=True))
    problem = f"no columns are named {' and '.join(direction)}, or source and target; it has {shown}"
    raise InputError(f"{place}: {problem}{'; write a first line with such names' * is_line}")


def _direction(codes: Sequence[str | None], problem: str) -> Direction:
    if codes[0] is None or codes[1] is None:
        raise InputError(f"{problem}: give the codes of the languages, such as --from de --to en")
    for option, code in ("--from", codes[0]), ("--to", codes[1]):
        if not re.fullmatch(LANGUAGE_CODE, code):
            raise InputError(f"{option} {code}: should be the code of a language, such as de or deu_Latn")
    if codes[0].lower() == codes[1].lower():
        raise InputError(f"both sides are {codes[0]}: name two languages, such as --from de --to en")
    return Direction(codes[0], codes[1])


def read_named(corpora: Mapping[str, Corpus]) -> dict[str, ParallelCorpus]:
    """Read the corpora that a user named.

    Raises:
        InputError: A corpus is damaged, misaligned or empty, or both sides seem to be in the same language.
    """
    read = {part: read_corpus(text, key=f"{part.replace('train', 'training')} text") for part, text in corpora.items()}
    name, sources, targets = read["train"][:3]
    if are_in_one_language(sources[:_JUDGED_LINES], targets[:_JUDGED_LINES]):
        raise InputError(f"{name}: both sides seem to be in the same language: check that the right files are named")
    return read


def split_pairs(corpus: ParallelCorpus, held_out: Mapping[str, ParallelCorpus]) -> Split:
    """Hold out pairs that share no sentence with training on either side; near-duplicates count as the same.

    The held-out pairs are those that share their sentences with the fewest other pairs, usually with none, and have
    usual lengths. At most a tenth of the corpus is lost to training, with the pairs that share a sentence with them.
    The choice depends on the corpus alone.

    Args:
        held_out: The validation and the test set, if they are given.

    Raises:
        InputError: Too few pairs can be used.
    """
    from translate.lint.misalignment import count_items, find_unlikely_lengths  # only here, because it imports torch

    lengths, hashes = ([*map(measure, corpus[1:3])] for measure in (count_items, hash_lines))
    keys, is_equal = _keys(corpus), hashes[0] == hashes[1]
    reasons = {
        "without letters on a side": (keys[0] == 0) | (keys[1] == 0),
        f"longer than {_MOST_CHARACTERS:,} characters": np.maximum(*lengths) > _MOST_CHARACTERS,
        "equal on both sides": is_equal & (is_equal.mean() >= KINDS["equal"].warning_share),
        "repeating an earlier pair": ~find_new(hash_pairs(*hashes)),
    }
    left_out, is_usable = Counter[str](), np.ones(len(is_equal), np.bool_)
    for reason, is_broken in reasons.items():
        left_out[reason] = int((is_usable & is_broken).sum())
        is_usable &= ~is_broken
    usable = np.flatnonzero(is_usable)
    chosen, parts = usable[:0], {name: np.arange(len(given.sources)) for name, given in held_out.items()}
    taken = [np.concatenate(side) for side in zip(*map(_keys, held_out.values()), strict=True)]
    if not held_out:
        costs = np.full(len(is_equal), -1)  # the pairs that are lost to training if one is held out
        for side in keys:
            _, inverse, num_equal = np.unique(side[usable], return_inverse=True, return_counts=True)
            costs[usable] += num_equal[inverse]
        order = np.random.Generator(np.random.PCG64(1)).permutation(len(usable))
        chosen = usable[np.lexsort((order, costs[usable]))]
        chosen = chosen[~np.isin(chosen, find_unlikely_lengths(*lengths)) & ~is_equal[chosen]]
        for side in keys:  # of pairs that share a sentence, only the first
            chosen = chosen[np.sort(np.unique(side[chosen], return_index=True)[1])]
        chosen = chosen[np.cumsum(costs[chosen]) <= 2 * (len(usable) // _HELD_OUT_SHARE)][: 2 * _MOST_HELD_OUT]
        if len(chosen) < 2 and len(usable) >= _FEWEST_PAIRS:
            shared = "nearly every pair shares a sentence with many others, also if digits and punctuation do not count"
            raise InputError(f"{corpus.name}: {shared}, so no validation and test set can be held out")
        parts, taken = {"validation": chosen[::2], "test": chosen[1::2]}, [side[chosen] for side in keys]
    is_taken = np.isin(keys[0][usable], taken[0]) | np.isin(keys[1][usable], taken[1])
    left_out["sharing a sentence with a held-out pair"] = int(is_taken.sum()) - len(chosen)
    left_out = +left_out  # without reasons that leave nothing out
    if (num_left := len(is_equal) - left_out.total()) < _FEWEST_PAIRS:
        counts = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())
        raise InputError(
            f"{corpus.name}: {num_left:,} of {len(is_equal):,} pairs can be used{counts and f' ({counts})'}, and a"
            f" model learns nothing from fewer than {_FEWEST_PAIRS:,}. Write one sentence on each line, find more text,"
            " or fine-tune a model that others have trained: `translate import --help`, docs/opus-mt.md"
        )
    return Split({"train": usable[~is_taken], **parts}, left_out)


def _keys(corpus: ParallelCorpus) -> list[NDArray[np.int64]]:
    return [near_duplicate_hashes(line[:_MOST_CHARACTERS] for line in side) for side in corpus[1:3]]


def write_split(split: Split, corpora: Mapping[str, ParallelCorpus], folder: Path, direction: Direction) -> None:
    """Write the parts of a split as `train.de` and so on, with one sentence per line."""
    for name, pairs in split.parts.items():
        corpus = corpora.get(name, corpora["train"])
        is_in = np.zeros(len(corpus.sources), np.bool_)
        is_in[pairs] = True
        for code, side in zip(direction, corpus[1:3], strict=True):
            with atomic_write(folder / f"{name}.{code}") as file:
                file.writelines(text_bytes(f"{_BREAKS.sub(' ', line)}\n") for line in compress(side, is_in))
