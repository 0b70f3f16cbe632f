"""Sentences from clauses: each function joins its clauses once in German and once in English."""

from __future__ import annotations

from dataclasses import dataclass

from . import english, german
from .derivation import Clause, NounPhrase, Pronoun
from .english_forms import agreement, render_phrase
from .german_forms import decline_phrase
from .lexicon import Adjective, Verb

IT = Pronoun("es", "es", "ihm", 3, False, "it", "it")
WHO = Pronoun("wer", "wen", "wem", 3, False, "who", "who")

# German conjunction, English conjunction.
SUBORDINATORS = {
    "weil": "because",
    "obwohl": "although",
    "wenn": "if",
    "bevor": "before",
    "als": "when",
    "während": "while",
    "dass": "that",
    "ob": "whether",
    "wo": "where",
    "warum": "why",
    "wann": "when",
}
COORDINATORS = {"und": "and", "aber": "but", "denn": "because", "oder": "or"}

# Verbs that take a zu-infinitive or a dass-clause, as (verb, aspect) outside the noun-object frames.
TRY = Verb("versuchen", "", "", "versucht", "haben", "try", "tried", True, "control", "person")
PLAN = Verb("planen", "", "", "geplant", "haben", "plan", "planned", True, "control", "person")
HOPE = Verb("hoffen", "", "", "gehofft", "haben", "hope", "hoped", False, "control", "person")
FORGET = Verb("vergessen", "", "vergiss", "vergessen", "haben", "forget", "forgot", False, "control", "person")
DECIDE = Verb("beschließen", "", "", "beschlossen", "haben", "decide", "decided", False, "control", "person")
BEGIN = Verb("fangen", "an", "fäng", "angefangen", "haben", "begin", "began", True, "control", "person")
BELIEVE = Verb("glauben", "", "", "geglaubt", "haben", "believe", "believed", False, "control", "person")
KNOW = Verb("wissen", "", "", "gewusst", "haben", "know", "knew", False, "control", "person")
SAY = Verb("sagen", "", "", "gesagt", "haben", "say", "said", False, "control", "person")
HEAR = Verb("hören", "", "", "gehört", "haben", "hear", "heard", False, "control", "person")
RAIN = Verb("regnen", "", "", "geregnet", "haben", "rain", "rained", True, "weather", "")
SNOW = Verb("schneien", "", "", "geschneit", "haben", "snow", "snowed", True, "weather", "")

QUESTION_WORDS = {
    # role: (German, English) for things, then for people
    "object": (("was", "what"), ("wen", "who")),
    "recipient": (("wem", "who"), ("wem", "who")),
    "time": (("wann", "when"), ("wann", "when")),
    "rest": (("wo", "where"), ("wo", "where")),
    "goal": (("wohin", "where"), ("wohin", "where")),
    "reason": (("warum", "why"), ("warum", "why")),
}


@dataclass(frozen=True)
class Sentence:
    """A finished pair with the derivation it came from."""

    german: str
    english: str
    construction: str
    clauses: tuple[Clause, ...]

    @property
    def combinations(self) -> tuple[tuple[str, str, str], ...]:
        """The content combinations of all clauses; weather and the bare introducing verbs have none."""
        return tuple(
            combination
            for clause in self.clauses
            if clause.verb.frame != "control" and clause.subject.key != "es"
            for combination in clause.combinations
        )


def finish(construction: str, german_text: str, english_text: str, mark: str, *clauses: Clause) -> Sentence:
    return Sentence(german.finish(german_text, mark), english.finish(english_text, mark), construction, clauses)


def state(clause: Clause, front: str = "subject", construction: str = "statement") -> Sentence:
    """A main clause; any slot may stand before the verb in German, English keeps its order."""
    return finish(construction, german.verb_second(clause, front), english.statement(clause), ".", clause)


def ask(clause: Clause) -> Sentence:
    """A yes/no question."""
    return finish("yes-no question", german.verb_first(clause), english.question(clause), "?", clause)


def ask_who(clause: Clause) -> Sentence:
    """A question for the subject, which is the pronoun WHO: no inversion in English."""
    return finish("w-question", german.verb_second(clause), english.statement(clause), "?", clause)


