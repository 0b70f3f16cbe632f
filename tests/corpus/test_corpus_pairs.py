"""Hand-written German and English for one derivation of each construction and each kind of agreement."""

from __future__ import annotations

from typing import Any

import pytest

from grammar import constructions as build
from grammar.constructions import IT, WHO, Sentence
from grammar.derivation import (
    BARE,
    HE,
    HER,
    HIS,
    ITS_MASCULINE,
    MANY,
    MY,
    NO,
    OUR,
    SHE,
    THE,
    THEIR,
    THEY,
    THIS,
    THREE,
    TWO,
    WE,
    YOU,
    YOU_ALL,
    A,
    Clause,
    Determiner,
    I,
    NounPhrase,
    Phrase,
    Predicate,
    Prepositional,
    Relative,
    refer_to,
)
from grammar.lexicon import (
    PLACES,
    SEIN,
    find_adjective,
    find_adverb,
    find_modal,
    find_noun,
    find_verb,
)


def np(
    german: str,
    determiner: Determiner = THE,
    plural: bool = False,
    adjective: str = "",
    owner: NounPhrase | None = None,
    relative: Relative | None = None,
) -> NounPhrase:
    noun = find_noun(german)
    if noun.category == "name":
        determiner = BARE
    found = find_adjective(adjective) if adjective else None
    return NounPhrase(noun, determiner, plural, found, owner, relative)


def act(subject: Phrase, infinitive: str, target: Phrase | None = None, frame: str = "", **rest: Any) -> Clause:
    for adverb in ("time", "frequency", "manner"):
        if adverb in rest:
            rest[adverb] = find_adverb(rest[adverb])
    if "modal" in rest:
        rest["modal"] = find_modal(rest["modal"])
    english = rest.pop("english", "")
    return Clause(subject, find_verb(infinitive, frame, english), target, **rest)


def be(subject: Phrase, adjective: str, degree: str = "", than: Phrase | None = None, **rest: Any) -> Clause:
    return Clause(subject, SEIN, predicate=Predicate(find_adjective(adjective), degree, than), **rest)


def at(german: str, determiner: Determiner = THE, adjective: str = "") -> Prepositional:
    preposition, english = PLACES[german].rest
    return Prepositional(preposition, "dative", np(german, determiner, adjective=adjective), english)


def to(german: str) -> Prepositional:
    preposition, english = PLACES[german].goal
    return Prepositional(preposition, "dative" if preposition == "zu" else "accusative", np(german), english)


def two_way(preposition: str, case: str, phrase: NounPhrase, english: str) -> Prepositional:
    return Prepositional(preposition, case, phrase, english)


def about(preposition: str, case: str, phrase: Phrase) -> Prepositional:
    return Prepositional(preposition, case, phrase, "")


ANNA, PETER, EVA = np("Anna"), np("Peter"), np("Eva")
DOG, CAT = np("Hund"), np("Katze")
RAIN = Clause(IT, build.RAIN)
TO_BUY_BREAD = act(ANNA, "kaufen", np("Brot"))

