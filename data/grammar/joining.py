"""Coordination, two predicates of one subject, and infinitives with zu."""

from __future__ import annotations

from . import constructions as build
from .clauses import Drawing
from .constructions import Sentence
from .derivation import (
    BARE,
    Clause,
    I,
    NounPhrase,
    Phrase,
    Pronoun,
)
from .describing import kind, known_subject, predicate_clause, same_stuff
from .drawing import DeadEndError
from .lexicon import (
    find_adjective,
    find_adjectives,
    find_nouns,
    find_verb,
)
from .plausibility import (
    COMPLAINT,
    PAIRS,
    PRAISE,
    THEMES,
)
from .reasoning import clashes, refer
from .sequencing import fits, theme_verb

SHARED_TASTES = "mögen essen trinken kennen brauchen haben kaufen"


def coordination(draw: Drawing) -> Sentence:
    """Two clauses with und, a quality and its opposite with aber, or a liking with its limit."""
    way = draw.weigh([(4, "und"), (4, "quality"), (3, "limit")])
    if way == "und":
        theme = draw.choose(THEMES)
        left = draw.furnish(draw.core(theme_verb(draw, theme)), "now" if draw.chance(55) else "past", plain=True)
        right = draw.furnish(
            draw.core(theme_verb(draw, theme)), "past" if left.tense == "perfect" else "now", plain=True
        )
        if left.tense != right.tense or left.subject.key == right.subject.key or left.verb == right.verb:
            raise DeadEndError
        return build.coordinate(left.change(frequency=None), "und", right.change(time=None, frequency=None))
    if way == "quality":
        noun = draw.balance(find_nouns("person animal goods building town room food parcel transport"))
        known = known_subject(draw, noun)
        praise = [a for a in find_adjectives(noun) if a.german in PRAISE.split()]
        complaint = [a for a in find_adjectives(noun) if a.german in COMPLAINT.split()]
        pronoun = refer(known)
        if pronoun is None:
            raise DeadEndError
        tense = "preterite" if draw.chance(22) else "present"
        first, second = (praise, complaint) if draw.chance(50) else (complaint, praise)
        left = predicate_clause(draw, known, first, tense)
        right = predicate_clause(draw, pronoun, second, tense)
        if (
            left.predicate
            and right.predicate
            and {left.predicate.adjective.german, right.predicate.adjective.german} in OPPOSITES
        ):
            raise DeadEndError
        return build.coordinate(left, "aber", right)
    verb = draw.balance([find_verb(name) for name in SHARED_TASTES.split()])
    subject = draw.any_subject(verb.subjects)
    pronoun = refer(subject)
    if pronoun is None:
        raise DeadEndError
    left = draw.core(verb, subject)
    right = draw.core(verb, pronoun)
    if isinstance(left.object, Pronoun) or isinstance(right.object, Pronoun) or left.object == right.object:
        raise DeadEndError
    if clashes(subject, left.object) or not left.object or not right.object:
        raise DeadEndError
    if same_stuff(left.object.noun, right.object.noun) or kind(left.object.noun) != kind(right.object.noun):
        raise DeadEndError
    denied = draw.negate(right)
    if not denied.negated:
        raise DeadEndError
    return build.coordinate(left, "aber", denied)


OPPOSITES = [
    {"arm", "reich"},
    {"alt", "neu"},
    {"teuer", "billig"},
    {"langweilig", "interessant"},
    {"langweilig", "spannend"},
    {"schwierig", "einfach"},
    {"schmutzig", "sauber"},
    {"langsam", "schnell"},
    {"laut", "ruhig"},
    {"dunkel", "hell"},
    {"krank", "gesund"},
    {"faul", "fleißig"},
    {"traurig", "glücklich"},
    {"alt", "modern"},
    {"kalt", "warm"},
    {"kaputt", "sauber"},
    {"lustig", "traurig"},
    {"alt", "frisch"},
    {"langweilig", "lustig"},
    {"wild", "ruhig"},
]


