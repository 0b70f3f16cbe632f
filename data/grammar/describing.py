"""Sentences that say what something is like, compare it, or say that it exists."""

from __future__ import annotations

from collections.abc import Sequence

from . import constructions as build
from .clauses import Drawing
from .constructions import Sentence
from .derivation import (
    BARE,
    MANY,
    NO,
    THE,
    THREE,
    TWO,
    A,
    Clause,
    NounPhrase,
    Phrase,
    Predicate,
)
from .drawing import DeadEndError
from .lexicon import (
    SEIN,
    TIMES,
    Adjective,
    Noun,
    Verb,
    find_adjectives,
    find_adverb,
    find_nouns,
)
from .plausibility import (
    MOODS,
)


def predicate_clause(draw: Drawing, subject: Phrase, adjectives: Sequence[Adjective], tense: str = "present") -> Clause:
    """The subject with sein and one of the adjectives, in the split being drawn."""
    for _ in range(30):
        adjective = draw.balance(adjectives)
        degree = draw.weigh([(70, ""), (22, "sehr"), (0, "zu")])
        if not adjective.comparative:
            degree = ""
        clause = Clause(subject, SEIN, predicate=Predicate(adjective, degree), tense=tense)
        if draw.accepts(clause):
            return clause
    raise DeadEndError


DESCRIBED = (
    "being food drink goods parcel building room outdoors town tree plant transport opening topic storage furniture"
)


EXCESSES = "kalt heiß süß teuer lang laut schwierig schwer alt klein"


def describe(draw: Drawing, noun: Noun | None = None) -> Sentence:
    """As in "Die Suppe ist zu heiß.", in the present or the past."""
    noun = noun or draw.balance([n for n in find_nouns(DESCRIBED) if find_adjectives(n)])
    subject = known_subject(draw, noun)
    tense = "preterite" if draw.chance(28) else "present"
    clause = predicate_clause(draw, subject, find_adjectives(noun), tense)
    assert clause.predicate
    adjective = clause.predicate.adjective
    if draw.chance(15):
        clause = clause.change(negated=True)
    elif tense == "present" and draw.chance(14) and adjective.german in EXCESSES.split():
        clause = clause.change(predicate=Predicate(adjective, "zu"))
    if adjective.german in MOODS.split() and draw.chance(45):
        times = [t for t in TIMES if t.german in ("gestern", "gestern Abend", "heute Morgen", "letzte Woche")]
        if tense == "present":
            times = [find_adverb("heute"), find_adverb("jetzt")]
        clause = clause.change(time=draw.choose(times))
        if draw.chance(40):
            return build.state(clause, "time", "predicate")
    return build.state(clause, construction="predicate")


def plain(phrase: NounPhrase) -> NounPhrase:
    """Without an adjective, for a subject that gets one as predicate."""
    return NounPhrase(phrase.noun, phrase.determiner, phrase.plural, None, phrase.owner, None)


def known_subject(draw: Drawing, noun: Noun) -> NounPhrase:
    """A definite subject without adjective, for a sentence that says what it is like."""
    for _ in range(40):
        phrase = plain(draw.subject_phrase(noun))
        if phrase.definite:
            return phrase
    raise DeadEndError


def comparison(draw: Drawing) -> Sentence:
    """As in "Der Hund ist größer als die Katze.", or "so groß wie"."""
    noun = draw.balance(find_nouns("being goods building town drink fruit vehicle topic room"))
    adjectives = [adjective for adjective in find_adjectives(noun) if adjective.comparative]
    subject = known_subject(draw, noun)
    clause = predicate_clause(draw, subject, adjectives)
    assert clause.predicate
    adjective = clause.predicate.adjective
    similar = [
        other for other in find_nouns(adjective.describes) if not same_stuff(other, noun) and kind(other) == kind(noun)
    ]
    other = draw.balance(similar)
    than = NounPhrase(other, BARE if other.category == "name" else THE, other.plural_only)
    degree = "as" if draw.chance(25) else ""
    return build.state(clause.change(predicate=Predicate(adjective, degree, than)), construction="comparison")


def same_stuff(first: Noun, second: Noun) -> bool:
    """True for a noun and itself or a compound of it: Kartoffelsuppe is a Suppe."""
    one, other = first.german.lower(), second.german.lower()
    return one.endswith(other) or other.endswith(one)


def kind(noun: Noun) -> str:
    """Coarse kind, so that comparisons stay sensible."""
    for group in ("person", "animal", "vehicle", "food", "drink", "text image", "topic"):
        if noun in find_nouns(group):
            return group
    return noun.category


GEBEN_ES = Verb("geben", "", "gib", "gegeben", "haben", "be", "was", False, "existence", "")


EXISTENCE = (
    ("house", "Stadt Dorf"),
    ("Markt Bahnhof Bibliothek Restaurant Café Kino Supermarkt Bäckerei Apotheke Spielplatz", "Stadt Dorf"),
    ("tree plant", "Garten Park Wiese Insel"),
    ("animal", "Zoo Wald Bauernhof Insel Wiese"),
    ("furniture", "Wohnzimmer Schlafzimmer Büro Keller Hotel"),
    ("storage", "Küche Keller"),
    ("room", "Haus Hotel Schloss Schule Krankenhaus Wohnung"),
)


def existence(draw: Drawing) -> Sentence:
    """As in "In der Stadt gibt es drei alte Kirchen."."""
    things, places = draw.choose(EXISTENCE)
    noun = draw.balance(find_nouns(things))
    determiner, plural = draw.weigh(
        [(6, (A, False)), (3, (TWO, True)), (2, (THREE, True)), (3, (MANY, True)), (2, (NO, False))]
    )
    if noun.mass or noun.plural_only:
        raise DeadEndError
    phrase = draw.adorn(NounPhrase(noun, A if determiner is NO else determiner, plural), 60)
    place = draw.place_at(draw.balance(find_nouns(places)).german)
    if place.phrase.key == noun.german:
        raise DeadEndError
    return build.exist(phrase, draw.expect(Clause(phrase, GEBEN_ES, place=place)))
