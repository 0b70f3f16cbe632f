"""What goes with what beyond the frames: settings, routines, reasons, contrasts and pairs of actions."""

# Verb (and frame): places where it happens.
SETTINGS: dict[str, str] = {
    "schlafen": "Schlafzimmer Wohnzimmer Garten Hotel Wiese",
    "arbeiten": "Büro Werkstatt Garten Krankenhaus Museum Bäckerei Restaurant Schule Supermarkt Universität "
    "Bauernhof Feld Apotheke Bahnhof Flughafen Rathaus Hotel",
    "spielen": "Garten Park Spielplatz Wiese Straße Strand Wohnzimmer Keller Wald",
    "tanzen": "Küche Restaurant Straße Hotel Schloss Wohnzimmer",
    "singen": "Kirche Badezimmer Schule Garten Küche",
    "lachen": "Kino Küche Café Schule",
    "weinen": "Schlafzimmer Schule Keller",
    "warten": "Bahnhof Haltestelle Flughafen Café Krankenhaus Brücke Markt Straße",
    "frühstücken": "Küche Garten Hotel Café Wohnung",
    "einkaufen": "Supermarkt Markt Bäckerei Stadt Dorf",
    "wohnen": "Stadt Dorf Schloss Hotel Haus Wohnung Insel Bauernhof",
    "aufwachen": "Schlafzimmer Hotel Krankenhaus",
    "ankommen": "Bahnhof Flughafen Hotel Haltestelle",
    "schwimmen": "See Fluss",
    "bellen": "Garten Straße Park Haus Bauernhof Wohnung",
    "blühen": "Garten Park Wiese Insel Feld Berg",
    "wachsen": "Garten Park Wiese Insel Feld Wald",
    "leuchten": "Keller Garten Küche Wald",
    "essen": "Küche Garten Restaurant Park Café Büro Schule Kino",
    "trinken": "Küche Garten Restaurant Café Büro Hotel",
    "kochen": "Küche Restaurant Hotel",
    "backen": "Küche Bäckerei",
    "lesen": "Bibliothek Garten Park Café Büro Universität Wohnzimmer Zoo Strand",
    "schreiben": "Büro Bibliothek Café Wohnzimmer Park",
    "bestellen": "Restaurant Café Hotel",
    "treffen": "Park Bahnhof Café Markt Museum Kino Brücke Haltestelle Universität Stadt",
    "sehen": "Park Zoo Markt Straße Wald Feld Kino Berg",
    "fotografieren": "Park Zoo Strand Wald Insel Dorf",
    "zeichnen": "Park Zoo Museum Wiese Schule",
    "malen": "Garten Werkstatt Schule Strand",
    "reparieren": "Werkstatt Keller Bauernhof",
    "fernsehen": "Wohnzimmer Schlafzimmer Hotel",
    "pflanzen": "Garten Park Wiese Feld",
    "suchen": "Keller Wohnzimmer Garten Büro Küche",
    "finden": "Keller Wohnzimmer Garten Straße Park",
    "verlieren": "Kino Park Supermarkt Straße Universität Zoo",
    "abholen": "Bahnhof Flughafen Schule",
    "beobachten": "Zoo Wald Park Garten",
    "lernen": "Schule Universität Bibliothek",
}

# Where people go, run, drive or hike.
GOALS: dict[str, str] = {
    "gehen": "house town room Garten Park Wald Strand",
    "fahren": "Stadt Dorf Supermarkt Bahnhof Flughafen Krankenhaus Museum Strand See Universität Bauernhof Schloss "
    "Hotel Zoo Apotheke Rathaus",
    "laufen": "Park Wald Haltestelle Brücke Bahnhof Feld Fluss Garten Wiese Straße",
    "rennen": "Haltestelle Spielplatz Garten Haus Straße Wald Wiese",
    "kommen": "Schule Markt Küche Garten Stadt Hotel Restaurant Park Bibliothek Büro Café Spielplatz",
    "reisen": "Insel Stadt Dorf",
    "wandern": "Berg See Schloss Wald Dorf Turm",
    "zurückkommen": "Stadt Dorf Hotel Büro Haus Wohnung Werkstatt Schule",
    "zurückfahren": "Stadt Dorf Hotel Bahnhof Insel Strand Bauernhof",
}

