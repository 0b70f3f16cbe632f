"""The tables of everything that is neither noun nor verb: adjectives, adverbials, modals, conjunctions."""

# German, English, classes it describes[, German comparative][, English comparative]; "teuer/teur" gives the stem.
ADJECTIVE_TABLE = """
müde, tired, person pet, müder, more tired
glücklich, happy, person, , happier
traurig, sad, person, , sadder
krank, ill, person animal, -,
hungrig, hungry, being, , hungrier
durstig, thirsty, being, , thirstier
nervös, nervous, person, , more nervous
nett, nice, person, , nicer
freundlich, friendly, person pet, , friendlier
höflich, polite, person, , more polite
ehrlich, honest, person, , more honest
mutig, brave, person, , braver
klug, clever, person pet Fuchs Affe, klüger, cleverer
fleißig, hard-working, person, , more hard-working
faul, lazy, person pet, , lazier
stark, strong, person Pferd Bär Löwe Elefant, stärker, stronger
reich, rich, adult name, , richer
arm, poor, adult, ärmer, poorer
berühmt, famous, worker book image building instrument, , more famous
jung, young, person animal tree, jünger, younger
alt, old, being goods building vehicle tree room, älter, older
neu, new, goods transport building, , newer
klein, small, animal goods building room tree town parcel outdoors fruit pastry, , smaller
groß, big, animal goods building room tree town parcel outdoors fruit pastry transport, größer, bigger
schön, beautiful, clothing book image building plant tree outdoors town instrument, , more beautiful
teuer/teur, expensive, goods drink food transport, teurer, more expensive
billig, cheap, goods drink food, , cheaper
rot, red, clothing plant vehicle toy crockery container Apfel Tomate Kirsche, -,
blau, blue, clothing vehicle toy crockery container opening, -,
grün, green, clothing vehicle toy crockery container opening Apfel Tomate, -,
gelb, yellow, clothing plant vehicle toy crockery container Birne, -,
schwarz, black, clothing vehicle container pet, -,
weiß, white, clothing plant vehicle pet crockery, -,
braun, brown, clothing container furniture pet livestock, -,
grau, grey, clothing furniture pet Maus Wolf, -,
schwer, heavy, container parcel furniture device, , heavier
leicht, light, container parcel, , lighter
kalt, cold, drink dish room, kälter, colder
heiß, hot, Suppe Kartoffelsuppe Kaffee Tee Wurst Kartoffel, , hotter
süß, sweet, fruit pastry_sweet Tee Schokolade Honig, , sweeter
frisch, fresh, fruit pastry dish Milch Salat Käse, , fresher
lecker, delicious, food, , more delicious
reif, ripe, fruit, , riper
gesund, healthy, being, -,
interessant, interesting, text image topic town Museum, , more interesting
langweilig, boring, text image topic town, , more boring
wichtig, important, message topic parcel Schlüssel, , more important
schwierig, difficult, topic book, , more difficult
einfach, easy, topic, , easier
lang, long, Roman Geschichte Gedicht Märchen Brief Lied Rock Kleid Mantel Schal Brücke Straße Zug Wort, länger, longer
kurz, short, Roman Geschichte Gedicht Märchen Brief Lied Rock Kleid Wort Antwort, kürzer, shorter
spannend, exciting, book, , more exciting
lustig, funny, child name book image Brief Postkarte topic_fun, , funnier
leer, empty, crockery container storage room transport, -,
voll, full, crockery container storage transport, -,
sauber, clean, clothing crockery room vehicle opening, , cleaner
schmutzig, dirty, clothing crockery room vehicle opening pet livestock, , dirtier
kaputt, broken, device utensil car furniture toy, -,
schnell, fast, vehicle pet Hase, , faster
langsam, slow, vehicle Esel worker, , slower
laut, loud, Radio Fernseher Computer Waschmaschine child transport, , louder
ruhig, quiet, person outdoors town room, , quieter
wild, wild, wildlife Pferd, , wilder
treu, loyal, Hund Freund Freundin Pferd, treuer, more loyal
hübsch, pretty, clothing plant image crockery, , prettier
modern, modern, device building furniture vehicle, , more modern
dunkel/dunkl, dark, room Wald clothing, dunkler, darker
hell, bright, room device_light, , brighter
hoch/hoh, high, Turm Berg Brücke, höher, higher
breit, wide, Straße Fluss Brücke furniture_wide, , wider
gefährlich, dangerous, Löwe Bär Wolf Elefant Straße Fluss, , more dangerous
bequem, comfortable, furniture_soft clothing_soft, , more comfortable
nass, wet, clothing pet, -,
trocken, dry, clothing Brot Kuchen, -,
warm, warm, clothing_soft room dish Milch, wärmer, warmer
"""

ADJECTIVE_GROUPS: dict[str, str] = {
    "pastry_sweet": "Kuchen Apfelkuchen",
    "topic_fun": "Lied Antwort Frage",
    "device_light": "Lampe Taschenlampe",
    "furniture_soft": "Stuhl Bett Sofa Sessel",
    "furniture_wide": "Tisch Bett Sofa Schreibtisch",
    "clothing_soft": "Mantel Jacke Pullover Schuhe Kleid",
}

# German, English, the tenses it goes with: progressive, habitual, past, future, stative (a present state).
TIME_TABLE = """
heute, today, progressive past
jetzt, now, progressive stative
gerade, right now, progressive
heute Abend, this evening, future
heute Morgen, this morning, past
morgen, tomorrow, future
übermorgen, the day after tomorrow, future
bald, soon, future
nächste Woche, next week, future
am Montag, on Monday, past future
am Freitag, on Friday, past future
am Sonntag, on Sunday, past future
gestern, yesterday, past
gestern Abend, yesterday evening, past
vorgestern, the day before yesterday, past
letzte Woche, last week, past
vor zwei Tagen, two days ago, past
jeden Tag, every day, habitual
jeden Morgen, every morning, habitual
jeden Abend, every evening, habitual
jede Woche, every week, habitual
im Sommer, in summer, habitual
im Winter, in winter, habitual
sonntags, on Sundays, habitual
abends, in the evening, habitual
nachts, at night, habitual
"""

# Adverbs that English puts before the full verb.
FREQUENCY_TABLE = """
oft, often, habitual past
immer, always, habitual
manchmal, sometimes, habitual past
selten, rarely, habitual past
nie, never, habitual past
noch, still, progressive
"""

MANNER_TABLE = """
schnell, quickly
langsam, slowly
laut, loudly
leise, quietly
vorsichtig, carefully
gut, well
"""

# German infinitive, English, how English builds it (auxiliary, be, verb), and the six present forms.
MODAL_TABLE = """
können, can, auxiliary, kann kannst kann können könnt können
sollen, should, auxiliary, soll sollst soll sollen sollt sollen
werden, will, auxiliary, werde wirst wird werden werdet werden
möchten, would like to, auxiliary, möchte möchtest möchte möchten möchtet möchten
müssen, have to, verb, muss musst muss müssen müsst müssen
wollen, want to, verb, will willst will wollen wollt wollen
dürfen, allowed to, be, darf darfst darf dürfen dürft dürfen
"""
