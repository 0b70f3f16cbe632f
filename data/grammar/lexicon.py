"""The lexicon: reads the tables into typed entries and answers which nouns a class or group holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from .nouns import MEN, NOUN_GROUPS, NOUN_TABLES, PLACE_TABLE, WOMEN
from .verbs import VERB_TABLES
from .words import ADJECTIVE_GROUPS, ADJECTIVE_TABLE, FREQUENCY_TABLE, MANNER_TABLE, MODAL_TABLE, TIME_TABLE

INSEPARABLE_PREFIXES = ("be", "ver", "er", "ent", "ge", "zer", "unter")


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun or first name; ``plural`` is empty for mass nouns and ``singular`` use is barred if ``plural_only``."""

    german: str
    gender: str
    plural: str
    english: str
    english_plural: str
    category: str
    weak: bool = False
    plural_only: bool = False
    english_pronoun: str = "it"

    @property
    def mass(self) -> bool:
        return not self.plural and self.category != "name"

    @property
    def animate(self) -> bool:
        return self in find_nouns("being")

    @property
    def human(self) -> bool:
        return self in find_nouns("person")


@dataclass(frozen=True, eq=False)
class Verb:
    """A German verb with its frame and the one English verb that renders it in that frame."""

    german: str
    prefix: str
    changed_stem: str
    participle: str
    auxiliary: str
    english: str
    english_past: str
    progressive: bool
    frame: str
    subjects: str
    objects: str = ""
    recipients: str = ""
    preposition: str = ""
    case: str = ""
    english_preposition: str = ""
    manners: tuple[str, ...] = ()

    @property
    def infinitive(self) -> str:
        return self.prefix + self.german


@dataclass(frozen=True, eq=False)
class Adjective:
    """An adjective; ``comparative`` is empty where the grammar does not compare."""

    german: str
    stem: str
    english: str
    describes: str
    comparative: str
    english_comparative: str


@dataclass(frozen=True, eq=False)
class Adverb:
    """An adverbial with the time references it goes with."""

    german: str
    english: str
    times: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Modal:
    """A modal verb (or werden): its present forms, and how English builds it."""

    german: str
    english: str
    build: str
    forms: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Place:
    """The prepositions that one place noun takes at rest and as a goal."""

    noun: Noun
    rest: tuple[str, str]
    goal: tuple[str, str]


def read_rows(table: str, width: int) -> list[list[str]]:
    """Split a table into rows of exactly ``width`` cells, filling short rows with empty ones."""
    rows = [[cell.strip() for cell in line.split(",")] for line in table.strip("\n").split("\n")]
    return [row + [""] * (width - len(row)) for row in rows]


def pluralise_english(singular: str) -> str:
    """Add the regular English plural ending to the last word."""
    if singular.endswith(("s", "x", "ch", "sh")):
        return singular + "es"
    if singular.endswith("y") and singular[-2] not in "aeiou":
        return singular[:-1] + "ies"
    return singular + "s"


def read_noun(row: list[str], category: str, people: bool) -> Noun:
    german, gender, plural, english, english_plural = row
    plural_only = gender == "-"
    pronoun = "it"
    if people:
        pronoun = {"m": "he", "f": "she", "n-she": "she", "n": ""}.get(gender.removesuffix("-weak"), "they")
    return Noun(
        german,
        "m" if plural_only else gender[0],
        "" if plural == "-" else plural,
        english,
        english if plural_only else english_plural or pluralise_english(english),
        category,
        gender == "m-weak",
        plural_only,
        pronoun,
    )


def read_verb(frame: str, line: str) -> Verb:
    """Read one verb row; the cells after the subjects depend on the frame."""
    cells = [cell.strip() for cell in line.split(",")]
    german, changed, participle, english, past, aspect, subjects, *rest = cells
    prefix, _, base = german.rpartition("+")
    auxiliary = "sein" if participle.startswith("s:") else "haben"
    participle = participle.removeprefix("s:") or build_participle(prefix, base)
    fields: dict[str, str] = {}
    manners = rest[-1] if rest else ""
    match frame:
        case "transitive" | "dative" | "liking":
            fields = {"objects": rest[0]}
        case "prepositional":
            fields = {"preposition": rest[0], "case": rest[1], "objects": rest[2]}
        case "giving":
            fields = {"recipients": rest[0], "objects": rest[1], "english_preposition": rest[2]}
            manners = ""
        case "position":
            fields = {"preposition": rest[0]}
            manners = ""
        case "placing":
            fields = {"objects": rest[0], "preposition": rest[1]}
            manners = ""
        case "riding":
            manners = ""
    return Verb(
        base,
        prefix,
        changed,
        participle,
        auxiliary,
        english,
        past or build_past(english),
        aspect == "progressive",
        frame,
        subjects,
        manners=tuple(manners.split()),
        **fields,
    )


