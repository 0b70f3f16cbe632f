"""German word order: verb-second, verb-first and verb-final clauses, brackets, relative clauses, questions."""

from __future__ import annotations

from .derivation import NO, Clause, NounPhrase, Phrase, Pronoun, Relative
from .german_forms import (
    RELATIVE_PRONOUNS,
    command_form,
    conjugate_auxiliary,
    conjugate_modal,
    conjugate_present,
    conjugate_preterite,
    decline_phrase,
    gender_column,
    join_preposition,
    zu_infinitive,
)
from .lexicon import GERN


def build_verb(clause: Clause) -> tuple[str, list[str]]:
    """The finite verb and the words of the right bracket, as in a main clause."""
    verb, person, plural = clause.verb, clause.subject.person, clause.subject.plural
    if clause.modal and clause.modal is not GERN:
        return conjugate_modal(clause.modal, person, plural), [verb.infinitive]
    if clause.tense == "perfect":
        return conjugate_auxiliary(verb.auxiliary, person, plural), [verb.participle]
    if clause.tense == "preterite":
        return conjugate_preterite(verb, person, plural), []
    return conjugate_present(verb, person, plural), [verb.prefix] if verb.prefix else []


def render_slot(clause: Clause, slot: str) -> str:
    """The German words of one slot of the clause, without any relative clause."""
    match slot:
        case "subject":
            return decline_phrase(clause.subject, "nominative")
        case "object":
            return decline_phrase(clause.object, "accusative") if clause.object else ""
        case "recipient":
            return decline_phrase(clause.recipient, "dative") if clause.recipient else ""
        case "complement" | "place":
            part = clause.complement if slot == "complement" else clause.place
            return join_preposition(part.german, part.phrase, part.case) if part else ""
        case "vehicle":
            return join_preposition("mit", NounPhrase(clause.vehicle), "dative") if clause.vehicle else ""
        case "predicate":
            return render_predicate(clause)
        case "gern":
            return "gern" if clause.modal is GERN else ""
        case "negation":
            contained = isinstance(clause.object, NounPhrase) and clause.object.determiner is NO
            return "nicht" if clause.negated and not contained else ""
        case "time" | "frequency" | "manner":
            adverb = getattr(clause, slot)
            return adverb.german if adverb else ""
    raise ValueError(slot)


def render_predicate(clause: Clause) -> str:
    predicate = clause.predicate
    if not predicate:
        return ""
    adjective = predicate.adjective
    if predicate.than:
        compared = decline_phrase(predicate.than, "nominative")
        if predicate.degree == "as":
            return f"so {adjective.german} wie {compared}"
        return f"{adjective.comparative} als {compared}"
    return f"{predicate.degree} {adjective.german}".strip()


def order_slots(clause: Clause) -> list[str]:
    """The middle field: pronouns first, then time, the dative, adverbs, the object, negation, manner, place."""
    order = ["subject"]
    pronouns = [
        slot for slot in ("object", "recipient") if (part := getattr(clause, slot)) and not isinstance(part, NounPhrase)
    ]
    order += pronouns + ["time"]
    if "recipient" not in pronouns:
        order.append("recipient")
    order.append("frequency")
    order += ["negation", "gern"] if clause.modal is GERN else []
    # An adverb of manner precedes an indefinite object but follows a definite one.
    late_manner = clause.object is None or clause.object.definite
    order += [] if late_manner else ["manner"]
    order += [] if "object" in pronouns else ["object"]
    order += ["negation"] if clause.modal is not GERN else []
    order += ["manner"] if late_manner else []
    return order + ["vehicle", "complement", "place", "predicate"]


def render_middle(clause: Clause, without: tuple[str, ...] = ()) -> list[str]:
    words = [render_slot(clause, slot) for slot in order_slots(clause) if slot not in without]
    return [word for word in words if word]


