"""Text that has no config yet: what a user named, its languages, and which of its pairs are held out."""

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import compress, groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from translate.atomic import atomic_write, text_bytes
from translate.config.data import LANGUAGE_CODE, Corpus, Direction, HubCorpus, TextCorpus
from translate.data.corpora import ParallelCorpus, join_texts, read_corpus
from translate.data.filtering import find_new, hash_lines, hash_pairs
from translate.data.tables import FORMATS, KIND_BY_SUFFIX, hub_columns, table_columns, table_name
from translate.data.text import stream_lines
from translate.errors import InputError
from translate.files import check_is_text, find_files, require_file, text_suffix
from translate.language_codes import CODE, find_language, language_named, standard_code
from translate.lint.findings import KINDS
from translate.lint.interface import BREAKS, find_copies, is_interface
from translate.lint.languages import find_wrong_sides
from translate.lint.near_duplicates import near_duplicate_hashes
from translate.placeholders import find_placeholders
from translate.trigrams import are_in_one_language

logger = logging.getLogger(__name__)

_SIDES = {"source", "src"}, {"target", "tgt", "trg"}  # names of columns that name no language
_COLUMNS = "source_column", "target_column"
_JUDGED_LINES = 5000  # lines whose trigrams show whether both sides are in one language
_FEWEST_PAIRS, _MOST_CHARACTERS = 1000, 5000  # the latter on a side: several times data.max_source_tokens
_MOST_HELD_OUT, _HELD_OUT_SHARE = 1000, 20  # sets as large as Multi30k's, or one pair in twenty


class Split(NamedTuple):
    """Which pairs of a corpus go where, and how many go nowhere."""

    parts: dict[str, NDArray[np.int64]]  # the positions in train, validation and test
    left_out: dict[str, int]  # by reason


def find_corpora(
    texts: Sequence[str], *, from_: str | None, to: str | None
) -> tuple[Direction, dict[str, list[Corpus]]]:
    """Find what a user named, and its languages: two text files, tables, or a data set of the Hub.

    Returns:
        The direction, the corpora of `train`, and if it is a data set that has them, its own `validation` and `test`.

    Raises:
        InputError: A file is missing, or the languages are not clear.
    """
    codes = (from_, to)
    files = list(dict.fromkeys(file for text in texts for file in find_files(Path(text), KIND_BY_SUFFIX)))
    is_table = [text_suffix(file) in KIND_BY_SUFFIX for file in files]
    if all(is_table):
        direction, tables = _choose_tables(files, codes)
        return direction, {"train": tables}
    if len(files) > 2 or (any(is_table) and len(files) > 1):
        hint = f"name the two text files of a corpus, or only tables, which end in {', '.join(KIND_BY_SUFFIX)}"
        raise InputError(f"{', '.join(map(str, files)):.200}: {hint}")
    if len(files) > 1:
        return _choose_sides(files[0], files[1], codes)
    source, path = texts[0], files[0]
    is_file = path.exists() or path.parent.exists() or CODE.fullmatch(_ending(path))
    if is_file or not re.fullmatch(r"[\w-]+/[\w.-]+", source):
        next(stream_lines(path), None)  # says what a file is that is not text
        check_is_text(path)
        raise InputError(
            f"{source}: name the file with its translations too; tables end in {', '.join(KIND_BY_SUFFIX)}"
        )
    subset, splits = hub_columns(source, codes)
    parts = {"train": "train" if "train" in splits else next(iter(splits))}
    parts |= {name: name for name in ("validation", "test") if {"validation", "test"} <= splits.keys()}
    direction, chosen = _choose_columns(source, splits[parts["train"]], codes, "fields")
    named = {"dataset": source, "subset": subset, **chosen}
    return direction, {part: [HubCorpus.model_validate({"split": split, **named})] for part, split in parts.items()}


def _choose_sides(source: Path, target: Path, codes: Sequence[str | None]) -> tuple[Direction, dict[str, list[Corpus]]]:
    """Two text files as one corpus; those whose names end in the languages may be the other way round."""
    for file in (source, target):
        require_file(file)
    endings = [_ending(file) for file in (source, target)]
    found = [code or (end if CODE.fullmatch(end) else None) for code, end in zip(codes, endings, strict=True)]
    direction = _direction(found, f"the names {source.name} and {target.name} do not end in language codes")
    if endings == [direction.target, direction.source]:
        logger.info(f"{source.name} and {target.name} are the other way round, judging by their names: exchanged")
        source, target = target, source
    return direction, {"train": [TextCorpus(source=source, target=target)]}


def _choose_tables(files: Sequence[Path], codes: Sequence[str | None]) -> tuple[Direction, list[Corpus]]:
    """The two columns of each table; files without the languages of the others are left out and counted."""
    found, others = defaultdict[Direction, list[Corpus]](list), dict[str, InputError]()
    for file in files:
        kind = KIND_BY_SUFFIX[text_suffix(file)]
        columns, naming = table_columns(file, kind), FORMATS[kind].naming
        try:
            direction, chosen = _choose_columns(str(file), columns, codes, naming)
            if len(files) > 1 and naming == "languages" and not all(find_language(code, columns) for code in direction):
                raise InputError(f"{file}: has {', '.join(columns)}, and not {' and '.join(direction)}")
        except InputError as error:
            others[file.name] = error
            continue
        found[direction].append(TypeAdapter[Corpus](Corpus).validate_python({"kind": kind, "path": file} | chosen))
    if not found:
        raise next(iter(others.values()))
    if len(found) > 1:
        counts = ", ".join(f"{direction} ({len(tables):,} files)" for direction, tables in found.items())
        raise InputError(f"{files[0].parent}: the files have several languages, {counts}: choose with --from and --to")
    if others:
        problem = f"Left out {len(others):,} of {len(files):,} files, which have other languages or do not name theirs"
        logger.info(f"{problem}: {', '.join(others):.200}")
    return found.popitem()


