"""The verb tables, one per frame: who does it, to what, and how English says it.

Each row reads: German infinitive (``auf+machen`` is separable), stem of the du and er forms if it changes,
participle if irregular (a leading ``s:`` takes sein), English base, English past if irregular, English aspect
(``progressive`` or ``simple``: a stative or momentary verb stays simple), subjects, then what the frame adds.
In the English, ``~`` is where a pronoun object stands ("turn ~ on").
"""

VERB_TABLES: dict[str, str] = {
    # ... objects, manner adverbs
    "transitive": """
kaufen, , , buy, bought, progressive, person, food drink goods, 
verkaufen, , , sell, sold, progressive, adult name, goods fruit, 
essen, iss, gegessen, eat, ate, progressive, person, food, schnell langsam
trinken, , getrunken, drink, drank, progressive, person, drink, schnell langsam
kochen, , , cook, , progressive, adult name, dish, 
backen, , gebacken, bake, , progressive, adult name, pastry, 
bestellen, , , order, , progressive, adult name, food drink, 
bezahlen, , , pay for, paid, progressive, adult name, food drink clothing text, 
schneiden, , geschnitten, cut, cut, progressive, person, pastry fruit, vorsichtig langsam
lesen, lies, gelesen, read, read, progressive, person, text, langsam laut
schreiben, , geschrieben, write, wrote, progressive, person, book Brief Postkarte, langsam
sehen, sieh, gesehen, see, saw, simple, being, being building vehicle tree, 
kennen, , gekannt, know, knew, simple, person, person house town book, gut
lieben, , , love, , simple, person, family pet book treat, 
mögen, mag, gemocht, like, , simple, person, animal food drink person, 
brauchen, , , need, , simple, person, goods, 
haben, ha, gehabt, have, had, simple, person, goods pet, 
suchen, , , look for, , progressive, person, person pet goods, 
finden, , gefunden, find, found, simple, person, goods pet topic, 
verlieren, , verloren, lose, lost, simple, person, utensil clothing toy, 
vergessen, vergiss, vergessen, forget, forgot, simple, person, utensil clothing topic, 
bekommen, , bekommen, get, got, progressive, person, parcel message toy, 
tragen, träg, getragen, wear, wore, progressive, person, clothing, 
tragen, träg, getragen, carry, , progressive, person, container parcel, vorsichtig langsam
waschen, wäsch, gewaschen, wash, , progressive, person, clothing car fruit, 
putzen, , , clean, , progressive, person, opening room crockery, 
reparieren, , , repair, , progressive, adult name, car Bus Zug Schiff device furniture, 
bauen, , , build, built, progressive, adult name, Haus Brücke Turm furniture, 
malen, , , paint, , progressive, person, animal plant tree building Bild, 
zeichnen, , , draw, drew, progressive, person, animal plant tree being building, 
öffnen, , , open, , progressive, person, opening parcel container Brief Flasche, vorsichtig leise
schließen, , geschlossen, close, , progressive, person, opening container, vorsichtig leise
auf+machen, , , open, , progressive, person, opening parcel Flasche, vorsichtig leise
zu+machen, , , close, , progressive, person, opening container, leise
an+machen, , , turn ~ on, , progressive, person, device, 
aus+machen, , , turn ~ off, , progressive, person, device, 
mit+bringen, , mitgebracht, bring, brought, progressive, person, food drink parcel text toy, 
mit+nehmen, nimm, mitgenommen, take ~ along, took, progressive, person, pet utensil clothing book container, 
auf+räumen, , , tidy ~ up, , progressive, person, room storage Tasche Schreibtisch, 
ab+holen, , , pick ~ up, , progressive, adult name, person parcel, 
an+rufen, , angerufen, call, , progressive, person, person, 
ein+laden, läd, eingeladen, invite, , progressive, person, person, 
an+ziehen, , angezogen, put ~ on, put, progressive, person, clothing, schnell
aus+ziehen, , ausgezogen, take ~ off, took, progressive, person, clothing, schnell
besuchen, , , visit, , progressive, person, person Museum Schloss Zoo Kirche Bibliothek Insel Stadt Dorf, 
treffen, triff, getroffen, meet, met, progressive, person, person, 
fragen, , , ask, , progressive, person, person, 
verstehen, , verstanden, understand, understood, simple, person, person topic book, gut
lernen, , , learn, , progressive, person, Gedicht Lied Wort, schnell
singen, , gesungen, sing, sang, progressive, person, Lied, laut leise
spielen, , , play, , progressive, person, instrument, gut
hören, , , hear, heard, simple, being, being Lied, gut
pflanzen, , , plant, , progressive, person, plant tree, 
gießen, , gegossen, water, , progressive, person, plant tree, 
fotografieren, , , photograph, , progressive, person, animal building person tree, 
füttern, , , feed, fed, progressive, person, animal, vorsichtig
streicheln, , , stroke, , progressive, person, pet, vorsichtig leise
beobachten, , , watch, , progressive, being, animal person, leise
jagen, , , chase, , progressive, Hund Katze Fuchs Wolf Löwe, Maus Hase Kaninchen Ente Huhn Gans Schaf, schnell
fangen, fäng, gefangen, catch, caught, simple, person Hund Katze Fuchs, Ball Maus Hase Huhn, schnell
fressen, friss, gefressen, eat, ate, progressive, animal, Fleisch Brot fruit, schnell langsam
verstecken, , , hide, hid, progressive, person, parcel toy utensil text, 
untersuchen, , , examine, , progressive, Arzt Ärztin, person pet, 
retten, , , rescue, , progressive, Arzt Polizist Mann Frau Junge Mädchen name, child pet livestock, 
wecken, , , wake ~ up, woke, progressive, person, person pet, vorsichtig
begrüßen, , , greet, , progressive, adult name, person, laut
lösen, , , solve, , progressive, person, Problem Rätsel Aufgabe, schnell
beantworten, , , answer, , progressive, person, Frage Brief, schnell
wiederholen, , wiederholt, repeat, , progressive, person, Frage Wort Antwort, laut langsam
""",
    # ... dative objects, manner adverbs
    "dative": """
helfen, hilf, geholfen, help, , progressive, person, person, 
danken, , , thank, , progressive, person, person, 
folgen, , s:, follow, , progressive, being, being, leise schnell
zu+hören, , , listen to, , progressive, person, person, 
gratulieren, , , congratulate, , progressive, person, person, 
antworten, , , answer, , progressive, person, person, laut schnell
glauben, , , believe, , simple, person, person, 
vertrauen, , , trust, , simple, person, person, 
gehören, , gehört, belong to, , simple, goods pet, person, 
""",
    # ... dative people who like it: in English the dative becomes the subject
    "liking": """
gefallen, gefäll, gefallen, like, , simple, clothing book image topic building car town, person, 
schmecken, , , like, , simple, food drink, person, 
""",
    # ... preposition, its case, objects, manner adverbs
    "prepositional": """
warten, , , wait for, , progressive, person, auf, accusative, person transport message parcel, 
denken, , gedacht, think about, thought, progressive, person, an, accusative, person pet topic, 
sprechen, sprich, gesprochen, talk to, , progressive, person, mit, dative, person, leise
spielen, , , play with, , progressive, child name, mit, dative, pet toy child, 
spielen, , , play with, , progressive, Hund Katze Kaninchen, mit, dative, Ball Kind Junge Mädchen, 
fragen, , , ask about, , progressive, person, nach, dative, person landmark, 
lachen, , , laugh about, , progressive, person, über, accusative, Geschichte Märchen Gedicht Bild Foto Antwort, laut
träumen, , , dream of, , progressive, person, von, dative, being car, 
riechen, , gerochen, smell of, , simple, room clothing, nach, dative, Käse Kaffee Honig Schokolade, 
""",
    # ... recipients, objects, English preposition of the recipient (empty: double object)
    "giving": """
geben, gib, gegeben, give, gave, progressive, person, person, food goods parcel, 
schenken, , , give, gave, progressive, person, person, clothing book toy pet, 
zeigen, , , show, showed, progressive, person, person, goods image house pet, 
schicken, , , send, sent, progressive, person, person, message image parcel, 
bringen, , gebracht, bring, brought, progressive, person, person, food drink portable, 
leihen, , geliehen, lend, lent, progressive, person, person, text utensil car instrument, 
erzählen, , , tell, told, progressive, person, person, Geschichte Märchen, 
erklären, , , explain, , progressive, adult name, person, topic, to
vor+lesen, lies, vorgelesen, read, read, progressive, adult name, person, book, to
kaufen, , , buy, bought, progressive, adult name, person, clothing toy fruit text, 
""",
    # ... manner adverbs; the place is where it goes
    "motion": """
gehen, , s:gegangen, go, went, progressive, person, langsam schnell
fahren, fähr, s:gefahren, drive, drove, progressive, adult name, langsam schnell
laufen, läuf, s:gelaufen, run, ran, progressive, being, langsam schnell
rennen, , s:gerannt, run, ran, progressive, being, schnell
kommen, , s:gekommen, come, came, progressive, person, 
reisen, , s:, travel, , progressive, adult name, 
wandern, , s:, hike, , progressive, person, langsam
zurück+kommen, , s:zurückgekommen, come back, came, progressive, person, langsam schnell
""",
    # ... travelling by vehicle, to a place
    "riding": """
fahren, fähr, s:gefahren, go, went, progressive, person
reisen, , s:, travel, , progressive, adult name
zurück+fahren, fähr, s:zurückgefahren, go back, went, progressive, person
""",
    # ... manner adverbs; the place is where it happens
    "intransitive": """
schlafen, schläf, geschlafen, sleep, slept, progressive, person pet, gut
schlafen, schläf, geschlafen, sleep, slept, progressive, Bär Löwe Kuh Schaf Ente Gans Huhn Schwein, 
arbeiten, , , work, , progressive, adult name, schnell langsam
spielen, , , play, , progressive, child pet name, leise laut
tanzen, , , dance, , progressive, person, schnell langsam gut
singen, , gesungen, sing, sang, progressive, person, laut leise gut
lachen, , , laugh, , progressive, person, laut leise
weinen, , , cry, , progressive, child name, laut leise
lächeln, , , smile, , progressive, person, 
warten, , , wait, , progressive, person, 
frühstücken, , , have breakfast, had, progressive, person, 
ein+kaufen, , , shop, , progressive, person, schnell
fern+sehen, sieh, ferngesehen, watch television, , progressive, person, 
wohnen, , , live, , simple, person, 
auf+wachen, , s:, wake up, woke, progressive, person, 
auf+stehen, , s:aufgestanden, get up, got, progressive, person, langsam
ein+schlafen, schläf, s:eingeschlafen, fall asleep, fell, progressive, being, schnell langsam
an+kommen, , s:angekommen, arrive, , progressive, adult name transport, 
ab+fahren, fähr, s:abgefahren, leave, left, progressive, transport, langsam
schwimmen, , s:geschwommen, swim, swam, progressive, person Ente Hund, gut schnell langsam
bellen, , gebellt, bark, , progressive, Hund, laut leise
blühen, , , bloom, , progressive, plant tree, 
wachsen, wächs, s:gewachsen, grow, grew, progressive, plant tree, gut schnell langsam
leuchten, , , shine, shone, progressive, Lampe Taschenlampe, 
funktionieren, , , work, , simple, device Uhr Auto Motorrad, gut
""",
    # ... prepositions of rest, what they rest on
    "position": """
liegen, , gelegen, lie, lay, progressive, text utensil clothing toy pet, auf in unter neben
stehen, , gestanden, stand, stood, progressive, crockery container parcel device, auf in neben
sitzen, , gesessen, sit, sat, progressive, person pet, auf neben
""",
    # ... objects, prepositions of direction, where it ends up
    "placing": """
legen, , , put, put, progressive, person, text utensil clothing toy, auf in unter neben
stellen, , , put, put, progressive, person, crockery container parcel device, auf in neben
""",
}