def find_trailing_relative(clause: Clause, without: tuple[str, ...] = ()) -> str:
    """The relative clause of an object or complement, which German moves behind the right bracket."""
    parts = {"object": clause.object, "recipient": clause.recipient}
    parts["complement"] = clause.complement.phrase if clause.complement else None
    parts["place"] = clause.place.phrase if clause.place else None
    for slot, phrase in parts.items():
        if slot not in without and isinstance(phrase, NounPhrase) and phrase.relative:
            return f", {render_relative(phrase, phrase.relative)}"
    return ""


def render_relative(phrase: NounPhrase, relative: Relative) -> str:
    """The relative clause: the pronoun takes gender and number from its noun, its case from its role."""
    clause, role = relative
    column = gender_column(phrase.noun, phrase.plural)
    part = {"complement": clause.complement, "place": clause.place}.get(role)
    if part:
        pronoun = f"{part.german} {RELATIVE_PRONOUNS[part.case, column]}"
    else:
        case = {"subject": "nominative", "object": "accusative", "recipient": "dative"}[role]
        pronoun = RELATIVE_PRONOUNS[case, column]
    return f"{pronoun} {verb_final(clause, without=(role,))}"


def render_subject(phrase: Phrase) -> str:
    """The subject in first position, with its relative clause between commas."""
    text = decline_phrase(phrase, "nominative")
    if isinstance(phrase, NounPhrase) and phrase.relative:
        return f"{text}, {render_relative(phrase, phrase.relative)},"
    return text


def verb_second(clause: Clause, front: str = "subject") -> str:
    """A main clause with the named slot before the finite verb."""
    finite, bracket = build_verb(clause)
    first = render_subject(clause.subject) if front == "subject" else render_slot(clause, front)
    return " ".join([first, finite, *render_middle(clause, (front,)), *bracket]) + find_trailing_relative(clause)


def question_clause(clause: Clause, word: str, without: str) -> str:
    """A main clause with a question word in first position in place of a slot."""
    finite, bracket = build_verb(clause)
    rest = [finite, *render_middle(clause, (without,)), *bracket]
    return " ".join([word, *rest]) + find_trailing_relative(clause, (without,))


def verb_first(clause: Clause, without: tuple[str, ...] = ()) -> str:
    """A yes/no question, or a main clause after a subordinate one."""
    finite, bracket = build_verb(clause)
    return " ".join([finite, *render_middle(clause, without), *bracket]) + find_trailing_relative(clause)


def verb_final(clause: Clause, without: tuple[str, ...] = ()) -> str:
    """A subordinate clause: the finite verb comes last and a separable verb closes up."""
    finite, bracket = build_verb(clause)
    if clause.tense == "present" and (not clause.modal or clause.modal is GERN):
        tail = ["".join([*bracket, finite])]
    else:
        tail = [*bracket, finite]
    return " ".join([*render_middle(clause, without), *tail]) + find_trailing_relative(clause, without)


def zu_clause(clause: Clause) -> str:
    """An infinitive clause with zu and without subject."""
    return " ".join([*render_middle(clause, ("subject",)), zu_infinitive(clause.verb)])


def command(clause: Clause, formal: bool) -> str:
    """An imperative with bitte, to du or to Sie."""
    first = f"{clause.verb.german} Sie" if formal else command_form(clause.verb)
    middle = render_middle(clause, ("subject",))
    # "bitte" follows unstressed pronouns: "Gib mir bitte das Messer!"
    pronouns = sum(1 for part in (clause.object, clause.recipient) if isinstance(part, Pronoun))
    prefix = [clause.verb.prefix] if clause.verb.prefix else []
    return " ".join([first, *middle[:pronouns], "bitte", *middle[pronouns:], *prefix])


def finish(text: str, mark: str) -> str:
    """Capitalise the sentence and end it, dropping a comma left hanging before the end."""
    text = text.rstrip(",").replace(",,", ",")
    return text[0].upper() + text[1:] + mark