def shared_subject(draw: Drawing) -> Sentence:
    """As in "Anna kauft ein Buch und liest es.", or "sucht den Ring, aber sie findet ihn nicht"."""
    first, second, kinds = draw.balance(PAIRS)
    noun = draw.balance(find_nouns(kinds))
    if noun.category == "name":
        raise DeadEndError
    left_verb = find_verb(first, "transitive")
    right_verb = find_verb(second, "transitive")
    subject = draw.any_subject("adult name" if first != "fangen" else "Katze Fuchs Hund")
    phrase = draw.object_phrase(noun, subject)
    pronoun = refer(phrase)
    if pronoun is None or phrase.determiner is BARE and not phrase.plural and not noun.mass:
        raise DeadEndError
    past = draw.chance(50)
    left = draw.core(left_verb, subject, phrase)
    right = Clause(subject, right_verb, pronoun)
    if past:
        left, right = left.change(tense="perfect"), right.change(tense="perfect")
        if draw.chance(45):
            left = left.change(time=draw.pick_time("past", left_verb))
    if not draw.accepts(right):
        raise DeadEndError
    if first == "suchen":
        named = refer(subject)
        if named is None or clashes(subject, phrase):
            raise DeadEndError
        return build.coordinate(left, "aber", right.change(subject=named, negated=True))
    if first == "lesen" and not past:
        raise DeadEndError
    return build.share_subject(left, right)


JUDGEMENTS = "wichtig schwierig einfach langweilig gefährlich gesund"


def infinitive(draw: Drawing) -> Sentence:
    """A zu-infinitive after versuchen and the like, "es ist … zu", or um … zu."""
    way = draw.weigh([(6, "control"), (3, "judge"), (4, "purpose")])
    subject = draw.any_subject("person", 25)
    if way == "judge":
        clause = draw.core(draw.pick_verb(("transitive", "dative", "giving", "intransitive")), I)
        if not clause.verb.progressive or clause.place and clause.verb.german == "wohnen" or not fits(I, clause.verb):
            raise DeadEndError
        adjective = find_adjective(draw.choose(JUDGEMENTS.split()))
        if any(
            part is not None and isinstance(part, Pronoun) or possessed(part)
            for part in (clause.object, clause.recipient)
        ):
            raise DeadEndError
        if adjective.german == "gefährlich" and clause.verb.german not in ("füttern", "schwimmen", "fotografieren"):
            raise DeadEndError
        if adjective.german == "gesund" and clause.verb.german not in ("schwimmen", "schlafen", "essen", "tanzen"):
            raise DeadEndError
        return build.judge(adjective, clause)
    if way == "purpose":
        main = draw.core(draw.pick_verb(("motion", "riding")), subject)
        if not fits(subject, main.verb) or main.verb.german in ("laufen", "wandern"):
            raise DeadEndError
        inner = draw.core(draw.pick_verb(("transitive", "dative")), subject)
        if inner.verb.infinitive not in (VISITS if main.verb.english == "travel" else PURPOSES).split():
            raise DeadEndError
        reference = "past" if draw.chance(45) else "now"
        main = draw.furnish(main, reference, plain=True).change(frequency=None)
        return build.give_purpose(main, inner)
    verb = draw.choose([build.TRY, build.TRY, build.PLAN, build.HOPE, build.FORGET, build.DECIDE, build.BEGIN])
    inner = draw.core(draw.pick_verb(("transitive", "dative", "giving", "placing")), subject)
    if not inner.verb.progressive or not fits(subject, inner.verb):
        raise DeadEndError
    past = verb is build.DECIDE or draw.chance(50) and verb is not build.HOPE
    main = Clause(subject, verb, tense="perfect" if past or verb is build.FORGET else "present")
    return build.control(main, inner)


PURPOSES = (
    "kaufen verkaufen essen trinken lesen sehen suchen bestellen abholen besuchen treffen "
    "fotografieren zeichnen beobachten helfen danken gratulieren füttern retten untersuchen begrüßen "
    "malen"
)


VISITS = "besuchen treffen sehen fotografieren zeichnen malen beobachten helfen"


def possessed(phrase: Phrase | None) -> bool:
    return isinstance(phrase, NounPhrase) and phrase.determiner.german in ("mein", "sein", "ihr")
