"""What a sentence is made of before it is German or English: phrases, clauses and their parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from .lexicon import Adjective, Adverb, Modal, Noun, Verb


class Determiner(NamedTuple):
    """A determiner: German base, declension (der, ein, dieser, none), English before singular and plural."""

    german: str
    declension: str
    english: str
    english_plural: str


THE = Determiner("d", "der", "the", "the")
A = Determiner("ein", "ein", "a", "")
NO = Determiner("kein", "ein", "a", "any")
THIS = Determiner("dies", "dieser", "this", "these")
EVERY = Determiner("jed", "dieser", "every", "")
BARE = Determiner("", "none", "", "")
TWO = Determiner("zwei", "none", "", "two")
THREE = Determiner("drei", "none", "", "three")
FOUR = Determiner("vier", "none", "", "four")
MANY = Determiner("viele", "none", "", "many")
MY = Determiner("mein", "ein", "my", "my")
YOUR = Determiner("dein", "ein", "your", "your")
OUR = Determiner("unser", "ein", "our", "our")
HIS = Determiner("sein", "ein", "his", "his")
HER = Determiner("ihr", "ein", "her", "her")
ITS_MASCULINE = Determiner("sein", "ein", "its", "its")
ITS_FEMININE = Determiner("ihr", "ein", "its", "its")
GIRL_HER = Determiner("sein", "ein", "her", "her")
THEIR = Determiner("ihr", "ein", "their", "their")


class Relative(NamedTuple):
    """A relative clause: the clause and the role in it that the antecedent plays."""

    clause: Clause
    role: str


@dataclass(frozen=True)
class NounPhrase:
    """A noun with what stands around it; ``owner`` is a genitive, in English a possessive."""

    noun: Noun
    determiner: Determiner = THE
    plural: bool = False
    adjective: Adjective | None = None
    owner: NounPhrase | None = None
    relative: Relative | None = None

    @property
    def person(self) -> int:
        return 3

    @property
    def key(self) -> str:
        return self.noun.german

    @property
    def definite(self) -> bool:
        return self.noun.category == "name" or self.determiner not in (A, NO, BARE, TWO, THREE, FOUR, MANY)


@dataclass(frozen=True)
class Pronoun:
    """A personal pronoun; ``antecedent`` is the noun it stands for, if any."""

    nominative: str
    accusative: str
    dative: str
    person: int
    plural: bool
    english: str
    english_object: str
    antecedent: str = ""

    @property
    def key(self) -> str:
        return self.antecedent or self.nominative

    @property
    def definite(self) -> bool:
        return True


I = Pronoun("ich", "mich", "mir", 1, False, "I", "me")  # noqa: E741 - the English pronoun is one letter
YOU = Pronoun("du", "dich", "dir", 2, False, "you", "you")
HE = Pronoun("er", "ihn", "ihm", 3, False, "he", "him")
SHE = Pronoun("sie", "sie", "ihr", 3, False, "she", "her")
WE = Pronoun("wir", "uns", "uns", 1, True, "we", "us")
YOU_ALL = Pronoun("ihr", "euch", "euch", 2, True, "you", "you")
THEY = Pronoun("sie", "sie", "ihnen", 3, True, "they", "them")
YOU_FORMAL = Pronoun("Sie", "Sie", "Ihnen", 3, True, "you", "you")

Phrase = NounPhrase | Pronoun


class Prepositional(NamedTuple):
    """A preposition with its phrase and case, and the English preposition ("" where the English verb has it)."""

    german: str
    case: str
    phrase: Phrase
    english: str


class Predicate(NamedTuple):
    """What sein says of the subject: an adjective with "sehr" or "zu", or a comparison with a phrase."""

    adjective: Adjective
    degree: str = ""
    than: Phrase | None = None


@dataclass(frozen=True)
class Clause:
    """One verb with its participants and circumstances; word order and inflection are left to the languages."""

    subject: Phrase
    verb: Verb
    object: Phrase | None = None
    recipient: Phrase | None = None
    complement: Prepositional | None = None
    vehicle: Noun | None = None
    place: Prepositional | None = None
    predicate: Predicate | None = None
    time: Adverb | None = None
    frequency: Adverb | None = None
    manner: Adverb | None = None
    modal: Modal | None = None
    tense: str = "present"
    negated: bool = False
    habitual: bool = False

    @property
    def combination(self) -> tuple[str, str, str]:
        """The core content combination that decides the split: subject, verb and the nearest participant."""
        third = ""
        if self.object:
            third = self.object.key
        elif self.recipient:
            third = self.recipient.key
        elif self.complement:
            third = self.complement.phrase.key
        elif self.predicate:
            third = self.predicate.adjective.german
        elif self.place:
            third = self.place.phrase.key
        return (self.subject.key, self.verb.infinitive, third)

    @property
    def combinations(self) -> tuple[tuple[str, str, str], ...]:
        """The combinations of this clause and of every relative clause inside it."""
        found = [self.combination]
        place_phrases = [part.phrase for part in (self.complement, self.place) if part]
        for phrase in (self.subject, self.object, self.recipient, *place_phrases):
            if isinstance(phrase, NounPhrase) and phrase.relative:
                found.extend(phrase.relative.clause.combinations)
        return tuple(found)

    @property
    def reference(self) -> str:
        """When it happens as English sees it: past, future, habitual or now."""
        if self.tense in ("perfect", "preterite"):
            return "past"
        if self.time and "future" in self.time.times and not self.modal:
            return "future"
        if self.habitual or any(a and "habitual" in a.times for a in (self.time, self.frequency)):
            return "habitual"
        return "now"

    def change(self, **fields: Any) -> Clause:
        """A copy with some fields replaced."""
        return replace(self, **fields)


def refer_to(phrase: Phrase) -> Pronoun:
    """The pronoun that takes up a phrase: German gender decides the form, English looks at what it is."""
    if isinstance(phrase, Pronoun):
        return phrase
    noun = phrase.noun
    if phrase.plural:
        return replace(THEY, antecedent=noun.german)
    english = noun.english_pronoun
    forms = {"m": ("er", "ihn", "ihm"), "f": ("sie", "sie", "ihr"), "n": ("es", "es", "ihm")}[noun.gender]
    english_object = {"he": "him", "she": "her", "it": "it"}[english]
    return Pronoun(*forms, 3, False, english, english_object, noun.german)


def own(phrase: Phrase) -> Determiner | None:
    """The possessive that points back at a phrase, or none where the two languages would not agree clearly."""
    if isinstance(phrase, Pronoun):
        if phrase.antecedent and phrase.plural:
            return THEIR
        by_form = {"ich": MY, "du": YOUR, "wir": OUR}
        if phrase.nominative in by_form:
            return by_form[phrase.nominative]
        return {"he": HIS, "she": HER if phrase.nominative == "sie" else GIRL_HER, "they": THEIR}.get(phrase.english)
    if phrase.plural:
        return THEIR
    match phrase.noun.english_pronoun:
        case "he":
            return HIS
        case "she":
            return GIRL_HER if phrase.noun.gender == "n" else HER
        case "it":
            return ITS_FEMININE if phrase.noun.gender == "f" else ITS_MASCULINE
    return None
