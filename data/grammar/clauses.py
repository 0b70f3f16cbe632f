"""Clauses drawn with sense: participants that suit the verb, then tense, time, manner, place, negation."""

from __future__ import annotations

from collections.abc import Sequence

from .derivation import (
    BARE,
    HE,
    MY,
    NO,
    SHE,
    THE,
    THEY,
    THIS,
    WE,
    YOU,
    A,
    Clause,
    I,
    NounPhrase,
    Phrase,
    Prepositional,
    Pronoun,
    own,
)
from .drawing import DeadEndError, PhraseDrawing
from .german_forms import gender_column
from .lexicon import (
    FREQUENCIES,
    MODALS,
    PLACES,
    TIMES,
    VERBS,
    Adverb,
    Verb,
    find_adverb,
    find_noun,
    find_nouns,
)
from .plausibility import (
    ANIMAL_GOALS,
    EVENING_TIMES,
    GOALS,
    MORNING_VERBS,
    OTHER_VEHICLES,
    RELATED,
    ROUTINES,
    SETTINGS,
    TIME_LIMITS,
    VEHICLES,
    WOMEN_WEAR,
)

MAIN_FRAMES = ("transitive", "dative", "liking", "prepositional", "giving", "motion", "riding", "intransitive")
FRAMES = (*MAIN_FRAMES, "position", "placing")
ATTEMPTS = 60
TWO_WAY_ENGLISH = {"auf": "on", "unter": "under", "neben": "next to", "in": "in"}
TWO_WAY_NOUNS = {
    "auf": "Tisch Bett Sofa Stuhl Schreibtisch Teppich Sessel",
    "unter": "Tisch Bett Sofa Stuhl Schreibtisch Teppich Baum",
    "neben": "Tisch Bett Sofa Schrank Fenster Tür Kühlschrank Lampe",
    "in": "Schrank Schublade Korb Koffer Kiste",
}


