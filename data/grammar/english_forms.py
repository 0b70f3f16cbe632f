"""English forms: a or an, third person, -ing, agreement and noun phrases."""

from __future__ import annotations

from .derivation import NO, A, Phrase, Pronoun
from .lexicon import doubles_consonant

CONSONANT_SOUND = ("uni", "use", "eu", "one")
VOWEL_SOUND = ("hour", "honest")
# "keine Suppe" is "not any soup", though "eine Suppe" is "a soup".
SERVED = ("soup", "potato soup", "cake", "apple cake", "salad", "pizza")


def choose_article(following: str) -> str:
    """a or an, by the sound the next word starts with."""
    if following.startswith(VOWEL_SOUND):
        return "an"
    return "an" if following[0].lower() in "aeiou" and not following.startswith(CONSONANT_SOUND) else "a"


def third_person(base: str) -> str:
    """The -s form of the first word of an English verb."""
    word, *rest = base.split()
    if word in ("have", "be", "do", "go"):
        word = {"have": "has", "be": "is", "do": "does", "go": "goes"}[word]
    elif word.endswith(("s", "x", "ch", "sh")):
        word += "es"
    elif word.endswith("y") and word[-2] not in "aeiou":
        word = word[:-1] + "ies"
    else:
        word += "s"
    return " ".join([word, *rest])


def ing_form(base: str) -> str:
    """The -ing form of the first word: making, running, lying, seeing."""
    word, *rest = base.split()
    if word.endswith("ie"):
        word = word[:-2] + "y"
    elif word.endswith("e") and not word.endswith("ee"):
        word = word[:-1]
    elif doubles_consonant(word):
        word += word[-1]
    return " ".join([word + "ing", *rest])


def past_form(base: str, past: str) -> str:
    """The past of a verb of several words, of which the first changes."""
    return " ".join([past, *base.split()[1:]])


def agreement(phrase: Phrase) -> str:
    """first, singular or plural: which form of be and have the subject takes."""
    if isinstance(phrase, Pronoun):
        if phrase.english == "I":
            return "first"
        if phrase.english == "you":
            return "plural"
    return "plural" if phrase.plural else "singular"


def possessive(text: str, plural: bool) -> str:
    return text + ("'" if plural and text.endswith("s") else "'s")


def render_phrase(phrase: Phrase, as_object: bool = False) -> str:
    """A pronoun or noun phrase without its relative clause."""
    if isinstance(phrase, Pronoun):
        return phrase.english_object if as_object else phrase.english
    noun = phrase.noun
    head = noun.english_plural if phrase.plural else noun.english
    words = [phrase.adjective.english] if phrase.adjective else []
    words.append(head)
    if phrase.owner:
        return " ".join([possessive(render_phrase(phrase.owner), phrase.owner.plural), *words])
    determiner = phrase.determiner.english_plural if phrase.plural else phrase.determiner.english
    if noun.category == "name":
        determiner = ""
    elif noun.category == "instrument" and not determiner and not phrase.plural:
        # "spielt Klavier" has no article, "plays the piano" does.
        determiner = "the"
    elif phrase.determiner is NO and (phrase.plural or noun.mass or noun.english in SERVED):
        determiner = "any"
    elif phrase.determiner in (A, NO) and not phrase.plural:
        determiner = choose_article(words[0])
    return " ".join(word for word in (determiner, *words) if word)
