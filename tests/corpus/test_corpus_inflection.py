"""Hand-written inflection tables: German articles, adjectives, nouns and verbs; English spelling."""

from __future__ import annotations

import pytest

from grammar.derivation import BARE, MANY, MY, NO, THE, THIS, TWO, A, Determiner, NounPhrase
from grammar.english_forms import choose_article, ing_form, possessive, render_phrase, third_person
from grammar.german_forms import (
    CASES,
    command_form,
    conjugate_present,
    conjugate_preterite,
    decline_noun,
    decline_phrase,
    zu_infinitive,
)
from grammar.lexicon import SEIN, VERBS, Verb, build_participle, build_past, find_adjective, find_noun, find_verb

# Determiner, plural, adjective, noun: nominative, accusative, dative, genitive.
DECLENSIONS: list[tuple[Determiner, bool, str, str, str]] = [
    (THE, False, "alt", "Mann", "der alte Mann/den alten Mann/dem alten Mann/des alten Mannes"),
    (THE, False, "jung", "Frau", "die junge Frau/die junge Frau/der jungen Frau/der jungen Frau"),
    (THE, False, "klein", "Haus", "das kleine Haus/das kleine Haus/dem kleinen Haus/des kleinen Hauses"),
    (THE, True, "klein", "Kind", "die kleinen Kinder/die kleinen Kinder/den kleinen Kindern/der kleinen Kinder"),
    (A, False, "rot", "Apfel", "ein roter Apfel/einen roten Apfel/einem roten Apfel/eines roten Apfels"),
    (A, False, "neu", "Lampe", "eine neue Lampe/eine neue Lampe/einer neuen Lampe/einer neuen Lampe"),
    (A, False, "teuer", "Auto", "ein teures Auto/ein teures Auto/einem teuren Auto/eines teuren Autos"),
    (NO, True, "reif", "Apfel", "keine reifen Äpfel/keine reifen Äpfel/keinen reifen Äpfeln/keiner reifen Äpfel"),
    (MY, False, "klug", "Bruder", "mein kluger Bruder/meinen klugen Bruder/meinem klugen Bruder/meines klugen Bruders"),
    (
        MY,
        False,
        "treu",
        "Freundin",
        "meine treue Freundin/meine treue Freundin/meiner treuen Freundin/meiner treuen Freundin",
    ),
    (MY, True, "alt", "Buch", "meine alten Bücher/meine alten Bücher/meinen alten Büchern/meiner alten Bücher"),
    (THIS, False, "hoch", "Turm", "dieser hohe Turm/diesen hohen Turm/diesem hohen Turm/dieses hohen Turmes"),
    (BARE, False, "kalt", "Kaffee", "kalter Kaffee/kalten Kaffee/kaltem Kaffee/kalten Kaffees"),
    (BARE, False, "kalt", "Milch", "kalte Milch/kalte Milch/kalter Milch/kalter Milch"),
    (BARE, False, "frisch", "Brot", "frisches Brot/frisches Brot/frischem Brot/frischen Brotes"),
    (BARE, True, "rot", "Rose", "rote Rosen/rote Rosen/roten Rosen/roter Rosen"),
    (TWO, True, "groß", "Baum", "zwei große Bäume/zwei große Bäume/zwei großen Bäumen/zwei großer Bäume"),
    (THE, False, "müde", "Junge", "der müde Junge/den müden Jungen/dem müden Jungen/des müden Jungen"),
    (
        A,
        False,
        "faul",
        "Student",
        "ein fauler Student/einen faulen Studenten/einem faulen Studenten/eines faulen Studenten",
    ),
    (THE, False, "nett", "Nachbar", "der nette Nachbar/den netten Nachbarn/dem netten Nachbarn/des netten Nachbarn"),
]


@pytest.mark.parametrize("row", DECLENSIONS, ids=lambda row: row[4].split("/")[0])
def test_noun_phrases_decline(row: tuple[Determiner, bool, str, str, str]) -> None:
    determiner, plural, adjective, noun, expected = row
    phrase = NounPhrase(find_noun(noun), determiner, plural, find_adjective(adjective))
    assert [decline_phrase(phrase, case) for case in CASES] == expected.split("/")