# Verbs one does again and again; only these take "jeden Tag", "oft" and the like.
ROUTINES = frozenset(
    [
        "essen",
        "trinken",
        "kochen",
        "backen",
        "bestellen",
        "lesen",
        "schreiben",
        "waschen",
        "putzen",
        "aufräumen",
        "abholen",
        "anrufen",
        "besuchen",
        "treffen",
        "singen",
        "spielen",
        "gießen",
        "füttern",
        "streicheln",
        "beobachten",
        "wecken",
        "helfen",
        "zuhören",
        "warten",
        "denken",
        "sprechen",
        "träumen",
        "vorlesen",
        "erzählen",
        "gehen",
        "fahren",
        "laufen",
        "rennen",
        "wandern",
        "schlafen",
        "arbeiten",
        "tanzen",
        "lachen",
        "weinen",
        "frühstücken",
        "einkaufen",
        "fernsehen",
        "aufwachen",
        "aufstehen",
        "einschlafen",
        "schwimmen",
        "bellen",
        "mitbringen",
        "suchen",
        "vergessen",
        "verlieren",
        "tragen",
        "fressen",
        "jagen",
        "einladen",
        "zeichnen",
        "malen",
        "fotografieren",
        "kommen",
        "zurückfahren",
        "fragen",
        "danken",
        "antworten",
        "begrüßen",
        "bringen",
        "zurückkommen",
    ]
)
# Time adverbials that go with few verbs only.
TIME_LIMITS: dict[str, frozenset[str]] = {
    "im Sommer": frozenset(
        ["schwimmen", "wandern", "arbeiten", "trinken", "besuchen", "laufen", "gießen", "malen", "fahren"]
    ),
    "im Winter": frozenset(
        ["kochen", "backen", "arbeiten", "lesen", "tragen", "trinken", "besuchen", "fernsehen", "füttern", "schlafen"]
    ),
    "nachts": frozenset(
        ["arbeiten", "lesen", "schlafen", "fernsehen", "bellen", "weinen", "jagen", "träumen", "aufwachen", "essen"]
    ),
}
MORNING_VERBS = frozenset(["frühstücken", "aufwachen", "aufstehen"])
EVENING_TIMES = frozenset(["jeden Abend", "abends", "gestern Abend", "heute Abend"])

# Verb: adjectives of its subject that explain it, that it defies, then the same for its object.
REASONS: dict[str, tuple[str, str, str, str]] = {
    "schlafen": ("müde krank", "hungrig", "", ""),
    "essen": ("hungrig", "krank", "lecker frisch süß", "kalt"),
    "trinken": ("durstig müde", "", "kalt lecker heiß", "teuer"),
    "kochen": ("hungrig", "müde", "lecker", ""),
    "backen": ("hungrig glücklich", "müde", "lecker", ""),
    "bestellen": ("hungrig", "arm", "billig lecker", "teuer"),
    "kaufen": ("reich", "arm", "billig schön neu hübsch lecker reif", "teuer alt"),
    "verkaufen": ("arm", "reich", "alt", "neu schön"),
    "lesen": ("fleißig klug", "müde krank", "spannend interessant kurz lustig", "langweilig schwierig lang"),
    "schreiben": ("traurig glücklich", "müde", "wichtig", "lang"),
    "suchen": ("nervös", "müde", "wichtig neu", "alt"),
    "lieben": ("", "", "nett ehrlich mutig treu lustig schön spannend", "faul arm alt langweilig"),
    "mögen": ("", "", "nett freundlich höflich lustig lecker klug", "laut teuer"),
    "waschen": ("fleißig", "müde", "schmutzig", "sauber neu"),
    "putzen": ("fleißig", "müde krank", "schmutzig", "sauber"),
    "aufräumen": ("fleißig", "müde", "voll", "leer sauber"),
    "reparieren": ("arm fleißig", "müde", "kaputt", "alt billig"),
    "tragen": ("stark fleißig", "müde krank", "schön warm", "alt kaputt schmutzig schwer nass"),
    "ausziehen": ("", "", "nass schmutzig", "warm trocken"),
    "anziehen": ("", "", "warm schön", "nass schmutzig"),
    "besuchen": ("freundlich", "müde", "krank alt berühmt interessant", "laut langweilig"),
    "anrufen": ("nervös traurig", "müde", "krank", ""),
    "verstehen": ("klug", "müde", "einfach klug", "schwierig"),
    "lösen": ("klug fleißig", "müde", "einfach wichtig", "schwierig"),
    "beantworten": ("freundlich höflich", "müde", "einfach wichtig", "schwierig lang"),
    "retten": ("mutig", "müde", "jung", "wild"),
    "füttern": ("", "", "hungrig", "wild gefährlich"),
    "fotografieren": ("", "", "schön berühmt hübsch", "gefährlich"),
    "untersuchen": ("", "müde", "krank", "gesund"),
    "helfen": ("nett freundlich", "müde krank", "", ""),
    "danken": ("höflich glücklich", "", "", ""),
    "weinen": ("traurig müde krank", "", "", ""),
    "lachen": ("glücklich", "traurig krank", "", ""),
    "lächeln": ("glücklich nett", "traurig müde krank", "", ""),
    "tanzen": ("glücklich", "müde krank", "", ""),
    "singen": ("glücklich", "traurig müde", "", ""),
    "arbeiten": ("fleißig", "müde krank alt", "", ""),
    "lernen": ("fleißig klug", "müde krank", "wichtig kurz", "lang schwierig"),
    "spielen": ("jung glücklich", "müde krank", "", ""),
    "einschlafen": ("müde", "hungrig nervös", "", ""),
    "einkaufen": ("hungrig", "müde krank", "", ""),
    "fernsehen": ("faul krank müde", "müde", "", ""),
    "warten": ("höflich", "müde hungrig nervös", "", ""),
    "gehen": ("", "müde krank", "", ""),
    "fahren": ("", "müde krank", "", ""),
    "laufen": ("", "müde krank", "", ""),
    "aufstehen": ("fleißig hungrig", "müde krank", "", ""),
    "bellen": ("hungrig", "müde treu", "", ""),
    "gießen": ("fleißig", "müde", "schön", "nass"),
}

