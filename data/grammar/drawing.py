"""Chance: seeded draws that are the same on every Python, and noun phrases drawn with sense."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

from .derivation import (
    BARE,
    FOUR,
    HE,
    MANY,
    MY,
    OUR,
    SHE,
    THE,
    THIS,
    THREE,
    TWO,
    WE,
    YOU,
    YOU_ALL,
    YOUR,
    A,
    Clause,
    Determiner,
    I,
    NounPhrase,
    Phrase,
    Prepositional,
    Pronoun,
    own,
)
from .lexicon import (
    PLACES,
    Noun,
    find_adjectives,
    find_noun,
    find_nouns,
)
from .plausibility import (
    OUR_PLACES,
    RELATED,
    SMALL_FOODS,
)
from .split import assign_split

Item = TypeVar("Item")
cached_split = lru_cache(maxsize=None)(assign_split)


class DeadEndError(Exception):
    """A draw that cannot be completed; the caller starts over."""


class PhraseDrawing:
    """Draws derivations whose combinations all belong to one split."""

    def __init__(self, seed: int, split: str) -> None:
        self.random = random.Random(seed)
        self.split = split
        self.used: Counter[object] = Counter()

    def chance(self, percent: int) -> bool:
        return self.random.random() * 100 < percent

    def choose(self, options: Sequence[Item]) -> Item:
        if not options:
            raise DeadEndError
        # random() is the one method whose sequence Python promises to keep for a seed.
        return options[int(self.random.random() * len(options))]

    def balance(self, options: Sequence[Item]) -> Item:
        """The least used of three random options, which keeps rare words from staying rare."""
        drawn = [self.choose(options) for _ in range(3)]
        chosen = min(drawn, key=lambda option: self.used[option])
        self.used[chosen] += 1
        return chosen

    def weigh(self, options: Sequence[tuple[int, Item]]) -> Item:
        """One option, by its weight."""
        mark = self.random.random() * sum(weight for weight, _ in options)
        for weight, option in options:
            mark -= weight
            if mark < 0:
                return option
        return options[-1][1]

    def accepts(self, clause: Clause) -> bool:
        """True if every combination of the clause belongs to the split being drawn."""
        return all(cached_split(combination) == self.split for combination in clause.combinations)

    def expect(self, clause: Clause) -> Clause:
        if not self.accepts(clause):
            raise DeadEndError
        return clause

    def adorn(self, phrase: NounPhrase, percent: int = 42) -> NounPhrase:
        """Perhaps add an adjective that suits the noun."""
        # People and animals are said to be healthy, but hardly called "the healthy aunt".
        adjectives = [adjective for adjective in find_adjectives(phrase.noun) if adjective.german != "gesund"]
        if not adjectives or phrase.noun.category == "name" or not self.chance(percent):
            return phrase
        return NounPhrase(
            phrase.noun, phrase.determiner, phrase.plural, self.balance(adjectives), phrase.owner, phrase.relative
        )

    def pick_determined(self, noun: Noun, options: Sequence[tuple[int, tuple[Determiner, bool]]]) -> NounPhrase:
        if noun.category == "name":
            return NounPhrase(noun, BARE)
        if noun.mass:
            return self.adorn(NounPhrase(noun, THE if self.chance(45) else BARE))
        if noun.plural_only:
            owned = [determiner for _, (determiner, plural) in options if determiner.declension == "ein" and plural]
            last = owned[0] if owned else THE if noun.category != "family" else OUR
            determiner = self.weigh([(6, THE), (1, MY), (1, THIS if noun.category != "family" else MY), (2, last)])
            return self.adorn(NounPhrase(noun, determiner, True))
        determiner, plural = self.weigh(options)
        if noun in find_nouns(SMALL_FOODS):
            plural = True
            determiner = {A: BARE}.get(determiner, determiner)
        return self.adorn(NounPhrase(noun, determiner, plural))

    def subject_phrase(self, noun: Noun) -> NounPhrase:
        options = [
            (46, (THE, False)),
            (8, (A, False)),
            (7, (THIS, False)),
            (8, (MY, False)),
            (3, (YOUR, False)),
            (4, (OUR, False)),
            (11, (THE, True)),
            (3, (THIS, True)),
            (3, (TWO, True)),
            (2, (THREE, True)),
            (2, (MANY, True)),
        ]
        if noun.mass:
            return self.adorn(NounPhrase(noun, THE))
        if noun not in find_nouns(RELATED):
            options = [option for option in options if option[1][0] not in (MY, YOUR, OUR)]
        if noun.german in ("Chef", "König", "Königin"):
            options = [option for option in options if option[1][0] not in (A, TWO, THREE, MANY)]
        if noun.category == "family":
            options = [option for option in options if option[1][0] not in (THIS, A, MANY)] + [(24, (MY, False))]
        return self.pick_determined(noun, options)

    def object_phrase(self, noun: Noun, subject: Phrase) -> NounPhrase:
        options = [
            (34, (THE, False)),
            (24, (A, False)),
            (6, (THIS, False)),
            (9, (THE, True)),
            (7, (BARE, True)),
            (3, (TWO, True)),
            (2, (THREE, True)),
            (1, (FOUR, True)),
            (2, (MANY, True)),
        ]
        possessive = own(subject)
        keepable = noun in find_nouns("goods family pet storage Freund Haus Wohnung Chef Lehrer room parcel")
        if noun.category == "family":
            options = [(30, (THE, False)), (9, (MY, False)), (6, (THE, True)), (2, (YOUR, False))]
        elif noun.animate:
            options = [option for option in options if option[1][0] is not BARE]
        if possessive and keepable:
            options.append((22, (possessive, False)))
            options.append((4, (possessive, True)))
        phrase = self.pick_determined(noun, options)
        owned = find_nouns("goods book message house pet parcel")
        if phrase.determiner is THE and noun in owned and self.chance(16):
            owner = self.owner_phrase(noun, subject)
            # "Sabines Koffer" does not show its number, so it is always one.
            plural = phrase.plural and not (owner.noun.category == "name" and noun.plural == noun.german)
            plural = plural or noun.plural_only
            return NounPhrase(noun, THE, plural, phrase.adjective, owner)
        return phrase

    def owner_phrase(self, owned: Noun, subject: Phrase) -> NounPhrase:
        """A genitive: a name, or a family member or other person with a determiner."""
        if self.chance(40):
            return NounPhrase(self.balance([n for n in find_nouns("name") if n.german != subject.key]), BARE)
        noun = self.balance(
            [
                n
                for n in find_nouns("family folk child worker")
                if not n.plural_only and n.german not in (owned.german, subject.key)
            ]
        )
        determiner = self.weigh([(3, THE), (3, MY if noun.category == "family" else THE), (1, OUR)])
        return NounPhrase(noun, THE if noun.category == "folk" else determiner)

    def pronoun_subject(self) -> Pronoun:
        return self.weigh([(5, I), (3, YOU), (4, HE), (4, SHE), (4, WE), (1, YOU_ALL)])

    def any_subject(self, selector: str, pronouns: int = 16) -> Phrase:
        """A subject from the classes a verb allows; people may be pronouns."""
        nouns = find_nouns(selector)
        if self.chance(pronouns) and any(noun.category == "name" for noun in nouns):
            return self.pronoun_subject()
        return self.subject_phrase(self.balance(nouns))

    def place_phrase(self, german: str) -> NounPhrase:
        determiner = self.weigh([(20, THE), (1, THIS), (2, OUR if german in OUR_PLACES.split() else THE)])
        return self.adorn(NounPhrase(find_noun(german), determiner), 28)

    def place_at(self, german: str, verb: str = "") -> Prepositional:
        # One stands at a lake but swims in it.
        preposition, english = ("in", "in") if verb == "schwimmen" else PLACES[german].rest
        return Prepositional(preposition, "dative", self.place_phrase(german), english)

    def place_to(self, german: str) -> Prepositional:
        preposition, english = PLACES[german].goal
        return Prepositional(
            preposition, "dative" if preposition == "zu" else "accusative", self.place_phrase(german), english
        )
