"""Questions and requests."""

from __future__ import annotations

from . import constructions as build
from .clauses import Drawing
from .constructions import WHO, Sentence
from .derivation import (
    BARE,
    YOU,
    Clause,
    NounPhrase,
    Phrase,
    Pronoun,
)
from .describing import known_subject
from .drawing import DeadEndError
from .lexicon import (
    SEIN,
    VERBS,
    find_adverb,
    find_nouns,
)
from .plausibility import (
    COMMANDS,
    SETTINGS,
)


def yes_no_question(draw: Drawing) -> Sentence:
    clause = draw.clause()
    if isinstance(clause.subject, Pronoun) and draw.chance(25):
        raise DeadEndError
    return build.ask(clause)


def w_question(draw: Drawing) -> Sentence:
    """Questions for who, what, whom, where, when and why."""
    role = draw.weigh(
        [(4, "subject"), (5, "object"), (2, "recipient"), (3, "rest"), (3, "goal"), (2, "time"), (2, "reason")]
    )
    if role == "subject":
        clause = draw.clause(("transitive", "dative", "prepositional", "giving", "motion", "intransitive"))
        if not clause.verb.subjects.startswith(("person", "adult", "being", "child")) or clause.verb.frame == "liking":
            raise DeadEndError
        if any(determined_by_subject(phrase, clause.subject) for phrase in (clause.object, clause.recipient)):
            raise DeadEndError
        if clause.negated or clause.frequency:
            raise DeadEndError
        return build.ask_who(draw.expect(clause.change(subject=WHO))) if is_third(clause) else dead_end()
    if role == "rest":
        if draw.chance(35):
            noun = draw.balance(find_nouns("portable clothing pet child name"))
            subject = known_subject(draw, noun)
            place = draw.place_at("Küche")
            clause = draw.expect(Clause(subject, SEIN, place=place))
        else:
            clause = draw.clause(("transitive", "intransitive"), plain=True)
    else:
        frames = {"object": ("transitive",), "recipient": ("dative", "giving"), "goal": ("motion",)}
        clause = draw.clause(frames.get(role, ("transitive", "intransitive", "giving", "motion", "dative")))
    if role == "rest" and not clause.place:
        places = SETTINGS.get(clause.verb.infinitive)
        if not places:
            raise DeadEndError
        chosen = draw.choose(find_nouns(places)).german
        clause = clause.change(place=draw.place_at(chosen, clause.verb.infinitive))
    if role == "goal" and clause.verb.infinitive in ("kommen", "zurückkommen"):
        raise DeadEndError
    if role == "recipient" and clause.verb.frame == "giving":
        raise DeadEndError
    if role == "time":
        if clause.reference in ("habitual",) or not clause.verb.progressive:
            raise DeadEndError
        clause = clause.change(time=find_adverb("morgen") if clause.reference == "future" else None, frequency=None)
        if clause.reference == "future":
            clause = clause.change(time=None)
    if role != "subject" and (clause.negated and role != "reason"):
        raise DeadEndError
    if role == "object" and clause.verb.german == "spielen":
        raise DeadEndError
    if isinstance(clause.object, Pronoun) and role == "object":
        raise DeadEndError
    if role == "object" and clause.object and clause.object.noun.animate and not clause.object.noun.human:  # type: ignore[union-attr]
        raise DeadEndError
    if role == "object" and not roles_are_clear_in_question(clause):
        raise DeadEndError
    return build.ask_for(clause, role)


def dead_end() -> Sentence:
    raise DeadEndError


def is_third(clause: Clause) -> bool:
    return not isinstance(clause.subject, Pronoun)


def determined_by_subject(phrase: Phrase | None, subject: Phrase) -> bool:
    """True if a possessive in the phrase points at the subject, which a question word could not own."""
    return isinstance(phrase, NounPhrase) and phrase.determiner.german in ("sein", "ihr")


def roles_are_clear_in_question(clause: Clause) -> bool:
    """True for questions like "Was sieht die Frau?", where only one part can be the subject."""
    return clause.subject.person != 3 or not isinstance(clause.subject, NounPhrase) or clause.subject.noun.animate


def imperative(draw: Drawing) -> Sentence:
    """As in "Mach bitte das Fenster auf!" and "Öffnen Sie bitte das Fenster!"."""
    verbs = [verb for verb in VERBS if verb.infinitive in COMMANDS.split() and verb.frame != "intransitive"]
    clause = draw.core(draw.balance(verbs), YOU)
    phrases = (clause.object, clause.recipient, clause.complement.phrase if clause.complement else None)
    if any(isinstance(part, NounPhrase) and part.determiner.german in ("dein", "sein", "ihr") for part in phrases):
        raise DeadEndError
    if (
        isinstance(clause.object, NounPhrase)
        and clause.verb.german != "spielen"
        and clause.object.determiner is BARE
        and clause.object.noun.category != "name"
        and not clause.object.noun.mass
    ):
        raise DeadEndError
    if any(isinstance(part, NounPhrase) and not part.definite and not part.noun.mass for part in phrases):
        raise DeadEndError
    if clause.verb.manners and draw.chance(25):
        clause = clause.change(manner=find_adverb(draw.choose(clause.verb.manners)))
        if clause.manner and clause.manner.german == "gut":
            raise DeadEndError
    return build.command(clause, draw.chance(45))