def ask_for(clause: Clause, role: str) -> Sentence:
    """A question for the object, recipient, time, place or reason; the asked part is left out."""
    slot = {"rest": "place", "goal": "place"}.get(role, role)
    person = isinstance(clause.object, NounPhrase) and clause.object.noun.animate
    words = QUESTION_WORDS[role][1 if person else 0]
    german_text = german.question_clause(clause, words[0], slot)
    english_text = english.question(clause, words[1], english_slot(clause, slot))
    return finish("w-question", german_text, english_text, "?", clause)


def english_slot(clause: Clause, slot: str) -> str:
    return {"subject": "object"}.get(slot, slot) if clause.verb.frame == "liking" else slot


def subordinate(main: Clause, conjunction: str, sub: Clause, first: bool = False, front: str = "subject") -> Sentence:
    """A main clause with a subordinate clause after or before it."""
    german_sub = f"{conjunction} {german.verb_final(sub)}"
    english_sub = f"{SUBORDINATORS[conjunction]} {english.statement(sub)}"
    name = f"{conjunction} clause"
    if first:
        german_text = f"{german_sub}, {german.verb_first(main)}"
        return finish(name, german_text, f"{english_sub}, {english.statement(main)}", ".", main, sub)
    german_text = f"{german.verb_second(main, front)}, {german_sub}"
    return finish(name, german_text, f"{english.statement(main)} {english_sub}", ".", main, sub)


def coordinate(left: Clause, conjunction: str, right: Clause) -> Sentence:
    """Two main clauses."""
    comma = "" if conjunction in ("und", "oder") else ","
    english_comma = "," if conjunction in ("aber", "und") else ""
    german_text = f"{german.verb_second(left)}{comma} {conjunction} {german.verb_second(right)}"
    english_text = f"{english.statement(left)}{english_comma} {COORDINATORS[conjunction]} {english.statement(right)}"
    return finish("coordination", german_text, english_text, ".", left, right)


def share_subject(left: Clause, right: Clause) -> Sentence:
    """Two predicates of one subject, joined by und."""
    finite, bracket = german.build_verb(right)
    words = [finite, *german.render_middle(right, ("subject",)), *bracket]
    if left.tense == right.tense == "perfect" and left.verb.auxiliary == right.verb.auxiliary:
        words = words[1:]
    german_text = f"{german.verb_second(left)} und {' '.join(words)}"
    english_text = f"{english.statement(left)} and {english.continuation(left, right)}"
    return finish("shared subject", german_text, english_text, ".", left, right)


def control(main: Clause, inner: Clause) -> Sentence:
    """A verb with a zu-infinitive: "versucht, die Tür aufzumachen"."""
    german_text = f"{german.verb_second(main)}, {german.zu_clause(inner)}"
    return finish(
        "zu-infinitive", german_text, f"{english.statement(main)} {english.infinitive(inner)}", ".", main, inner
    )


def judge(adjective: Adjective, inner: Clause) -> Sentence:
    """As in "Es ist wichtig, … zu …"."""
    german_text = f"es ist {adjective.german}, {german.zu_clause(inner)}"
    return finish("zu-infinitive", german_text, f"it is {adjective.english} {english.infinitive(inner)}", ".", inner)


def give_purpose(main: Clause, inner: Clause) -> Sentence:
    """As in "…, um … zu …"."""
    german_text = f"{german.verb_second(main)}, um {german.zu_clause(inner)}"
    english_text = f"{english.statement(main)} {english.infinitive(inner)}"
    return finish("um-zu clause", german_text, english_text, ".", main, inner)


def exist(phrase: NounPhrase, at: Clause) -> Sentence:
    """As in "Im Garten gibt es einen Baum.": the clause holds the phrase as subject and the place."""
    assert at.place
    place = german.render_slot(at, "place")
    be = "are" if agreement(phrase) == "plural" else "is"
    english_place = f"{at.place.english} {english.render_full(at.place.phrase)}"
    german_text = f"{place} gibt es {decline_phrase(phrase, 'accusative')}"
    return finish("es gibt", german_text, f"there {be} {render_phrase(phrase)} {english_place}", ".", at)


def command(clause: Clause, formal: bool) -> Sentence:
    """A polite imperative."""
    return finish("imperative", german.command(clause, formal), english.command(clause), "!", clause)
