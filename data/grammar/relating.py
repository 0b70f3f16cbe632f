"""Relative clauses on the subject or on what the verb is about."""

from __future__ import annotations

from . import constructions as build
from .asking import determined_by_subject
from .clauses import Drawing, is_clear_nominative
from .constructions import Sentence
from .derivation import (
    BARE,
    THE,
    Clause,
    NounPhrase,
    Phrase,
    Prepositional,
    Relative,
)
from .describing import plain, predicate_clause
from .drawing import DeadEndError
from .lexicon import (
    PLACES,
    SEIN,
    VERBS,
    Verb,
    find_adjectives,
    find_nouns,
)
from .plausibility import (
    SETTINGS,
)


def with_relative(draw: Drawing) -> Sentence:
    """A relative clause on the subject or the object."""
    if draw.chance(55):
        return subject_with_relative(draw)
    clause = draw.furnish(draw.core(draw.pick_verb(("transitive", "dative", "prepositional"))), plain=True)
    slot = "object" if clause.object else "recipient" if clause.recipient else "complement"
    phrase = clause.complement.phrase if slot == "complement" and clause.complement else getattr(clause, slot)
    if not isinstance(phrase, NounPhrase) or phrase.noun.category == "name" or phrase.owner or clause.place:
        raise DeadEndError
    if phrase.determiner is BARE or phrase.determiner.german in ("sein", "ihr", "mein", "dein", "unser"):
        raise DeadEndError
    extended = add_relative(draw, phrase, clause.subject, clause.verb)
    if slot == "complement" and clause.complement:
        clause = clause.change(complement=clause.complement._replace(phrase=extended))
    else:
        clause = clause.change(**{slot: extended})
    # English puts the time at the end, where it would seem to belong to the relative clause.
    clause = clause.change(time=None, frequency=None)
    return build.state(draw.expect(clause), construction="relative clause")


def subject_with_relative(draw: Drawing) -> Sentence:
    """As in "Der Mann, der das Brot kauft, ist müde."."""
    noun = draw.balance(find_nouns("family folk child worker animal goods building town parcel plant tree topic room"))
    phrase = plain(NounPhrase(noun, THE, noun.plural_only or draw.chance(22)))
    if noun.category == "family":
        phrase = NounPhrase(noun, THE, phrase.plural)
    if draw.chance(45) and find_adjectives(noun):
        outer = predicate_clause(draw, phrase, find_adjectives(noun), "preterite" if draw.chance(20) else "present")
    else:
        verbs = [
            v
            for v in VERBS
            if v.frame in ("transitive", "dative", "prepositional", "intransitive", "motion")
            and noun in find_nouns(v.subjects)
        ]
        outer = draw.furnish(draw.core(draw.balance(verbs), phrase), plain=True)
    extended = add_relative(draw, phrase, None, outer.verb)
    relative = extended.relative
    if relative and relative.clause.verb is SEIN and outer.verb is SEIN:
        raise DeadEndError
    if relative and relative.clause.time:
        outer = outer.change(time=None)
    return build.state(draw.expect(outer.change(subject=extended)), construction="relative clause")


def add_relative(draw: Drawing, phrase: NounPhrase, avoid: Phrase | None, outer: Verb) -> NounPhrase:
    """The phrase with a relative clause in which it is subject, object, recipient, complement or place."""
    noun = phrase.noun
    bare = NounPhrase(noun, THE, phrase.plural)
    role = draw.weigh(
        [(4, "subject"), (2, "quality"), (5, "object"), (2, "recipient"), (3, "complement"), (2, "place")]
    )
    if role == "place":
        if noun.german not in PLACES or noun.category in ("folk",):
            raise DeadEndError
        verbs = [
            v
            for v in VERBS
            if v.frame == "intransitive"
            and noun in find_nouns(SETTINGS.get(v.infinitive, "Haus"))
            and v.infinitive in SETTINGS
        ]
        clause = draw.core(draw.balance(verbs))
        preposition, english = PLACES[noun.german].rest
        clause = clause.change(place=Prepositional(preposition, "dative", bare, english))
    elif role == "quality":
        clause = predicate_clause(draw, bare, [a for a in find_adjectives(noun) if a != phrase.adjective])
    elif role == "subject":
        verbs = [
            v
            for v in VERBS
            if v.frame in ("transitive", "intransitive", "dative", "motion", "prepositional", "liking", "position")
            and noun in find_nouns(v.subjects)
        ]
        clause = draw.core(draw.balance([v for v in verbs if v != outer]), bare)
    else:
        frame = {"object": "transitive", "recipient": "dative", "complement": "prepositional"}[role]
        verbs = [v for v in VERBS if v.frame == frame and noun in find_nouns(v.objects) and v != outer]
        verbs = [v for v in verbs if v.english not in ("smell of",)]
        clause = draw.core(draw.balance(verbs), None, bare)
        if role == "object" and not relative_is_clear(clause, bare):
            raise DeadEndError
    if isinstance(avoid, Phrase) and clause.subject.key == avoid.key:
        raise DeadEndError
    if any(determined_by_subject(part, clause.subject) for part in (clause.object, clause.recipient)):
        raise DeadEndError
    if clause.predicate is None:
        clause = draw.furnish(clause, "past" if draw.chance(45) else "now", plain=True)
    clause = clause.change(frequency=None)
    if role == "place":
        clause = clause.change(time=None)
    if not draw.accepts(clause):
        raise DeadEndError
    name = "subject" if role == "quality" else role
    if role == "quality":
        # One quality is enough: no "heavy backpack that is light".
        phrase = plain(phrase)
    return NounPhrase(noun, phrase.determiner, phrase.plural, phrase.adjective, None, Relative(clause, name))


def relative_is_clear(clause: Clause, target: NounPhrase) -> bool:
    """True if the relative pronoun, the verb form or the sense shows that the antecedent is the object."""
    if target.noun.gender == "m" and not target.plural:
        return True
    subject = clause.subject
    return is_clear_nominative(subject) or subject.plural != target.plural or not target.noun.animate