# What weather explains or fails to prevent: verb to weather ("regnen", "schneien" or an adjective).
WEATHER_REASONS = {
    "fernsehen": "regnen schneien kalt",
    "lesen": "regnen",
    "anziehen": "regnen schneien kalt",
    "tragen": "kalt schneien",
    "schwimmen": "heiß warm",
    "schlafen": "dunkel",
}
WEATHER_CONTRASTS = {
    "arbeiten": "regnen kalt heiß schneien",
    "schwimmen": "kalt regnen",
    "wandern": "regnen schneien heiß dunkel",
    "laufen": "regnen heiß schneien dunkel",
    "spielen": "regnen kalt schneien",
    "fahren": "schneien regnen dunkel",
    "gehen": "regnen dunkel schneien kalt",
    "lesen": "dunkel",
}

PRAISE = (
    "nett freundlich höflich ehrlich mutig klug fleißig glücklich schön neu billig frisch lecker gesund interessant "
    "einfach spannend lustig sauber schnell ruhig treu hübsch modern hell bequem warm stark reich berühmt reif"
)
COMPLAINT = (
    "müde traurig krank hungrig durstig nervös faul arm alt klein teuer kalt langweilig schwierig schmutzig kaputt "
    "langsam laut wild dunkel gefährlich schwer nass leer"
)
MOODS = "müde glücklich traurig krank hungrig durstig nervös"

# Two things one does to the same object, one after the other.
PAIRS: tuple[tuple[str, str, str], ...] = (
    ("kaufen", "essen", "fruit pastry treat"),
    ("kaufen", "lesen", "book Zeitung"),
    ("kaufen", "reparieren", "car device furniture"),
    ("kochen", "essen", "dish"),
    ("backen", "essen", "pastry"),
    ("waschen", "essen", "fruit"),
    ("waschen", "verkaufen", "car"),
    ("reparieren", "verkaufen", "car device furniture"),
    ("öffnen", "lesen", "Brief"),
    ("bestellen", "essen", "dish pastry Salat"),
    ("bestellen", "trinken", "drink"),
    ("suchen", "finden", "goods"),
    ("waschen", "anziehen", "clothing"),
    ("finden", "mitnehmen", "utensil text container"),
    ("fotografieren", "füttern", "animal"),
    ("einladen", "abholen", "person"),
    ("treffen", "begrüßen", "person"),
    ("fangen", "fressen", "Huhn Hase Maus"),
    ("pflanzen", "gießen", "plant tree"),
    ("lesen", "verstehen", "book"),
    ("besuchen", "fotografieren", "Museum Schloss Kirche"),
)

# Verbs one asks someone to do.
COMMANDS = (
    "aufmachen zumachen anmachen ausmachen öffnen schließen waschen putzen aufräumen lesen geben bringen zeigen warten "
    "helfen kaufen mitbringen mitnehmen abholen anrufen einladen füttern gießen reparieren schreiben beantworten "
    "wiederholen erklären vorlesen erzählen antworten zuhören legen stellen anziehen ausziehen wecken kommen gehen "
    "fahren fragen singen suchen schneiden backen kochen bezahlen spielen"
)

# Verbs that go together in "X …, und Y …" and "X …, während Y …".
THEMES: tuple[str, ...] = (
    "kochen backen essen trinken schneiden frühstücken waschen putzen aufräumen",
    "lesen schreiben lernen zeichnen malen fernsehen schlafen vorlesen arbeiten",
    "spielen singen tanzen lachen weinen schlafen fernsehen",
    "arbeiten putzen aufräumen reparieren bauen gießen pflanzen waschen",
    "warten einkaufen kaufen verkaufen bestellen bezahlen sprechen",
    "helfen danken zuhören antworten fragen begrüßen anrufen wecken",
    "füttern streicheln fotografieren beobachten zeichnen schwimmen",
    "suchen aufräumen anmachen ausmachen öffnen schließen",
    "gehen fahren laufen wandern reisen arbeiten einkaufen",
)

# Nouns that one may call one's own ("mein Arzt"), besides things, pets and family.
RELATED = "family pet goods parcel Chef Kollege Kollegin Lehrer Lehrerin Arzt Ärztin storage room Haus Wohnung Schule"
OUR_PLACES = "Schule Garten Haus Wohnung Dorf Stadt Küche Wohnzimmer Keller Büro Werkstatt"
VEHICLES = {"Insel": "Schiff", "Stadt": "Bus Zug Straßenbahn Taxi", "Strand": "Bus Fahrrad Zug"}
OTHER_VEHICLES = "Bus Zug Straßenbahn Taxi Fahrrad"
ANIMAL_GOALS = "Wald Feld Wiese Garten Fluss Park Straße Haus"
# Fruits that are talked about by the handful.
SMALL_FOODS = "Kirsche Erdbeere Kartoffel Tomate"
WOMEN_WEAR = "Kleid Rock"