def test_many_declines_with_its_adjective() -> None:
    phrase = NounPhrase(find_noun("Gast"), MANY, True, find_adjective("müde"))
    assert decline_phrase(phrase, "nominative") == "viele müde Gäste"
    assert decline_phrase(phrase, "dative") == "vielen müden Gästen"


@pytest.mark.parametrize(
    ("noun", "dative_plural"),
    [("Hund", "Hunden"), ("Auto", "Autos"), ("Frau", "Frauen"), ("Lehrer", "Lehrern"), ("Garten", "Gärten")],
)
def test_dative_plural(noun: str, dative_plural: str) -> None:
    assert decline_noun(find_noun(noun), "dative", plural=True) == dative_plural


@pytest.mark.parametrize(
    ("noun", "oblique"),
    [("Bauer", "Bauern"), ("Polizist", "Polizisten"), ("Löwe", "Löwen"), ("Bär", "Bären"), ("Kollege", "Kollegen")],
)
def test_weak_nouns_keep_one_oblique_form(noun: str, oblique: str) -> None:
    assert [decline_noun(find_noun(noun), case) for case in CASES[1:]] == [oblique] * 3


@pytest.mark.parametrize(
    ("infinitive", "frame", "forms"),
    [
        ("kaufen", "", "kaufe kaufst kauft kaufen kauft kaufen"),
        ("fahren", "", "fahre fährst fährt fahren fahrt fahren"),
        ("laufen", "", "laufe läufst läuft laufen lauft laufen"),
        ("essen", "", "esse isst isst essen esst essen"),
        ("lesen", "", "lese liest liest lesen lest lesen"),
        ("geben", "", "gebe gibst gibt geben gebt geben"),
        ("arbeiten", "", "arbeite arbeitest arbeitet arbeiten arbeitet arbeiten"),
        ("öffnen", "", "öffne öffnest öffnet öffnen öffnet öffnen"),
        ("tanzen", "", "tanze tanzt tanzt tanzen tanzt tanzen"),
        ("lächeln", "", "lächle lächelst lächelt lächeln lächelt lächeln"),
        ("füttern", "", "füttere fütterst füttert füttern füttert füttern"),
        ("mögen", "", "mag magst mag mögen mögt mögen"),
        ("haben", "", "habe hast hat haben habt haben"),
        ("einladen", "", "lade lädst lädt laden ladet laden"),
        ("mitnehmen", "", "nehme nimmst nimmt nehmen nehmt nehmen"),
        ("schlafen", "", "schlafe schläfst schläft schlafen schlaft schlafen"),
    ],
)
def test_present(infinitive: str, frame: str, forms: str) -> None:
    verb = find_verb(infinitive, frame)
    people = [(person, plural) for plural in (False, True) for person in (1, 2, 3)]
    assert [conjugate_present(verb, person, plural) for person, plural in people] == forms.split()


def test_sein() -> None:
    people = [(person, plural) for plural in (False, True) for person in (1, 2, 3)]
    assert [conjugate_present(SEIN, *who) for who in people] == ["bin", "bist", "ist", "sind", "seid", "sind"]
    assert [conjugate_preterite(SEIN, *who) for who in people] == ["war", "warst", "war", "waren", "wart", "waren"]