class Drawing(PhraseDrawing):
    """Draws whole clauses whose combinations belong to the split."""

    def pick_verb(self, frames: Sequence[str] = FRAMES) -> Verb:
        return self.balance([verb for verb in VERBS if verb.frame in frames])

    def core(self, verb: Verb, subject: Phrase | None = None, target: NounPhrase | None = None) -> Clause:
        """A clause with the participants the frame asks for, in the split being drawn."""
        # With both ends given, trying again would give the same combination.
        for _ in range(1 if subject and target else ATTEMPTS):
            clause = self.build_core(verb, subject, target)
            if clause and self.accepts(clause):
                return clause
        raise DeadEndError

    def build_core(self, verb: Verb, given: Phrase | None, target: NounPhrase | None) -> Clause | None:
        if verb.frame == "liking":
            return self.build_liking(verb, given, target)
        subject = given or self.any_subject(verb.subjects)
        clause = Clause(subject, verb)
        match verb.frame:
            case "transitive" | "giving" | "placing":
                clause = clause.change(object=target or self.transitive_object(verb, subject))
                if clause.object and clause.object.key == subject.key or wears_wrong(clause):
                    return None
        match verb.frame:
            case "dative":
                clause = clause.change(recipient=target or self.other_person(verb.objects, subject))
            case "giving":
                clause = clause.change(recipient=self.other_person(verb.recipients, subject, clause.object))
            case "prepositional":
                phrase = target or self.other_person(verb.objects, subject, pronouns=8)
                if phrase.key in ("Käse", "Kaffee", "Honig", "Schokolade") and verb.german == "riechen":
                    phrase = NounPhrase(find_noun(phrase.key), BARE)
                clause = clause.change(complement=Prepositional(verb.preposition, verb.case, phrase, ""))
            case "motion" | "riding":
                animal = isinstance(subject, NounPhrase) and not subject.noun.human
                goal = self.balance(find_nouns(ANIMAL_GOALS if animal else GOALS[verb.infinitive])).german
                clause = clause.change(place=self.place_to(goal))
                if verb.frame == "riding":
                    vehicles = VEHICLES.get(goal, OTHER_VEHICLES)
                    clause = clause.change(vehicle=self.balance(find_nouns(vehicles)))
            case "position" | "placing":
                clause = clause.change(place=self.two_way_place(verb))
            case "intransitive":
                places = SETTINGS.get(verb.infinitive, "")
                must = verb.german == "wohnen"
                if places and self.suits_place(subject) and (must or self.chance(58)):
                    place = self.balance(find_nouns(places)).german
                    clause = clause.change(place=self.place_at(place, verb.infinitive))
        return clause

    def suits_place(self, subject: Phrase) -> bool:
        """Animals other than pets do not turn up in hotels and offices."""
        return isinstance(subject, Pronoun) or subject.noun.category not in ("livestock", "wildlife")

    def build_liking(self, verb: Verb, given: Phrase | None, target: NounPhrase | None) -> Clause:
        """gefallen and schmecken: ``given`` is the thing, or the person if it is not a thing."""
        thing = given or target
        if thing is None:
            noun = self.balance(find_nouns(verb.subjects))
            determiner, plural = self.weigh([(8, (THE, False)), (3, (THIS, False)), (4, (THE, True))])
            plural = (plural or noun.plural_only) and not noun.mass
            thing = self.adorn(NounPhrase(noun, determiner, plural))
        return Clause(thing, verb, recipient=self.other_person(verb.objects, I, pronouns=25))

    def transitive_object(self, verb: Verb, subject: Phrase) -> NounPhrase | Pronoun:
        if verb.german == "spielen":
            return NounPhrase(self.balance(find_nouns("instrument")), BARE)
        noun = self.balance(find_nouns(verb.objects))
        if noun.human and self.chance(14):
            options = {"ich": (YOU,), "wir": (YOU,), "du": (I, WE), "ihr": (I, WE)}.get(subject.key, (I, YOU, WE))
            return self.choose(options)
        return self.object_phrase(noun, subject)

    def other_person(
        self, selector: str, subject: Phrase, thing: Phrase | None = None, pronouns: int = 16
    ) -> NounPhrase | Pronoun:
        """Another participant, not the subject again, and never two first or second persons in a row."""
        noun = self.balance(find_nouns(selector))
        if noun.human and self.chance(pronouns):
            blocked = {"ich": (I, WE), "wir": (I, WE), "du": (YOU,), "ihr": (YOU,)}.get(subject.key, ())
            free = (I, YOU, HE, SHE, WE, THEY) if selector == "person" else (I, YOU, WE)
            return self.choose([p for p in free if p not in blocked and p.key != subject.key])
        if noun.german in (subject.key, thing.key if thing else ""):
            raise DeadEndError
        if noun.human:
            options = [(40, (THE, False)), (6, (A, False)), (4, (THIS, False)), (12, (THE, True))]
            if noun in find_nouns(RELATED):
                options.append((8, (MY, False)))
            possessive = own(subject)
            # A cup belongs to someone's uncle, not to "its" uncle.
            living = isinstance(subject, Pronoun) or subject.noun.animate
            if noun.category == "family" and possessive and living:
                options = [(12, (THE, False)), (6, (MY, False)), (14, (possessive, False)), (3, (possessive, True))]
            return self.pick_determined(noun, options)
        return self.object_phrase(noun, subject)

    def two_way_place(self, verb: Verb) -> Prepositional:
        preposition = self.choose(verb.preposition.split())
        nouns = TWO_WAY_NOUNS[preposition]
        if verb.german == "sitzen":
            nouns = "Sofa Stuhl Sessel Bett Teppich" if preposition == "auf" else "Tisch Fenster Tür Baum"
        phrase = self.adorn(NounPhrase(self.balance(find_nouns(nouns))), 22)
        case = "accusative" if verb.frame == "placing" else "dative"
        english = TWO_WAY_ENGLISH[preposition]
        return Prepositional(preposition, case, phrase, english)

    # --- circumstances -------------------------------------------------------------------------------------------

    def furnish(self, clause: Clause, reference: str = "", plain: bool = False) -> Clause:
        """Give the clause a tense and perhaps a modal, time, frequency, manner, place or negation."""
        verb = clause.verb
        routine = verb.infinitive in ROUTINES
        moment = verb.english in ("find", "forget", "lose", "catch")
        if not reference:
            reference = self.weigh(
                [(40, "now"), (34, "past"), (9, "future"), (17 if routine else 0, "habitual"), (13, "modal")]
            )
        if moment and reference == "now":
            reference = "past"
        if reference == "modal" and (not verb.progressive or verb.frame in ("liking",) or not self.is_person(clause)):
            reference = "now" if not moment else "past"
        if reference == "future" and not verb.progressive:
            reference = "past"
        if (
            verb.english in ("know", "live", "trust", "belong to", "smell of", "have", "love", "need")
            and reference == "past"
        ):
            reference = "now"
        if verb.german == "mögen" and reference == "past":
            reference = "now"
        clause = self.set_tense(clause, reference, routine)
        if plain:
            return clause
        quiet = clause.frequency is None and clause.modal is None
        settings = SETTINGS.get(verb.infinitive, "") if verb.frame == "transitive" else ""
        instrument = clause.object is not None and verb.german == "spielen"
        if clause.object and clause.object.key in PLACES:
            settings = ""
        if settings and not clause.place and not instrument and self.is_person(clause) and self.chance(36):
            clause = clause.change(place=self.place_at(self.balance(find_nouns(settings)).german))
        elif verb.manners and quiet and self.chance(26):
            clause = clause.change(manner=find_adverb(self.choose(verb.manners)))
        elif quiet and self.chance(16) and (not clause.place or verb.frame in ("motion", "riding", "position")):
            clause = self.negate(clause)
        return self.expect(clause)

    def is_person(self, clause: Clause) -> bool:
        subject = clause.subject
        return isinstance(subject, Pronoun) or subject.noun.human

    def set_tense(self, clause: Clause, reference: str, routine: bool) -> Clause:
        verb = clause.verb
        match reference:
            case "past":
                clause = clause.change(tense="perfect")
                if self.chance(64):
                    clause = clause.change(time=self.pick_time("past", verb))
                elif routine and self.chance(25):
                    clause = clause.change(frequency=self.choose([f for f in FREQUENCIES if "past" in f.times]))
            case "future":
                clause = clause.change(time=self.pick_time("future", verb))
            case "habitual":
                if self.chance(55):
                    clause = clause.change(time=self.pick_time("habitual", verb))
                else:
                    clause = clause.change(frequency=self.choose([f for f in FREQUENCIES if "habitual" in f.times]))
            case "modal":
                clause = clause.change(modal=self.choose(MODALS))
                if self.chance(25):
                    clause = clause.change(time=self.pick_time("future", verb))
            case _:
                if verb.progressive and self.chance(52):
                    clause = clause.change(time=self.pick_time("progressive", verb))
                elif (
                    verb.progressive
                    and verb.frame in ("intransitive", "prepositional", "position")
                    and verb.infinitive not in ("aufwachen", "einschlafen", "ankommen", "abfahren", "aufstehen")
                    and self.chance(20)
                ):
                    clause = clause.change(frequency=find_adverb("noch"))
        return clause

    def pick_time(self, kind: str, verb: Verb) -> Adverb:
        options = [
            time
            for time in TIMES
            if kind in time.times
            and verb.infinitive in TIME_LIMITS.get(time.german, (verb.infinitive,))
            and not (verb.infinitive in MORNING_VERBS and time.german in EVENING_TIMES)
        ]
        return self.balance(options)

    def negate(self, clause: Clause) -> Clause:
        """Negate with kein where the object is indefinite, otherwise with nicht."""
        phrase = clause.object
        if clause.reference == "habitual":
            return clause
        if isinstance(phrase, NounPhrase) and not phrase.definite and clause.verb.german != "spielen":
            if phrase.determiner not in (A, BARE):
                return clause
            return clause.change(object=NounPhrase(phrase.noun, NO, phrase.plural, phrase.adjective), negated=True)
        return clause.change(negated=True)

    def clause(self, frames: Sequence[str] = FRAMES, reference: str = "", plain: bool = False) -> Clause:
        """A whole random clause."""
        for _ in range(ATTEMPTS):
            try:
                return self.furnish(self.core(self.pick_verb(frames)), reference, plain)
            except DeadEndError:
                continue
        raise DeadEndError


