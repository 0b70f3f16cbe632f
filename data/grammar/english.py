"""English word order: auxiliaries, do-support, progressives, adverbs before the verb, circumstances at the end."""

from __future__ import annotations

from typing import NamedTuple

from .derivation import Clause, NounPhrase, Phrase
from .english_forms import agreement, ing_form, past_form, render_phrase, third_person

BE_PRESENT = {"first": "am", "singular": "is", "plural": "are"}
BE_PAST = {"first": "was", "singular": "was", "plural": "were"}


class VerbGroup(NamedTuple):
    """The verb cut where "not", the subject of a question and adverbs go in.

    With an ``auxiliary`` the ``rest`` follows it; without one, ``inflected`` is the affirmative form and
    questions and negations use ``support`` (do, does, did) with the base in ``rest``.
    """

    auxiliary: str
    inflected: str
    support: str
    rest: str


def build_group(clause: Clause) -> VerbGroup:
    """The English verb for the German tense, modal and adverbials."""
    base = clause.verb.english
    number = agreement(clause.subject)
    if clause.modal:
        match clause.modal.build:
            case "auxiliary":
                word, *more = clause.modal.english.split()
                return VerbGroup(word, "", "", " ".join([*more, base]))
            case "be":
                return VerbGroup(BE_PRESENT[number], "", "", f"{clause.modal.english} {base}")
        return inflect(f"{clause.modal.english} {base}", number)
    if clause.reference == "future":
        return VerbGroup("will", "", "", base)
    if clause.reference == "past":
        if base == "be":
            return VerbGroup(BE_PAST[number], "", "", "")
        return VerbGroup("", past_form(base, clause.verb.english_past), "did", base)
    if base == "be":
        return VerbGroup(BE_PRESENT[number], "", "", "")
    if clause.verb.progressive and clause.reference == "now":
        return VerbGroup(BE_PRESENT[number], "", "", ing_form(base))
    return inflect(base, number)


def inflect(base: str, number: str) -> VerbGroup:
    """The simple present with do-support at hand."""
    if number == "singular":
        return VerbGroup("", third_person(base), "does", base)
    return VerbGroup("", base, "do", base)


def turn_liking(clause: Clause) -> Clause:
    """gefallen and schmecken: the German dative is the English subject."""
    if clause.verb.frame != "liking":
        return clause
    return clause.change(subject=clause.recipient, object=clause.subject, recipient=None)


def render_full(phrase: Phrase, as_object: bool = False) -> str:
    """A phrase with its relative clause."""
    text = render_phrase(phrase, as_object)
    if isinstance(phrase, NounPhrase) and phrase.relative:
        clause, role = phrase.relative
        if role == "place":
            return f"{text} where {statement(clause, without='place')}"
        pronoun = "who" if phrase.noun.human else "that"
        if clause.verb.frame == "liking":
            # "das Kleid, das der Frau gefällt": the German subject is the English object, and the reverse.
            role = "object" if role == "subject" else "subject"
        return f"{text} {pronoun} {statement(clause, without=role)}"
    return text


def render_tail(clause: Clause, verb: str, without: str = "") -> list[str]:
    """Verb, objects, manner, place and time, in English order."""
    words: list[str] = []
    target = "" if without == "object" or not clause.object else render_full(clause.object, as_object=True)
    if "~" in verb:
        pronominal = target and not isinstance(clause.object, NounPhrase)
        verb = verb.replace("~", target) if pronominal else verb.replace("~ ", "")
        target = "" if pronominal else target
    words.append(verb)
    recipient = ""
    if clause.recipient and without != "recipient":
        recipient = render_full(clause.recipient, as_object=True)
    if clause.verb.english_preposition:
        words += [target, f"{clause.verb.english_preposition} {recipient}"]
    else:
        words += [recipient, target]
    if clause.complement and without != "complement":
        words += [clause.complement.english, render_full(clause.complement.phrase, as_object=True)]
    if clause.predicate:
        words.append(render_predicate(clause))
    words.append(clause.manner.english if clause.manner else "")
    if clause.place and without != "place":
        words += [clause.place.english, render_full(clause.place.phrase)]
    words.append(f"by {clause.vehicle.english}" if clause.vehicle else "")
    words.append(clause.time.english if clause.time and without != "time" else "")
    return [word for word in words if word]


def render_predicate(clause: Clause) -> str:
    assert clause.predicate
    adjective = clause.predicate.adjective
    than = clause.predicate.than
    if than:
        if clause.predicate.degree == "as":
            return f"as {adjective.english} as {render_phrase(than, as_object=True)}"
        return f"{adjective.english_comparative} than {render_phrase(than, as_object=True)}"
    degree = {"sehr": "very", "zu": "too", "": ""}[clause.predicate.degree]
    return f"{degree} {adjective.english}".strip()


def predicate_words(clause: Clause, without: str = "") -> str:
    """Everything after the subject."""
    group = build_group(clause)
    middle = clause.frequency.english if clause.frequency else ""
    if group.auxiliary:
        negation = "not" if clause.negated else ""
        head = "cannot" if group.auxiliary == "can" and negation else f"{group.auxiliary} {negation}".strip()
        return join([head, middle, *render_tail(clause, group.rest, without)])
    if clause.negated:
        return join([group.support, "not", middle, *render_tail(clause, group.rest, without)])
    return join([middle, *render_tail(clause, group.inflected, without)])


def statement(clause: Clause, without: str = "") -> str:
    """A declarative clause, main or subordinate, possibly with one part left out for a relative."""
    clause = turn_liking(clause)
    subject = "" if without == "subject" else render_full(clause.subject)
    return join([subject, predicate_words(clause, without)])


def question(clause: Clause, word: str = "", without: str = "") -> str:
    """A question with inversion, after a question word or not."""
    clause = turn_liking(clause)
    group = build_group(clause)
    middle = clause.frequency.english if clause.frequency else ""
    negation = "not" if clause.negated else ""
    helper = group.auxiliary or group.support
    return join(
        [word, helper, render_full(clause.subject), negation, middle, *render_tail(clause, group.rest, without)]
    )


def infinitive(clause: Clause) -> str:
    """A to-infinitive clause."""
    return join(["to", *render_tail(clause, clause.verb.english)])


def continuation(first: Clause, second: Clause) -> str:
    """The second of two predicates of one subject, without the auxiliary they share."""
    shared = build_group(first).auxiliary
    words = predicate_words(second)
    return words.removeprefix(shared + " ") if shared and not second.negated else words


def command(clause: Clause) -> str:
    return join(["please", *render_tail(clause, clause.verb.english)])


def join(words: list[str]) -> str:
    return " ".join(word for word in words if word)


def finish(text: str, mark: str) -> str:
    return text[0].upper() + text[1:] + mark
