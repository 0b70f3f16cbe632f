"""Clauses side by side in time, and clauses that are known, said or hoped."""

from __future__ import annotations

from . import constructions as build
from .clauses import Drawing
from .constructions import Sentence
from .derivation import (
    Clause,
    NounPhrase,
    Phrase,
    Pronoun,
)
from .describing import known_subject, plain, predicate_clause
from .drawing import DeadEndError
from .lexicon import (
    SEIN,
    VERBS,
    Verb,
    find_adjectives,
    find_nouns,
)
from .plausibility import (
    THEMES,
)
from .reasoning import clashes, refer


def sequence(draw: Drawing) -> Sentence:
    """Two events: bevor and als in the past, während side by side."""
    conjunction = draw.weigh([(3, "bevor"), (3, "als"), (4, "während")])
    reference = "now" if conjunction == "während" else "past"
    theme = draw.choose(THEMES)
    if conjunction == "während":
        verb = theme_verb(draw, theme)
    else:
        verb = draw.pick_verb(("transitive", "dative", "intransitive", "giving", "prepositional"))
    main = draw.furnish(draw.core(verb), reference, plain=True)
    if conjunction == "während":
        main = main.change(time=None)
        sub = draw.furnish(draw.core(theme_verb(draw, theme)), "now", True)
        if sub.verb.infinitive == main.verb.infinitive:
            raise DeadEndError
        sub = sub.change(time=None, frequency=None)
        if not main.verb.progressive or not sub.verb.progressive or main.tense == "perfect" or sub.tense == "perfect":
            raise DeadEndError
        if main.verb.english in ("wake up", "arrive", "leave") or sub.verb.english in ("wake up", "arrive"):
            raise DeadEndError
    else:
        names = "aufwachen einschlafen ankommen zurückkommen gehen kommen abfahren aufstehen"
        if conjunction == "als":
            names = "aufwachen ankommen zurückkommen kommen aufstehen einschlafen"
        verb = draw.balance([verb for verb in VERBS if verb.infinitive in names.split() and verb.frame != "riding"])
        subject = main.subject if draw.chance(45) and main.verb.frame != "liking" else None
        if subject is not None and not fits(subject, verb):
            raise DeadEndError
        sub = draw.core(verb, subject).change(tense="perfect")
        if main.verb.english in (
            "know",
            "have",
            "live",
            "trust",
            "belong to",
            "love",
            "like",
            "need",
            "believe",
            "understand",
        ):
            raise DeadEndError
    main = main.change(frequency=None, time=None)
    same = sub.subject.key == main.subject.key
    if not same and {sub.subject.key, main.subject.key} <= {"ich", "du", "wir", "er", "sie", "ihr"}:
        raise DeadEndError
    if same:
        pronoun = refer(main.subject)
        if pronoun is None or clashes(main.subject, main.object, main.recipient, sub.object):
            raise DeadEndError
        if conjunction == "als":
            return build.subordinate(main.change(subject=pronoun), "als", sub.change(subject=main.subject), True)
        return build.subordinate(main, conjunction, sub.change(subject=pronoun))
    third = isinstance(sub.subject, Pronoun) and sub.subject.person == 3
    first = conjunction != "während" and not third and draw.chance(55)
    return build.subordinate(main, conjunction, sub, first)


def theme_verb(draw: Drawing, theme: str) -> Verb:
    return draw.balance([verb for verb in VERBS if verb.infinitive in theme.split() and verb.frame != "riding"])


def fits(subject: Phrase, verb: Verb) -> bool:
    if isinstance(subject, Pronoun):
        return "person" in verb.subjects or "adult" in verb.subjects or "being" in verb.subjects
    return subject.noun in find_nouns(verb.subjects)


def report(draw: Drawing) -> Sentence:
    """dass, ob, wo, warum after wissen, glauben, sagen, hoffen."""
    subject = draw.any_subject("person", 45)
    conjunction = draw.weigh([(6, "dass"), (3, "ob"), (2, "warum"), (2, "wo")])
    if isinstance(subject, NounPhrase):
        subject = plain(subject)
    verb = draw.choose([build.BELIEVE, build.KNOW, build.SAY, build.HOPE]) if conjunction == "dass" else build.KNOW
    main = Clause(subject, verb, negated=conjunction != "dass")
    if verb is build.SAY and draw.chance(40):
        main = main.change(tense="perfect")
    if conjunction == "wo":
        noun = draw.balance(find_nouns("portable clothing pet child name"))
        thing = plain(draw.object_phrase(noun, subject))
        if noun.category != "name" and not thing.definite:
            raise DeadEndError
        if thing.key == subject.key:
            raise DeadEndError
        inner = draw.expect(Clause(thing, SEIN))
        return build.subordinate(main, "wo", inner)
    if draw.chance(30):
        noun = draw.balance(find_nouns("person food topic goods town"))
        if conjunction == "warum" and noun not in find_nouns("person"):
            raise DeadEndError
        adjectives = find_adjectives(noun)
        inner = predicate_clause(draw, known_subject(draw, noun), adjectives)
    else:
        inner = draw.clause(plain=draw.chance(60))
    if inner.subject.key == subject.key or (inner.frequency and inner.frequency.german == "noch"):
        raise DeadEndError
    if conjunction in ("ob", "warum") and (inner.negated or inner.frequency):
        raise DeadEndError
    if {subject.key, inner.subject.key} <= {"er", "sie", "ich", "du", "wir", "ihr"}:
        raise DeadEndError
    return build.subordinate(main, conjunction, inner)