def wears_wrong(clause: Clause) -> bool:
    """True where a man would put on a dress or a skirt."""
    target = clause.object
    if not isinstance(target, NounPhrase) or target.noun not in find_nouns(WOMEN_WEAR):
        return False
    subject = clause.subject
    who = subject.english if isinstance(subject, Pronoun) else subject.noun.english_pronoun
    return clause.verb.english in ("wear", "put ~ on", "take ~ off") and who not in ("she", "I", "you")


def is_clear_nominative(phrase: Phrase) -> bool:
    """True if the form itself says it is the subject."""
    if isinstance(phrase, Pronoun):
        return phrase.nominative in ("ich", "du", "er", "wir")
    return shows_case(phrase)


def shows_case(phrase: Phrase) -> bool:
    """True for masculine singulars with a determiner, whose nominative and accusative differ."""
    if isinstance(phrase, Pronoun):
        return phrase.accusative != phrase.nominative
    determined = phrase.determiner is not BARE and phrase.noun.category != "name"
    return determined and gender_column(phrase.noun, phrase.plural) == "m" and phrase.owner is None


def roles_are_clear(subject: Phrase, target: Phrase) -> bool:
    """True if a fronted object cannot be taken for the subject."""
    return is_clear_nominative(subject) or shows_case(target) or subject.plural != target.plural