def build_participle(prefix: str, base: str) -> str:
    """The regular (weak) participle: ge-…-t, without ge- after an unstressed prefix or before -ieren."""
    stem = base.removesuffix("n").removesuffix("e")
    bare = base.startswith(INSEPARABLE_PREFIXES) or base.endswith("ieren")
    return prefix + ("" if bare else "ge") + stem + ("et" if needs_linking_e(stem) else "t")


def needs_linking_e(stem: str) -> bool:
    """True where -st and -t need an e before them: arbeit-e-t, öffn-e-t, zeichn-e-t, but lern-t, wohn-t."""
    return stem.endswith(("t", "d")) or (stem[-1] in "mn" and stem[-2] not in "aeiouäöülrmnh") or stem.endswith("chn")


def build_past(english: str) -> str:
    """The regular past of the first word of an English verb."""
    word = english.split()[0]
    if word.endswith("e"):
        return word + "d"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ied"
    return (word + word[-1] if doubles_consonant(word) else word) + "ed"


def doubles_consonant(word: str) -> bool:
    """True for one-syllable consonant-vowel-consonant words such as run and put, and for forget, begin and travel."""
    if word in ("forget", "travel", "begin"):
        return True
    vowels = [letter for letter in word if letter in "aeiou"]
    return len(word) > 2 and len(vowels) == 1 and word[-1] not in "aeiouwxy" and word[-2] in "aeiou"


def read_adjective(row: list[str]) -> Adjective:
    german, english, describes, comparative, english_comparative = row
    lemma, _, stem = german.partition("/")
    regular = "" if comparative == "-" else comparative or lemma + "er"
    return Adjective(lemma, stem or lemma, english, describes, regular, english_comparative)


PEOPLE = ("family", "folk", "child", "worker")
NOUNS: tuple[Noun, ...] = tuple(
    read_noun(row, category, category in PEOPLE)
    for category, table in NOUN_TABLES.items()
    for row in read_rows(table, 5)
) + tuple(
    Noun(name, gender, "", name, "", "name", english_pronoun=pronoun)
    for names, gender, pronoun in ((WOMEN, "f", "she"), (MEN, "m", "he"))
    for name in names.split()
)
VERBS: tuple[Verb, ...] = tuple(
    read_verb(frame, line) for frame, table in VERB_TABLES.items() for line in table.strip("\n").split("\n")
)
ADJECTIVES = tuple(read_adjective(row) for row in read_rows(ADJECTIVE_TABLE, 5))
TIMES = tuple(Adverb(row[0], row[1], tuple(row[2].split())) for row in read_rows(TIME_TABLE, 3))
FREQUENCIES = tuple(Adverb(row[0], row[1], tuple(row[2].split())) for row in read_rows(FREQUENCY_TABLE, 3))
MANNERS = tuple(Adverb(row[0], row[1]) for row in read_rows(MANNER_TABLE, 2))
MODALS = tuple(Modal(row[0], row[1], row[2], tuple(row[3].split())) for row in read_rows(MODAL_TABLE, 4))
SEIN = Verb("sein", "", "", "gewesen", "sein", "be", "was", False, "predicative", "")

# "gern" is an adverb in German, but English says it with a verb, so the grammar treats it as a modal.
GERN = Modal("gern", "like to", "verb", ())


@cache
def find_nouns(selector: str) -> tuple[Noun, ...]:
    """All nouns that a space-separated list of classes, groups or single German nouns selects, in table order."""
    chosen: list[Noun] = []
    for name in selector.split():
        expansion = NOUN_GROUPS.get(name) or ADJECTIVE_GROUPS.get(name)
        if expansion:
            chosen.extend(find_nouns(expansion))
        else:
            matches = [noun for noun in NOUNS if name in (noun.category, noun.german)]
            if not matches:
                raise KeyError(name)
            chosen.extend(matches)
    return tuple(noun for noun in NOUNS if noun in chosen)


@cache
def find_adjectives(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives that can sensibly describe the noun."""
    return tuple(adjective for adjective in ADJECTIVES if noun in find_nouns(adjective.describes))


def find_noun(german: str) -> Noun:
    return next(noun for noun in NOUNS if noun.german == german)


def find_verb(infinitive: str, frame: str = "", english: str = "") -> Verb:
    """The verb with this infinitive; the frame or the English tells apart verbs with several readings."""
    return next(
        verb
        for verb in VERBS
        if verb.infinitive == infinitive and frame in ("", verb.frame) and english in ("", verb.english)
    )


def find_adjective(german: str) -> Adjective:
    return next(adjective for adjective in ADJECTIVES if adjective.german == german)


def find_adverb(german: str) -> Adverb:
    return next(adverb for adverb in TIMES + FREQUENCIES + MANNERS if adverb.german == german)


def find_modal(german: str) -> Modal:
    return next(modal for modal in (*MODALS, GERN) if modal.german == german)


def read_places() -> dict[str, Place]:
    places = {}
    for german, rest, english_rest, goal, english_goal in read_rows(PLACE_TABLE, 5):
        places[german] = Place(find_noun(german), (rest, english_rest), (goal, english_goal))
    return places


PLACES = read_places()