PAIRS: list[tuple[Sentence, str, str]] = [
    # Simple statements: accusative articles of each gender, a and an, progressive and stative present.
    (
        build.state(act(np("Mann"), "kaufen", np("Apfel", A))),
        "Der Mann kauft einen Apfel.",
        "The man is buying an apple.",
    ),
    (
        build.state(act(np("Frau"), "lesen", np("Zeitung"))),
        "Die Frau liest die Zeitung.",
        "The woman is reading the newspaper.",
    ),
    (build.state(act(np("Kind"), "essen", np("Ei", A))), "Das Kind isst ein Ei.", "The child is eating an egg."),
    (build.state(act(I, "brauchen", np("Messer", TWO, True))), "Ich brauche zwei Messer.", "I need two knives."),
    (
        build.state(act(YOU, "tragen", np("Mantel", A, adjective="schwarz"), english="wear")),
        "Du trägst einen schwarzen Mantel.",
        "You are wearing a black coat.",
    ),
    (
        build.state(act(np("Lehrerin"), "kennen", np("Nachbar", THIS))),
        "Die Lehrerin kennt diesen Nachbarn.",
        "The teacher knows this neighbour.",
    ),
    (
        build.state(act(np("Kind", plural=True), "trinken", np("Milch", BARE, adjective="kalt"))),
        "Die Kinder trinken kalte Milch.",
        "The children are drinking cold milk.",
    ),
    (
        build.state(act(EVA, "spielen", np("Klavier", BARE), "transitive")),
        "Eva spielt Klavier.",
        "Eva is playing the piano.",
    ),
    (
        build.state(act(np("Wolf"), "jagen", np("Gans", plural=True), frequency="oft")),
        "Der Wolf jagt oft die Gänse.",
        "The wolf often chases the geese.",
    ),
    # Possession: subject-bound possessives, genitive owners, names.
    (
        build.state(act(np("Frau"), "waschen", np("Auto", HER))),
        "Die Frau wäscht ihr Auto.",
        "The woman is washing her car.",
    ),
    (
        build.state(act(np("Junge"), "suchen", np("Ball", HIS))),
        "Der Junge sucht seinen Ball.",
        "The boy is looking for his ball.",
    ),
    (
        build.state(act(np("Student", plural=True), "besuchen", np("Großmutter", THEIR))),
        "Die Studenten besuchen ihre Großmutter.",
        "The students are visiting their grandmother.",
    ),
    (
        build.state(act(WE, "reparieren", np("Fahrrad", owner=np("Bruder", MY)))),
        "Wir reparieren das Fahrrad meines Bruders.",
        "We are repairing my brother's bicycle.",
    ),
    (
        build.state(act(HE, "verstecken", np("Schlüssel", owner=ANNA), tense="perfect")),
        "Er hat Annas Schlüssel versteckt.",
        "He hid Anna's key.",
    ),
    # Dative verbs and double objects.
    (
        build.state(act(np("Tochter"), "helfen", recipient=np("Vater"))),
        "Die Tochter hilft dem Vater.",
        "The daughter is helping the father.",
    ),
    (
        build.state(act(DOG, "folgen", recipient=np("Kind", plural=True), tense="perfect")),
        "Der Hund ist den Kindern gefolgt.",
        "The dog followed the children.",
    ),
    (
        build.state(act(np("Mutter"), "geben", np("Birne", A), recipient=np("Mädchen"))),
        "Die Mutter gibt dem Mädchen eine Birne.",
        "The mother is giving the girl a pear.",
    ),
    (
        build.state(act(np("Lehrer"), "erklären", np("Wort"), recipient=np("Schülerin"))),
        "Der Lehrer erklärt der Schülerin das Wort.",
        "The teacher is explaining the word to the pupil.",
    ),
    (
        build.state(act(np("Koffer"), "gehören", recipient=np("Tourist"))),
        "Der Koffer gehört dem Touristen.",
        "The suitcase belongs to the tourist.",
    ),
    (
        build.state(act(np("Suppe"), "schmecken", recipient=np("Gast"))),
        "Die Suppe schmeckt dem Gast.",
        "The guest likes the soup.",
    ),
    (
        build.state(act(np("Schuhe", plural=True), "gefallen", recipient=I)),
        "Die Schuhe gefallen mir.",
        "I like the shoes.",
    ),
    # Prepositional objects.
    (
        build.state(act(PETER, "warten", frame="prepositional", complement=about("auf", "accusative", np("Bus")))),
        "Peter wartet auf den Bus.",
        "Peter is waiting for the bus.",
    ),
    (
        build.state(act(SHE, "sprechen", complement=about("mit", "dative", np("Ärztin")))),
        "Sie spricht mit der Ärztin.",
        "She is talking to the doctor.",
    ),
    (
        build.state(act(np("Junge"), "träumen", complement=about("von", "dative", np("Löwe")))),
        "Der Junge träumt vom Löwen.",
        "The boy is dreaming of the lion.",
    ),
    # Two-way prepositions: rest with the dative, direction with the accusative; contractions.
    (
        build.state(act(np("Buch"), "liegen", place=two_way("auf", "dative", np("Tisch"), "on"))),
        "Das Buch liegt auf dem Tisch.",
        "The book is lying on the table.",
    ),
    (
        build.state(act(ANNA, "legen", np("Buch"), place=two_way("auf", "accusative", np("Tisch"), "on"))),
        "Anna legt das Buch auf den Tisch.",
        "Anna is putting the book on the table.",
    ),
    (
        build.state(
            act(I, "stellen", np("Tasse"), place=two_way("in", "accusative", np("Schrank"), "in"), tense="perfect")
        ),
        "Ich habe die Tasse in den Schrank gestellt.",
        "I put the cup in the cupboard.",
    ),
    (
        build.state(act(np("Vogel"), "schlafen", place=at("Garten"))),
        "Der Vogel schläft im Garten.",
        "The bird is sleeping in the garden.",
    ),
    (
        build.state(act(np("Gast", MANY, True), "tanzen", place=at("Haus", THE, "alt"))),
        "Viele Gäste tanzen im alten Haus.",
        "Many guests are dancing in the old house.",
    ),
    (
        build.state(act(PETER, "fahren", frame="motion", place=to("Bahnhof"))),
        "Peter fährt zum Bahnhof.",
        "Peter is driving to the station.",
    ),
    (
        build.state(act(WE, "fahren", frame="riding", place=to("Universität"), vehicle=find_noun("Straßenbahn"))),
        "Wir fahren mit der Straßenbahn zur Universität.",
        "We are going to the university by tram.",
    ),
    (
        build.state(act(CAT, "laufen", place=to("Haus"))),
        "Die Katze läuft ins Haus.",
        "The cat is running into the house.",
    ),
    # Fronting and inversion.
    (
        build.state(act(np("Vater"), "kochen", np("Suppe", A), time="heute"), "time"),
        "Heute kocht der Vater eine Suppe.",
        "The father is cooking a soup today.",
    ),
    (
        build.state(act(np("Hund", plural=True), "bellen", place=at("Straße")), "place"),
        "Auf der Straße bellen die Hunde.",
        "The dogs are barking in the street.",
    ),
    (
        build.state(act(np("Kind"), "essen", np("Kuchen", THE, adjective="frisch")), "object"),
        "Den frischen Kuchen isst das Kind.",
        "The child is eating the fresh cake.",
    ),
    (
        build.state(act(I, "danken", recipient=np("Kollegin")), "recipient"),
        "Der Kollegin danke ich.",
        "I am thanking the colleague.",
    ),
    # Habits, the future, the perfect with haben and sein.
    (
        build.state(act(np("Großvater", MY), "trinken", np("Kaffee", BARE), time="jeden Morgen")),
        "Mein Großvater trinkt jeden Morgen Kaffee.",
        "My grandfather drinks coffee every morning.",
    ),
    (
        build.state(act(YOU_ALL, "kaufen", np("Haus", A), time="bald")),
        "Ihr kauft bald ein Haus.",
        "You will buy a house soon.",
    ),
    (
        build.state(act(np("Zug"), "ankommen", time="gestern", tense="perfect")),
        "Der Zug ist gestern angekommen.",
        "The train arrived yesterday.",
    ),
    (
        build.state(act(np("Gärtner"), "gießen", np("Rose", THE, True), time="gestern", tense="perfect"), "time"),
        "Gestern hat der Gärtner die Rosen gegossen.",
        "The gardener watered the roses yesterday.",
    ),
    (build.state(act(CAT, "schlafen", frequency="noch")), "Die Katze schläft noch.", "The cat is still sleeping."),
    # Separable verbs in main clauses, participles and infinitives.
    (
        build.state(act(np("Bruder"), "aufmachen", np("Haustür"))),
        "Der Bruder macht die Haustür auf.",
        "The brother is opening the front door.",
    ),
    (
        build.state(act(ANNA, "anrufen", np("Arzt"), tense="perfect")),
        "Anna hat den Arzt angerufen.",
        "Anna called the doctor.",
    ),
    (build.state(act(HE, "anmachen", refer_to(np("Lampe")))), "Er macht sie an.", "He is turning it on."),
    (
        build.state(act(I, "einkaufen", modal="müssen", time="heute")),
        "Ich muss heute einkaufen.",
        "I have to shop today.",
    ),
    # Modals and gern.
    (
        build.state(act(SHE, "singen", np("Lied", A), modal="können")),
        "Sie kann ein Lied singen.",
        "She can sing a song.",
    ),
    (
        build.state(act(np("Mädchen"), "streicheln", np("Pferd"), modal="wollen")),
        "Das Mädchen will das Pferd streicheln.",
        "The girl wants to stroke the horse.",
    ),
    (
        build.state(act(np("Schüler", plural=True), "spielen", frame="intransitive", modal="dürfen", negated=True)),
        "Die Schüler dürfen nicht spielen.",
        "The pupils are not allowed to play.",
    ),
    (build.state(act(YOU, "schlafen", modal="sollen")), "Du sollst schlafen.", "You should sleep."),
    (
        build.state(act(WE, "besuchen", np("Museum"), modal="möchten")),
        "Wir möchten das Museum besuchen.",
        "We would like to visit the museum.",
    ),
    (
        build.state(act(PETER, "essen", np("Erdbeere", BARE, True), modal="gern")),
        "Peter isst gern Erdbeeren.",
        "Peter likes to eat strawberries.",
    ),
    # Negation.
    (
        build.state(act(np("Koch"), "kaufen", np("Fleisch"), negated=True)),
        "Der Koch kauft das Fleisch nicht.",
        "The cook is not buying the meat.",
    ),
    (build.state(act(I, "haben", np("Hund", NO), negated=True)), "Ich habe keinen Hund.", "I do not have a dog."),
    (
        build.state(act(EVA, "trinken", np("Wein", NO), negated=True, tense="perfect")),
        "Eva hat keinen Wein getrunken.",
        "Eva did not drink any wine.",
    ),
    (
        build.state(act(YOU, "finden", np("Brief", MY), negated=True, modal="können")),
        "Du kannst meinen Brief nicht finden.",
        "You cannot find my letter.",
    ),
    # Predicates and comparison.
    (build.state(be(np("Tee"), "heiß", "zu")), "Der Tee ist zu heiß.", "The tea is too hot."),
    (
        build.state(be(np("Eltern", MY, True), "müde", tense="preterite")),
        "Meine Eltern waren müde.",
        "My parents were tired.",
    ),
    (
        build.state(be(np("Elefant"), "groß", than=np("Maus"))),
        "Der Elefant ist größer als die Maus.",
        "The elephant is bigger than the mouse.",
    ),
    (
        build.state(be(np("Brot"), "teuer", than=np("Reis"))),
        "Das Brot ist teurer als der Reis.",
        "The bread is more expensive than the rice.",
    ),
    (build.state(be(ANNA, "klug", "as", PETER)), "Anna ist so klug wie Peter.", "Anna is as clever as Peter."),
    # Questions.
    (
        build.ask(act(np("Kellner"), "bringen", np("Salat"), recipient=WE)),
        "Bringt der Kellner uns den Salat?",
        "Is the waiter bringing us the salad?",
    ),
    (build.ask(act(YOU, "mögen", np("Käse", BARE))), "Magst du Käse?", "Do you like cheese?"),
    (build.ask_who(act(WHO, "abholen", np("Paket"))), "Wer holt das Paket ab?", "Who is picking up the parcel?"),
    (
        build.ask_for(act(np("Affe"), "fressen", np("Banane")), "object"),
        "Was frisst der Affe?",
        "What is the monkey eating?",
    ),
    (
        build.ask_for(act(np("König"), "einladen", np("Sängerin")), "object"),
        "Wen lädt der König ein?",
        "Who is the king inviting?",
    ),
    (
        build.ask_for(act(np("Geige"), "gehören", recipient=ANNA), "recipient"),
        "Wem gehört die Geige?",
        "Who does the violin belong to?",
    ),
    (build.ask_for(act(THEY, "wohnen", place=at("Dorf")), "rest"), "Wo wohnen sie?", "Where do they live?"),
    (
        build.ask_for(act(np("Kind"), "weinen", tense="perfect"), "reason"),
        "Warum hat das Kind geweint?",
        "Why did the child cry?",
    ),
    # Imperatives and existence.
    (
        build.command(act(YOU, "zumachen", np("Fenster")), False),
        "Mach bitte das Fenster zu!",
        "Please close the window!",
    ),
    (
        build.command(act(YOU, "geben", np("Gabel"), recipient=I), False),
        "Gib mir bitte die Gabel!",
        "Please give me the fork!",
    ),
    (build.command(act(YOU, "öffnen", np("Tor")), True), "Öffnen Sie bitte das Tor!", "Please open the gate!"),
    (
        build.exist(np("Kirche", THREE, True, "alt"), act(CAT, "schlafen", place=at("Stadt"))),
        "In der Stadt gibt es drei alte Kirchen.",
        "There are three old churches in the city.",
    ),
    # Subordinate clauses.
    (
        build.subordinate(act(DOG, "schlafen"), "weil", be(refer_to(DOG), "müde")),
        "Der Hund schläft, weil er müde ist.",
        "The dog is sleeping because it is tired.",
    ),
    (
        build.subordinate(act(PETER, "reparieren", np("Uhr")), "weil", be(refer_to(np("Uhr")), "kaputt")),
        "Peter repariert die Uhr, weil sie kaputt ist.",
        "Peter is repairing the clock because it is broken.",
    ),
    (
        build.subordinate(act(np("Bauer"), "arbeiten"), "obwohl", RAIN),
        "Der Bauer arbeitet, obwohl es regnet.",
        "The farmer is working although it is raining.",
    ),
    (
        build.subordinate(
            act(refer_to(ANNA), "lachen", frame="intransitive", habitual=True),
            "wenn",
            be(ANNA, "glücklich", habitual=True),
            first=True,
        ),
        "Wenn Anna glücklich ist, lacht sie.",
        "If Anna is happy, she laughs.",
    ),
    (
        build.subordinate(
            act(refer_to(np("Mädchen")), "weinen", tense="perfect"),
            "als",
            act(np("Mädchen"), "aufwachen", tense="perfect"),
            first=True,
        ),
        "Als das Mädchen aufgewacht ist, hat es geweint.",
        "When the girl woke up, she cried.",
    ),
    (
        build.subordinate(
            act(I, "schließen", np("Tür"), tense="perfect"),
            "bevor",
            act(I, "gehen", place=to("Garten"), tense="perfect"),
        ),
        "Ich habe die Tür geschlossen, bevor ich in den Garten gegangen bin.",
        "I closed the door before I went into the garden.",
    ),
    (
        build.subordinate(Clause(I, build.KNOW), "dass", act(HE, "fernsehen")),
        "Ich weiß, dass er fernsieht.",
        "I know that he is watching television.",
    ),
    (
        build.subordinate(Clause(WE, build.KNOW, negated=True), "ob", act(EVA, "anrufen", np("Chef"), modal="wollen")),
        "Wir wissen nicht, ob Eva den Chef anrufen will.",
        "We do not know whether Eva wants to call the boss.",
    ),
    # Relative clauses in each role.
    (
        build.state(
            act(
                np("Mann", relative=Relative(act(np("Mann"), "essen", np("Brötchen", A)), "subject")),
                "kennen",
                np("Arzt"),
            )
        ),
        "Der Mann, der ein Brötchen isst, kennt den Arzt.",
        "The man who is eating a roll knows the doctor.",
    ),
    (
        build.state(
            act(
                ANNA,
                "lesen",
                np("Roman", relative=Relative(act(PETER, "schreiben", np("Roman"), tense="perfect"), "object")),
                tense="perfect",
            )
        ),
        "Anna hat den Roman gelesen, den Peter geschrieben hat.",
        "Anna read the novel that Peter wrote.",
    ),
    (
        build.state(
            be(
                np(
                    "Kind",
                    plural=True,
                    relative=Relative(act(I, "helfen", recipient=np("Kind", plural=True)), "recipient"),
                ),
                "krank",
            )
        ),
        "Die Kinder, denen ich helfe, sind krank.",
        "The children who I am helping are ill.",
    ),
    (
        build.state(
            act(
                SHE,
                "sehen",
                np(
                    "Bus",
                    relative=Relative(
                        act(WE, "warten", frame="prepositional", complement=about("auf", "accusative", np("Bus"))),
                        "complement",
                    ),
                ),
            )
        ),
        "Sie sieht den Bus, auf den wir warten.",
        "She sees the bus that we are waiting for.",
    ),
    (
        build.state(
            be(np("Stadt", relative=Relative(act(np("Onkel", OUR), "wohnen", place=at("Stadt")), "place")), "schön")
        ),
        "Die Stadt, in der unser Onkel wohnt, ist schön.",
        "The city where our uncle lives is beautiful.",
    ),
    # Coordination, shared subjects, infinitives.
    (
        build.coordinate(be(np("Haus"), "klein"), "aber", be(refer_to(np("Haus")), "modern")),
        "Das Haus ist klein, aber es ist modern.",
        "The house is small, but it is modern.",
    ),
    (
        build.coordinate(act(DOG, "bellen"), "und", act(np("Maus"), "schlafen")),
        "Der Hund bellt und die Maus schläft.",
        "The dog is barking, and the mouse is sleeping.",
    ),
    (
        build.coordinate(act(I, "trinken", np("Wasser", BARE)), "denn", be(I, "durstig")),
        "Ich trinke Wasser, denn ich bin durstig.",
        "I am drinking water because I am thirsty.",
    ),
    (
        build.share_subject(act(EVA, "kaufen", np("Birne", A)), act(EVA, "essen", refer_to(np("Birne")))),
        "Eva kauft eine Birne und isst sie.",
        "Eva is buying a pear and eating it.",
    ),
    (
        build.share_subject(
            act(DOG, "fangen", np("Hase"), tense="perfect"), act(DOG, "fressen", refer_to(np("Hase")), tense="perfect")
        ),
        "Der Hund hat den Hasen gefangen und ihn gefressen.",
        "The dog caught the hare and ate it.",
    ),
    (
        build.control(Clause(np("Frau"), build.TRY), act(np("Frau"), "aufmachen", np("Tür"))),
        "Die Frau versucht, die Tür aufzumachen.",
        "The woman is trying to open the door.",
    ),
    (
        build.control(Clause(WE, build.FORGET, tense="perfect"), TO_BUY_BREAD),
        "Wir haben vergessen, das Brot zu kaufen.",
        "We forgot to buy the bread.",
    ),
    (
        build.judge(find_adjective("wichtig"), act(I, "lernen", np("Gedicht", A))),
        "Es ist wichtig, ein Gedicht zu lernen.",
        "It is important to learn a poem.",
    ),
    (
        build.give_purpose(act(HE, "gehen", place=to("Markt")), act(HE, "treffen", np("Freundin", MY, True))),
        "Er geht auf den Markt, um meine Freundinnen zu treffen.",
        "He is going to the market to meet my friends.",
    ),
    (
        build.state(act(np("Löwe"), "suchen", np("Ball", ITS_MASCULINE))),
        "Der Löwe sucht seinen Ball.",
        "The lion is looking for its ball.",
    ),
]


@pytest.mark.parametrize(("sentence", "german", "english"), PAIRS, ids=[german for _, german, _ in PAIRS])
def test_pair_is_the_hand_written_one(sentence: Sentence, german: str, english: str) -> None:
    assert (sentence.german, sentence.english) == (german, english)


def test_table_covers_many_constructions() -> None:
    assert len(PAIRS) >= 60
    assert len({sentence.construction for sentence, _, _ in PAIRS}) >= 16