def _ending(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix[1:]


def _choose_columns(
    place: str, columns: Sequence[str], codes: Sequence[str | None], naming: str
) -> tuple[Direction, dict[str, Any]]:
    """Choose the columns with the names of the languages, or else of the sides; or the only two, but not of a CSV.

    The first line of a TSV is a header if two of its cells are such names, of different languages: `German` and
    `Deutsch` are a pair. `Ja` is a word, and `ja` or `JA` a language.

    Args:
        columns: What the format lists; `naming` says what that is: see `Format`.
    """
    if not any(columns):
        raise InputError(f"{place}: has no text")
    is_line = naming in ("cells", "header")
    names = [column if is_line else column.rpartition(".")[2] for column in columns]
    codes_of = [language_named(name) for name in names]
    names = [code or name for code, name in zip(codes_of, names, strict=True)]
    languages = [*filter(None, codes_of)]
    sides = [next((name for name in names if name.lower() in side), None) for side in _SIDES]
    if naming == "cells" and len({*map(standard_code, languages), *filter(None, sides)}) < 2:
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


def read_named(corpora: Mapping[str, Sequence[Any]], direction: Direction) -> dict[str, ParallelCorpus]:
    """Read the corpora that a user named; a file's sides are exchanged if its text shows the opposite direction.

    Files whose columns name the languages stay as they are. Several parts are of one data set, and training decides.

    Raises:
        InputError: A corpus is damaged, misaligned or empty, or both sides seem to be in the same language.
    """
    read = defaultdict[str, list[ParallelCorpus]](list)
    groups = (_by_judgement(tables, direction) for tables in corpora.values())
    for together in zip(*groups, strict=True):
        keys = (f"{part.replace('train', 'training')} text" for part in corpora)
        texts = [read_corpus(*tables, key=key) for key, tables in zip(keys, together, strict=True)]
        name, *sides = texts[0][:3]
        if are_in_one_language(*(side[:_JUDGED_LINES] for side in sides)):
            raise InputError(
                f"{name}: both sides seem to be in the same language: check that the right files are named"
            )
        wrong = find_wrong_sides(name, direction, (sides[0], sides[1]), languages=direction)
        is_wrong = [finding.severity for finding in wrong] == ["error", "error"]  # each looks like the other
        if is_wrong and not _names_languages(together[0][0], direction):
            logger.info(f"{name}: the text shows that the sides are the other way round from {direction}: exchanged")
            texts = [each._replace(sources=each.targets, targets=each.sources) for each in texts]
        for part, each in zip(corpora, texts, strict=True):
            read[part].append(each)
    return {
        part: texts[0] if len(texts) == 1 else ParallelCorpus(table_name(*corpora[part]), *join_texts(texts), 1.0)
        for part, texts in read.items()
    }


def _by_judgement(tables: Sequence[Any], direction: Direction) -> list[list[Any]]:
    """Tables that are judged together: neighbours whose columns name the languages, or one alone."""
    groups = groupby(enumerate(tables), lambda each: -1 if _names_languages(each[1], direction) else each[0])
    return [[table for _, table in group] for _, group in groups]


def _names_languages(corpus: Corpus, direction: Direction) -> bool:
    names = (str(getattr(corpus, key, "")).rpartition(".")[2] for key in _COLUMNS)
    return all(find_language(code, [language_named(name) or name]) for code, name in zip(direction, names, strict=True))


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
    keys, is_equal, is_new = _keys(corpus), hashes[0] == hashes[1], find_new(hash_pairs(*hashes))
    is_copy = is_equal & (is_equal.mean() >= KINDS["equal"].warning_share)
    if is_interface(*(side[:: len(side) // _JUDGED_LINES + 1] for side in corpus[1:3])):
        is_copy &= np.isin(np.arange(len(is_copy)), find_copies(corpus.sources, is_copy & is_new))
    reasons = {
        "without a letter or digit on one side": (keys[0] == 0) | (keys[1] == 0),
        f"longer than {_MOST_CHARACTERS:,} characters": np.maximum(*lengths) > _MOST_CHARACTERS,
        "equal on both sides (in text of programs, short labels stay, up to 5 % of the pairs)": is_copy,
        "repeating an earlier pair": ~is_new,
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


def has_placeholders(lines: Sequence[str]) -> bool:
    """Whether a text seems to be a program's: more than one line in fifty has placeholders, which a model must copy."""
    return 50 * sum(map(bool, map(find_placeholders, lines))) > len(lines)


def write_split(split: Split, corpora: Mapping[str, ParallelCorpus], folder: Path, direction: Direction) -> None:
    """Write the parts of a split as `train.de` and so on, with one sentence per line."""
    for name, pairs in split.parts.items():
        corpus = corpora.get(name, corpora["train"])
        is_in = np.zeros(len(corpus.sources), np.bool_)
        is_in[pairs] = True
        for code, side in zip(direction, corpus[1:3], strict=True):
            with atomic_write(folder / f"{name}.{code}") as file:
                file.writelines(text_bytes(f"{BREAKS.sub(' ', line)}\n") for line in compress(side, is_in))
