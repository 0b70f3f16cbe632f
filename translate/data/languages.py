"""The languages of a model: the directions it translates in, and the tags that tell it which one is wanted.

Source: a tag of the target language before each source: Johnson et al. 2017, https://arxiv.org/abs/1611.04558; tags of
both languages, each before its own text: Fan et al. 2020, https://arxiv.org/abs/2010.11125 (M2M100).
"""

from collections.abc import Sequence
from itertools import permutations, starmap
from typing import NamedTuple

from translate.config.data import DataConfig, WeightedCorpus
from translate.errors import InputError

UNKNOWN = "und"
"""The code of a language that was not given."""
_MOST_SHOWN = 20


class Direction(NamedTuple):
    """The languages of a source and of its translation."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


class Languages:
    """The languages in a config's section `data`."""

    def __init__(self, data: DataConfig) -> None:
        self._data = data
        self.directions = list(dict.fromkeys(map(self.of, data.train)))
        """The directions of the training corpora; of a run without any, the one of `data`."""
        default = Direction(data.source_language, data.target_language)
        if not self.directions and not (data.languages and UNKNOWN in default):
            self.directions = [default]
        self.tags = data.tags
        """Which side has language tags: see `data.language_tags`; None: neither."""
        self.sources = list(dict.fromkeys([*(each.source for each in self.directions), *data.languages]))
        """All languages that the model reads."""
        self.targets = list(dict.fromkeys([*(each.target for each in self.directions), *data.languages]))
        """All languages that the model writes."""
        corpora = [corpus.source_tag for corpus in data.train]
        self.source_tags = list(dict.fromkeys(filter(None, [*map(self.source_tag, self.directions), *corpora])))
        """All tags of sources in training: those of languages, and those of corpora."""
        self.target_tags = list(dict.fromkeys(filter(None, map(self.target_tag, self.directions))))
        """All tags of targets in training."""

    def __str__(self) -> str:
        shown = [f"{source} → {target}" for source, target in self.directions[:_MOST_SHOWN]]
        if (more := len(self.directions) - len(shown)) > 0:
            shown.append(f"{more} more")
        if self._data.languages:
            shown.append(f"{len(self._data.languages)} languages")
        return ", ".join(shown)

    @property
    def has_choice(self) -> bool:
        """Whether the model can translate a text in more than one way."""
        return len(self.targets) > 1 or (self.tags == "both" and len(self.sources) > 1)

    @property
    def offered(self) -> list[Direction]:
        """The directions to offer: those of the training, and any between the languages of `data.languages`."""
        return list(dict.fromkeys([*self.directions, *starmap(Direction, permutations(self._data.languages, 2))]))

    def of(self, corpus: WeightedCorpus) -> Direction:
        """The direction of a corpus."""
        return Direction(*self._data.languages_of(corpus))

    def check(self, corpus: WeightedCorpus, *, key: str) -> None:
        """Check that the model can be tested on a corpus, which has this key.

        Raises:
            InputError: It cannot be told a language, because no training corpus has it.
        """
        direction = self.of(corpus)
        for verb, code, known in ("to", direction.target, self.targets), ("from", direction.source, self.sources):
            if known and code not in known and (verb == "to" or self.tags == "both"):
                raise InputError(
                    f"{key} is {direction}, but the model translates {verb} {_list(known)}: correct its"
                    " source_language and target_language, or train on that language too"
                )

    def source_tag(self, direction: Direction) -> str | None:
        """The tag before each source in a direction, if there is one."""
        if self.tags in (None, "target"):
            return None
        return self._data.language_tag.format(direction.target if self.tags == "source" else direction.source)

    def target_tag(self, direction: Direction) -> str | None:
        """The tag before each target in a direction, if there is one."""
        return None if self.tags in (None, "source") else self._data.language_tag.format(direction.target)

    def choose(self, to: str | None = None, from_: str | None = None) -> Direction:
        """The direction in which to translate.

        Args:
            to: The language of the translations; None: the model's only one.
            from_: The language of the sources; None: the only one, or any if the model does not need to know.

        Raises:
            InputError: The model does not have the language, or has a choice of several.
        """
        for code, known, verb in (from_, self.sources, "from"), (to, self.targets, "to"):
            if code is not None and code not in known:
                raise InputError(f"the model translates {verb} {_list(known)}: '{code}' is not one of them")
        usual = [each for each in self.directions if to in (None, each.target) and from_ in (None, each.source)]
        sources, targets = ({each[side] for each in usual} for side in (0, 1))
        if to is None and len(targets) != 1:
            raise InputError(f"the model translates to {_list(self.targets)}: say which with --to, or to= in Python")
        if from_ is None and len(sources) != 1:
            if self.tags == "both":
                codes = _list(self.sources)
                raise InputError(f"the model translates from {codes}: say which with --from, or from_= in Python")
            from_ = UNKNOWN  # nothing depends on it
        return Direction(from_ or sources.pop(), to or targets.pop())


def _list(codes: Sequence[str]) -> str:
    more = f" and {len(codes) - _MOST_SHOWN} more" if len(codes) > _MOST_SHOWN else ""
    return ", ".join(codes[:_MOST_SHOWN]) + more
