"""weil, obwohl, denn and wenn, with a second clause that fits the first."""

from __future__ import annotations

from . import constructions as build
from .clauses import Drawing
from .constructions import IT, Sentence
from .derivation import (
    BARE,
    NO,
    Clause,
    NounPhrase,
    Phrase,
    Predicate,
    Pronoun,
    refer_to,
)
from .describing import predicate_clause
from .drawing import DeadEndError
from .lexicon import (
    SEIN,
    VERBS,
    find_adjective,
    find_nouns,
)
from .plausibility import (
    MOODS,
    REASONS,
    WEATHER_CONTRASTS,
    WEATHER_REASONS,
)


def reason_clause(draw: Drawing, clause: Clause, contrast: bool) -> Clause:
    """A clause that explains the main clause or that it defies: a mood, a quality of the object, or the weather."""
    options: list[tuple[int, Clause]] = []
    table = REASONS.get(clause.verb.infinitive, ("", "", "", ""))
    past = clause.tense == "perfect"
    tense = "preterite" if past else "present"
    subject, target = clause.subject, clause.object
    pronoun = refer(subject)
    about_subject = [find_adjective(name) for name in table[1 if contrast else 0].split()]
    if isinstance(subject, NounPhrase):
        about_subject = [adjective for adjective in about_subject if subject.noun in find_nouns(adjective.describes)]
        about_subject = [adjective for adjective in about_subject if adjective != subject.adjective]
    if about_subject and pronoun and not clashes(subject, target, clause.recipient):
        options.append((3, predicate_clause(draw, pronoun, about_subject, tense)))
    if isinstance(target, NounPhrase) and not isinstance(target.determiner, type(None)):
        adjectives = [find_adjective(name) for name in table[3 if contrast else 2].split()]
        adjectives = [adjective for adjective in adjectives if target.noun in find_nouns(adjective.describes)]
        named = refer(target) if target.determiner is not BARE or target.noun.category == "name" else None
        if (
            adjectives
            and named
            and not clashes(target, subject, clause.recipient)
            and target.determiner is not NO
            and target.adjective not in adjectives
        ):
            options.append((4, predicate_clause(draw, named, adjectives, tense)))
    weather = (WEATHER_CONTRASTS if contrast else WEATHER_REASONS).get(clause.verb.infinitive, "").split()
    if weather:
        options.append((3, weather_clause(draw.choose(weather), past)))
    if not options:
        raise DeadEndError
    return draw.weigh(options)


def weather_clause(word: str, past: bool) -> Clause:
    """As in "es regnet", "es war kalt"."""
    verb = {"regnen": build.RAIN, "schneien": build.SNOW}.get(word)
    if verb:
        return Clause(IT, verb, tense="perfect" if past else "present")
    return Clause(IT, SEIN, predicate=Predicate(find_adjective(word)), tense="preterite" if past else "present")


def refer(phrase: Phrase) -> Pronoun | None:
    """The pronoun for a phrase, or none for das Kind, which has no natural one in English."""
    if isinstance(phrase, Pronoun) or phrase.plural or phrase.noun.english_pronoun:
        return refer_to(phrase)
    return None


def clashes(phrase: Phrase, *others: Phrase | None) -> bool:
    """True if the pronoun for the phrase could as well mean another one."""
    pronoun = refer(phrase)
    if pronoun is None:
        return True
    if pronoun.person != 3:
        return False
    return any(
        other is not None
        and (form := refer(other))
        and form.nominative == pronoun.nominative
        and form.plural == pronoun.plural
        or isinstance(other, NounPhrase)
        and refer(other) is None
        and pronoun.nominative == "es"
        for other in others
    )


def because(draw: Drawing) -> Sentence:
    """weil, obwohl and denn with a reason that fits."""
    verbs = [verb for verb in VERBS if verb.infinitive in REASONS or verb.infinitive in WEATHER_CONTRASTS]
    conjunction = draw.weigh([(5, "weil"), (4, "obwohl"), (2, "denn")])
    clause = draw.core(draw.balance(verbs))
    reference = "past" if draw.chance(45) else "now"
    clause = draw.furnish(clause, reference, plain=draw.chance(75))
    if clause.negated or clause.frequency:
        raise DeadEndError
    reason = reason_clause(draw, clause, conjunction == "obwohl")
    if conjunction == "denn":
        return build.coordinate(clause, "denn", reason)
    first = draw.chance(30)
    if first and isinstance(reason.subject, Pronoun) and reason.subject.antecedent:
        return swap_pronoun(draw, clause, reason, conjunction)
    return build.subordinate(clause, conjunction, reason, first)


def swap_pronoun(draw: Drawing, clause: Clause, reason: Clause, conjunction: str) -> Sentence:
    """Put the reason first, with the full phrase there and the pronoun in the main clause."""
    pronoun = reason.subject
    if pronoun.key == clause.subject.key:
        named = reason.change(subject=clause.subject)
        return build.subordinate(clause.change(subject=pronoun), conjunction, named, True)
    return build.subordinate(clause, conjunction, reason)


def condition(draw: Drawing) -> Sentence:
    """As in "Wenn Anna müde ist, schläft sie.": wenn with a habit or a future."""
    verbs = [
        v
        for v in VERBS
        if (v.infinitive in REASONS or v.infinitive in WEATHER_REASONS) and v.progressive and v.frame != "giving"
    ]
    clause = draw.core(draw.balance(verbs))
    if clause.verb.german == "verkaufen":
        raise DeadEndError
    clause = clause.change(habitual=True)
    reason = reason_clause(draw, clause, False).change(habitual=True)
    if reason.predicate and reason.subject.key != "es" and reason.predicate.adjective.german not in MOODS.split():
        raise DeadEndError
    if draw.chance(45) and reason.subject.key != "es":
        if reason.subject.key != clause.subject.key:
            return build.subordinate(clause, "wenn", reason)
        named = reason.change(subject=clause.subject)
        return build.subordinate(clause.change(subject=reason.subject), "wenn", named, True)
    return build.subordinate(clause, "wenn", reason, reason.subject.key == "es" and draw.chance(60))
