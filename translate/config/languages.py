"""The languages of a model: the directions it translates in, and the tags that tell it which one is wanted.

Source: a tag of the target language before each source: Johnson et al. 2017, https://arxiv.org/abs/1611.04558; tags of
both languages, each before the text in it: Fan et al. 2020, https://arxiv.org/abs/2010.11125 (M2M100).
"""

import contextlib
import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

from translate.config.data import LANGUAGE_CODE, DataConfig, Direction, WeightedCorpus
from translate.errors import InputError
from translate.language_codes import find_language
from translate.nearest import nearest

UNKNOWN = "und"
"""The code of a language that was not given."""
_MOST_SHOWN, _FEW = 20, 8  # names in a message: all of them, or the first few
_NAMES = "--to, or to= in Python", "--from, or from_= in Python"


class Languages:
    """The languages in a config's section `data`."""

    def __init__(self, data: DataConfig) -> None:
        self.data = data
        trained = list(dict.fromkeys(map(data.direction_of, data.train)))
        self.direction = Direction(data.source_language, data.target_language)
        """The direction of all training corpora, if they agree; otherwise `source_language` and `target_language`."""
        if len(trained) == 1:
            [self.direction] = trained
        default = [self.direction]
        if data.languages and UNKNOWN in self.direction:  # a single language can only be the target
            default = [Direction(UNKNOWN, code) for code in data.languages if len(data.languages) == 1]
        self.directions = trained or default
        """The directions of the training corpora; of a run without any, the one of `data`."""
        self.mutual = data.languages
        """Languages that the model translates to each other, even if no training corpus has the pair."""
        self.sources, self.targets = (
            list(dict.fromkeys([*(direction[side] for direction in self.directions), *self.mutual])) for side in (0, 1)
        )
        targets = {direction.target for direction in self.directions} or {data.target_language} & {*self.mutual}
        self.default_target = targets.pop() if len(targets) == 1 else None
        """The language to translate to if a text names none and its own language is in no direction; None: a text must
        name one."""
        trained_targets = {target for _, target in trained}
        self.tags = data.language_tags or ("source" if len(trained_targets) > 1 else None)
        """The side that has language tags: see `data.language_tags`; None: neither."""
        codes = (code for pair in trained for code in pair if self.tags == "both" or code in trained_targets)
        self.tagged = list(dict.fromkeys(codes)) if self.tags else []
        """The languages that have a tag because a training corpus gives them one."""

    def __str__(self) -> str:
        shown = [list_some([f"{source} → {target}" for source, target in self.directions])] if self.directions else []
        return ", ".join([*shown, *([f"{len(self.mutual)} languages"] if len(self.mutual) > 1 else [])])

    @property
    def has_choice(self) -> bool:
        """Whether the model can translate a text in more than one way."""
        return len(self.targets) > 1 or (self.tags == "both" and len(self.sources) > 1)

    @property
    def only(self) -> Direction | None:
        """The direction of a text that names no language; None: it must name one."""
        with contextlib.suppress(InputError):
            return self.choose()
        return None

    @property
    def usual(self) -> Direction:
        """The first direction, to offer and to show in examples."""
        return Direction(self.sources[0], self.targets_of(self.sources[0])[0])

    def targets_of(self, source: str) -> list[str]:
        """The languages to offer for a source: those that it is trained with, and the other mutual ones."""
        others = self.mutual if source in self.mutual else ()
        trained = [direction.target for direction in self.directions if direction.source == source]
        first = [self.default_target] if self.default_target in others else []
        return list(dict.fromkeys([*trained, *(code for code in (*first, *others) if code != source)]))

    @property
    def settings(self) -> dict[str, Any]:
        """The keys of `data` that an export or a fine-tuning needs: the tags, and the languages that have one."""
        tags = {"language_tags": self.tags, "language_tag": self.data.language_tag}
        return {"languages": list(dict.fromkeys([*self.mutual, *self.tagged])), **tags} if self.tags else {}

    def respell(self, direction: Direction) -> Direction:
        """The direction in the model's own codes; a language that the model does not have stays as it is."""
        source, target = direction
        return Direction(find_language(source, self.sources) or source, find_language(target, self.targets) or target)

    def instead_of(self, direction: Direction, *, is_tuned: bool) -> str:
        """Say what the model translates instead, if it cannot translate in a direction; otherwise return an empty text.

        Args:
            is_tuned: Whether the model was fine-tuned. Like an imported one, it may translate from more languages than
                its config names.
        """
        (source, target), is_imported = direction, not self.data.train
        may_have_more = is_tuned or is_imported
        if target not in self.targets and not (is_imported and UNKNOWN in self.targets):
            return f"to {list_some(self.targets, near=target)}"
        if source not in self.sources and (self.tags == "both" or not (may_have_more or source == UNKNOWN)):
            return f"from {list_some(self.sources, near=source)}"
        return str(self) if source == target and direction not in self.directions and not may_have_more else ""

    def check(self, corpus: WeightedCorpus, *, key: str, is_tuned: bool) -> None:
        """Check that a held-out corpus has a direction in which the model translates.

        Args:
            key: The corpus's key in the config, for the message.
            is_tuned: See `instead_of`.

        Raises:
            InputError: The model cannot translate in that direction; or the corpus names no languages, and no training
                corpus has those of `data`.
        """
        direction, is_named = self.data.direction_of(corpus), corpus.source_language or corpus.target_language
        translated = self.instead_of(direction, is_tuned=is_tuned)
        if not (translated or is_named or is_tuned or direction in self.directions):
            translated = str(self)
        if translated:
            taken = f"is {direction}" if is_named else f"names no languages, so it is {direction}"
            raise InputError(
                f"{key} {taken}, but the model translates {translated}: give it the right source_language and"
                " target_language, or train on that direction too"
            )

    def tags_of(self, direction: Direction) -> tuple[str | None, str | None]:
        """The tag before each source and the tag before each target in a direction; None: there is none."""
        source, target = map(self.data.language_tag.format, direction)
        places = {"source": (target, None), "target": (None, target), "both": (source, target)}
        return places[self.tags] if self.tags else (None, None)

    @property
    def every_tag(self) -> list[str]:
        """The tags of all languages and corpora, whichever side they belong to."""
        of_languages = map(self.data.language_tag.format, self.settings.get("languages", ()))
        return [*of_languages, *chain.from_iterable(self.all_tags)]

    @property
    def all_tags(self) -> tuple[list[str], list[str]]:
        """All tags of sources in training, with the languages' before the corpora's, and all tags of targets."""
        pairs = [*map(self.tags_of, self.directions), *((corpus.source_tag, None) for corpus in self.data.train)]
        sources, targets = ([*dict.fromkeys(filter(None, (pair[side] for pair in pairs)))] for side in (0, 1))
        return sources, targets

    def choose(
        self,
        to: str | None = None,
        from_: str | None = None,
        *,
        default: Direction | None = None,
        names: tuple[str, str] = _NAMES,
    ) -> Direction:
        """The direction in which to translate.

        Args:
            to: The language of the translations; None: the only one that `from_` is translated to, or the usual one.
            from_: The language of the sources; None: the only one, or UNKNOWN if the model does not need to know.
            default: Gives the languages that the caller leaves out, if the model has such a direction.
            names: What the caller calls `to` and `from_`, for errors.

        Raises:
            InputError: The model does not have a language, or several languages are possible; or both languages are
                the same, and the model has not been trained to copy.
        """
        if default and not (to or from_):
            return default
        if from_ != UNKNOWN:
            from_ = _find(from_, self.sources, "from")
        to = _find(to, self.targets, "to")
        if default and to is None and from_ != default.target:
            to = default.target
        if default and from_ is None and to in self.targets_of(default.source):
            from_ = default.source
        if from_ == UNKNOWN and UNKNOWN not in self.sources:
            from_ = None
        usual = [pair for pair in self.directions if to in (None, pair.target) and from_ in (None, pair.source)]
        if to is not None and to == from_ and not usual:
            raise InputError(f"both languages are {to}: change one of them ({names[0]}; {names[1]})")
        sources, targets = ({pair[side] for pair in usual} for side in (0, 1))
        if to is None and not usual and from_ != self.default_target:
            to = self.default_target
        if to is None and len(targets) != 1:
            raise InputError(f"the model translates to {list_some(self.targets)}: choose one with {names[0]}")
        if from_ is None and len(sources) != 1:
            if self.tags == "both":
                raise InputError(f"the model translates from {list_some(self.sources)}: choose one with {names[1]}")
            from_ = UNKNOWN  # nothing depends on it
        return Direction(from_ or sources.pop(), to or targets.pop())


def _find(code: str | None, known: Sequence[str], verb: str) -> str | None:
    """The code as the model spells it."""
    found = find_language(code, known) if code and re.fullmatch(LANGUAGE_CODE, code) else None
    if code is not None and not found:
        listed = list_some(known, near=code[:64])
        raise InputError(f"the model translates {verb} {listed}: {ascii(code):.100} is not one of them")
    return found


def unknown_language(code: str, known: Sequence[str]) -> str:
    """What is wrong with the code of a language that a model does not have."""
    return f"{code} is not a language of the model, which has {list_some(known, near=code) or 'none to choose from'}"


def list_some(names: Sequence[str], *, near: str = "") -> str:
    """Names for a message: all of them, or a few and how many more there are.

    Args:
        near: The name that was given; if there are many, the most similar ones come first.
    """
    if len(names) <= _MOST_SHOWN:
        return ", ".join(names)
    begins = [name for name in names if near and (name.startswith(near) or near.startswith(name))]
    shown = list(dict.fromkeys([*nearest(near, names), *begins, *names]))[:_FEW]
    return f"{', '.join(shown)} and {len(names) - len(shown)} more"
