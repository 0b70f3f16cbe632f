"""German inflection: articles, adjectives, nouns, pronouns and verbs by rule, with explicit exceptions."""

from __future__ import annotations

from .derivation import Determiner, NounPhrase, Phrase, Pronoun
from .lexicon import Modal, Noun, Verb, needs_linking_e

CASES = ("nominative", "accusative", "dative", "genitive")
COLUMNS = ("m", "f", "n", "plural")


def read_endings(table: str) -> dict[tuple[str, str], str]:
    """Read four rows (cases) of four endings (masculine, feminine, neuter, plural); a dash is no ending."""
    cells = [row.split() for row in table.strip().splitlines()]
    return {
        (case, column): "" if ending == "-" else ending
        for case, row in zip(CASES, cells, strict=True)
        for column, ending in zip(COLUMNS, row, strict=True)
    }


DETERMINER_ENDINGS = {
    "der": read_endings("er ie as ie\nen ie as ie\nem er em en\nes er es er"),
    "dieser": read_endings("er e es e\nen e es e\nem er em en\nes er es er"),
    "ein": read_endings("- e - e\nen e - e\nem er em en\nes er es er"),
}
WEAK_ENDINGS = read_endings("e e e en\nen e e en\nen en en en\nen en en en")
MIXED_ENDINGS = read_endings("er e es en\nen e es en\nen en en en\nen en en en")
STRONG_ENDINGS = read_endings("er e es e\nen e es e\nem er em en\nen er en er")
ADJECTIVE_ENDINGS = {
    "der": WEAK_ENDINGS,
    "dieser": WEAK_ENDINGS,
    "ein": MIXED_ENDINGS,
    "none": STRONG_ENDINGS,
}
RELATIVE_PRONOUNS = read_endings("der die das die\nden die das die\ndem der dem denen\ndessen deren dessen deren")
CONTRACTIONS = {
    "in dem": "im",
    "in das": "ins",
    "an dem": "am",
    "an das": "ans",
    "zu dem": "zum",
    "zu der": "zur",
    "von dem": "vom",
    "bei dem": "beim",
}

IRREGULAR_PRESENT = {
    "wissen": "weiß weißt weiß wissen wisst wissen",
    "sein": "bin bist ist sind seid sind",
    "haben": "habe hast hat haben habt haben",
    "mögen": "mag magst mag mögen mögt mögen",
}
IRREGULAR_PRETERITE = {
    "sein": "war warst war waren wart waren",
    "haben": "hatte hattest hatte hatten hattet hatten",
}


def gender_column(noun: Noun, plural: bool) -> str:
    return "plural" if plural else noun.gender


def decline_noun(noun: Noun, case: str, plural: bool = False) -> str:
    """The noun alone: dative plural -n, genitive -(e)s, and -(e)n everywhere for weak nouns."""
    if plural:
        adds_n = case == "dative" and not noun.plural.endswith(("n", "s"))
        return noun.plural + ("n" if adds_n else "")
    if noun.category == "name":
        return noun.german + ("s" if case == "genitive" else "")
    if case == "nominative":
        return noun.german
    if noun.weak:
        # Nachbar and Bauer take a bare -n; nouns in -e too; the rest take -en.
        return noun.german + ("n" if noun.german.endswith(("e", "ar", "er")) else "en")
    if case == "genitive" and noun.gender != "f":
        return noun.german + genitive_ending(noun.german)
    return noun.german


def genitive_ending(word: str) -> str:
    """-es after hissing sounds and one-syllable consonant endings (Mannes), otherwise -s."""
    if word.endswith(("s", "ß", "x", "z", "sch", "st")):
        return "es"
    vowels = "aeiouäöü"
    lowered = word.lower()
    syllables = sum(
        1 for at, letter in enumerate(lowered) if letter in vowels and (at == 0 or lowered[at - 1] not in vowels)
    )
    return "es" if syllables == 1 and lowered[-1] not in vowels and word not in ("Chef", "Park") else "s"


