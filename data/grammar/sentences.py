"""Every construction with its share, and the simple statements; the generator draws from this table."""

from __future__ import annotations

from collections.abc import Callable

from . import constructions as build
from .asking import imperative, w_question, yes_no_question
from .clauses import Drawing, roles_are_clear
from .constructions import Sentence
from .derivation import (
    BARE,
    NounPhrase,
    Pronoun,
)
from .describing import comparison, describe, existence
from .drawing import DeadEndError
from .joining import coordination, infinitive, shared_subject
from .lexicon import (
    GERN,
    VERBS,
    find_nouns,
)
from .reasoning import because, condition
from .relating import with_relative
from .sequencing import report, sequence

LIKED_ACTIONS = (
    "essen trinken kochen backen lesen schreiben malen zeichnen singen spielen tanzen schlafen "
    "arbeiten helfen schwimmen frühstücken einkaufen fernsehen reisen fahren tragen füttern "
    "fotografieren kaufen beobachten pflanzen lösen treffen zuhören"
)


GERN_VERBS = tuple(
    verb
    for verb in VERBS
    if verb.progressive
    and verb.frame in ("transitive", "dative", "prepositional", "intransitive", "riding")
    and verb.infinitive in LIKED_ACTIONS.split()
)


def statement(draw: Drawing) -> Sentence:
    return build.state(draw.clause())


def points_back(phrase: NounPhrase) -> bool:
    """True for "seinen Hut": in front of the verb it would name the owner too late."""
    return phrase.determiner.german in ("sein", "ihr")


def fronted(draw: Drawing) -> Sentence:
    """A time, place or frequency adverb, an object or a recipient before the verb."""
    clause = draw.clause()
    options: list[tuple[int, str]] = []
    if clause.time and clause.time.german != "gerade":
        options.append((5, "time"))
    if clause.frequency and clause.frequency.german in ("manchmal", "oft"):
        options.append((3, "frequency"))
    if clause.place and clause.verb.frame not in ("placing",) and not clause.negated:
        options.append((4, "place") if clause.verb.frame not in ("motion", "riding") else (1, "place"))
    target = clause.object
    if (
        isinstance(target, NounPhrase)
        and target.definite
        and not points_back(target)
        and roles_are_clear(clause.subject, target)
    ):
        options.append((4, "object"))
    dative = clause.recipient
    if isinstance(dative, NounPhrase) and dative.definite and dative.noun.category != "name" and not clause.negated:
        options.append((0 if points_back(dative) else 4, "recipient"))
    if not sum(weight for weight, _ in options):
        raise DeadEndError
    return build.state(clause, draw.weigh(options), "fronting")


def gern(draw: Drawing) -> Sentence:
    """As in "Anna isst gern Äpfel.": English says it with a verb."""
    verb = draw.balance(GERN_VERBS)
    subject = draw.any_subject("person", 22)
    if not isinstance(subject, Pronoun) and subject.noun not in find_nouns(verb.subjects):
        raise DeadEndError
    clause = draw.core(verb, subject)
    if isinstance(clause.object, Pronoun) or isinstance(clause.recipient, Pronoun):
        raise DeadEndError
    if clause.object:
        phrase = clause.object
        plural = not phrase.noun.mass and verb.german != "spielen"
        if phrase.noun.category == "name" or phrase.noun.human or phrase.owner:
            raise DeadEndError
        clause = clause.change(object=NounPhrase(phrase.noun, BARE, plural, phrase.adjective))
    clause = clause.change(modal=GERN, negated=draw.chance(22) and not clause.place)
    return build.state(clause)


# Weights: how many of a hundred-odd sentences each construction gets.
CONSTRUCTIONS: tuple[tuple[int, Callable[[Drawing], Sentence]], ...] = (
    (9, statement),
    (17, fronted),
    (4, gern),
    (3, describe),
    (3, comparison),
    (6, yes_no_question),
    (6, w_question),
    (13, because),
    (4, condition),
    (9, sequence),
    (9, report),
    (15, with_relative),
    (7, coordination),
    (5, shared_subject),
    (6, infinitive),
    (2, existence),
    (3, imperative),
)


def draw_sentence(draw: Drawing, construction: Callable[[Drawing], Sentence]) -> Sentence:
    """Try a construction until it completes."""
    while True:
        try:
            return construction(draw)
        except DeadEndError:
            continue