@pytest.mark.parametrize(
    ("infinitive", "participle", "auxiliary", "with_zu"),
    [
        ("kaufen", "gekauft", "haben", "zu kaufen"),
        ("verkaufen", "verkauft", "haben", "zu verkaufen"),
        ("reparieren", "repariert", "haben", "zu reparieren"),
        ("wiederholen", "wiederholt", "haben", "zu wiederholen"),
        ("aufmachen", "aufgemacht", "haben", "aufzumachen"),
        ("einkaufen", "eingekauft", "haben", "einzukaufen"),
        ("anrufen", "angerufen", "haben", "anzurufen"),
        ("ankommen", "angekommen", "sein", "anzukommen"),
        ("aufwachen", "aufgewacht", "sein", "aufzuwachen"),
        ("öffnen", "geöffnet", "haben", "zu öffnen"),
        ("arbeiten", "gearbeitet", "haben", "zu arbeiten"),
        ("zeichnen", "gezeichnet", "haben", "zu zeichnen"),
        ("füttern", "gefüttert", "haben", "zu füttern"),
        ("bellen", "gebellt", "haben", "zu bellen"),
        ("schwimmen", "geschwommen", "sein", "zu schwimmen"),
        ("gießen", "gegossen", "haben", "zu gießen"),
    ],
)
def test_participles_auxiliaries_and_zu(infinitive: str, participle: str, auxiliary: str, with_zu: str) -> None:
    verb = find_verb(infinitive)
    assert (verb.participle, verb.auxiliary, zu_infinitive(verb)) == (participle, auxiliary, with_zu)


@pytest.mark.parametrize(
    ("infinitive", "form"),
    [("lesen", "lies"), ("geben", "gib"), ("fahren", "fahr"), ("warten", "warte"), ("öffnen", "öffne"),
     ("kaufen", "kauf"),     ("füttern", "füttere"), ("streicheln", "streichle"), ("einladen", "lade")],
)  # fmt: skip
def test_commands(infinitive: str, form: str) -> None:
    assert command_form(find_verb(infinitive)) == form


def test_regular_participle_of_a_new_verb() -> None:
    assert build_participle("", "lernen") == "gelernt"
    assert build_participle("ab", "warten") == "abgewartet"


def test_english_articles() -> None:
    pairs = {"apple": "an", "book": "a", "hour": "an", "university": "a", "honest": "an", "egg": "an", "old": "an"}
    assert {word: choose_article(word) for word in pairs} == pairs


def test_english_third_person() -> None:
    pairs = {"wash": "washes", "carry": "carries", "play": "plays", "have": "has", "go back": "goes back",
             "watch television": "watches television", "buy": "buys"}  # fmt: skip
    assert {base: third_person(base) for base in pairs} == pairs


def test_english_ing() -> None:
    pairs = {"make": "making", "run": "running", "lie": "lying", "see": "seeing", "put ~ on": "putting ~ on",
             "swim": "swimming", "open": "opening", "visit": "visiting", "begin": "beginning", "eat": "eating",
             "play": "playing", "travel": "travelling", "show": "showing", "forget": "forgetting"}  # fmt: skip
    assert {base: ing_form(base) for base in pairs} == pairs


def test_english_past() -> None:
    pairs = {"love": "loved", "carry": "carried", "stop": "stopped", "play": "played", "travel": "travelled",
             "answer": "answered", "visit": "visited"}  # fmt: skip
    assert {base: build_past(base) for base in pairs} == pairs


@pytest.mark.parametrize(
    ("noun", "plural"),
    [("Kind", "children"), ("Maus", "mice"), ("Messer", "knives"), ("Kirsche", "cherries"), ("Kiste", "boxes"),
     ("Tomate", "tomatoes"), ("Schaf", "sheep"), ("Gans", "geese"), ("Bus", "buses"), ("Frau", "women"),
     ("Junge", "boys"), ("Kirche", "churches"), ("Wolf", "wolves")],
)  # fmt: skip
def test_english_plurals(noun: str, plural: str) -> None:
    assert render_phrase(NounPhrase(find_noun(noun), BARE, True)) == plural


def test_english_possessives() -> None:
    assert possessive("my brother", False) == "my brother's"
    assert possessive("the teachers", True) == "the teachers'"
    assert possessive("the children", True) == "the children's"


def test_every_verb_has_whole_forms() -> None:
    for verb in VERBS:
        assert isinstance(verb, Verb)
        assert verb.participle.endswith(("t", "n")), verb.infinitive
        assert conjugate_present(verb, 3, False) and verb.english_past, verb.infinitive