def decline_determiner(determiner: Determiner, case: str, column: str) -> str:
    if determiner.declension == "none":
        # "viele" is an adjective itself; the dative is "vielen". Bare numerals do not change.
        return "vielen" if determiner.german == "viele" and case == "dative" else determiner.german
    return determiner.german + DETERMINER_ENDINGS[determiner.declension][case, column]


def decline_phrase(phrase: Phrase, case: str) -> str:
    """A pronoun or noun phrase in a case, without its relative clause."""
    if isinstance(phrase, Pronoun):
        return {"nominative": phrase.nominative, "accusative": phrase.accusative, "dative": phrase.dative}[case]
    noun = phrase.noun
    column = gender_column(noun, phrase.plural)
    words = []
    endings = ADJECTIVE_ENDINGS[phrase.determiner.declension]
    owner = phrase.owner
    if owner and owner.noun.category == "name":
        words.append(decline_phrase(owner, "genitive"))
        endings = STRONG_ENDINGS
    else:
        words.append(decline_determiner(phrase.determiner, case, column))
    if phrase.adjective:
        words.append(phrase.adjective.stem.removesuffix("e") + endings[case, column])
    words.append(decline_noun(noun, case, phrase.plural))
    if owner and owner.noun.category != "name":
        words.append(decline_phrase(owner, "genitive"))
    return " ".join(word for word in words if word)


def join_preposition(preposition: str, phrase: Phrase, case: str) -> str:
    """Preposition and phrase, contracted (im, zum) where the phrase starts with the plain article."""
    text = f"{preposition} {decline_phrase(phrase, case)}"
    if isinstance(phrase, NounPhrase) and phrase.determiner.declension == "der" and not phrase.relative:
        for full, short in CONTRACTIONS.items():
            if text.startswith(full + " "):
                return short + text.removeprefix(full)
    return text


def split_infinitive(verb: Verb) -> tuple[str, str]:
    """Stem and infinitive ending of the base verb: lauf-en, lächel-n."""
    stem = verb.german.removesuffix("en") if verb.german.endswith("en") else verb.german.removesuffix("n")
    return stem, verb.german.removeprefix(stem)


def conjugate_present(verb: Verb, person: int, plural: bool) -> str:
    """The finite present without the separable prefix."""
    place = person - 1 + (3 if plural else 0)
    if verb.german in IRREGULAR_PRESENT:
        return IRREGULAR_PRESENT[verb.german].split()[place]
    stem, ending = split_infinitive(verb)
    if plural and person != 2:
        return verb.german
    if person == 1:
        # Verbs in -eln drop the e of the stem: ich lächle; those in -ern keep it: ich füttere.
        return (stem[:-2] + "l" if ending == "n" and stem.endswith("el") else stem) + "e"
    changed = verb.changed_stem if verb.changed_stem and not plural else stem
    linking = "e" if needs_linking_e(stem) and changed == stem else ""
    if person == 2 and not plural:
        return changed + ("t" if changed.endswith(("s", "ß", "z", "x")) else linking + "st")
    return changed + linking + "t"


def conjugate_preterite(verb: Verb, person: int, plural: bool) -> str:
    return IRREGULAR_PRETERITE[verb.german].split()[person - 1 + (3 if plural else 0)]


def conjugate_modal(modal: Modal, person: int, plural: bool) -> str:
    return modal.forms[person - 1 + (3 if plural else 0)]


def conjugate_auxiliary(name: str, person: int, plural: bool) -> str:
    return IRREGULAR_PRESENT[name].split()[person - 1 + (3 if plural else 0)]


def command_form(verb: Verb) -> str:
    """The du imperative: the vowel change e→i stays (lies, gib), a→ä does not (lauf)."""
    stem, ending = split_infinitive(verb)
    changed = verb.changed_stem
    if changed and "ä" not in changed and "läuf" not in changed:
        return changed
    if ending == "n" and stem.endswith("el"):
        return stem[:-2] + "le"
    return stem + ("e" if needs_linking_e(stem) or ending == "n" else "")


def zu_infinitive(verb: Verb) -> str:
    """With zu: before a simple verb, inside a separable one."""
    return f"{verb.prefix}zu{verb.german}" if verb.prefix else f"zu {verb.german}"
