"""The noun tables, one per semantic class.

Each row reads: German singular, gender, German plural, English singular[, irregular English plural].
A dash for the plural marks a mass noun, a dash for the gender a noun used only in the plural.
``m-weak`` marks the n-declension (der Junge, den Jungen); ``n-she`` is das Mädchen, which English calls "she".
"""

NOUN_TABLES: dict[str, str] = {
    "family": """
Vater, m, Väter, father
Mutter, f, Mütter, mother
Bruder, m, Brüder, brother
Schwester, f, Schwestern, sister
Onkel, m, Onkel, uncle
Tante, f, Tanten, aunt
Großvater, m, Großväter, grandfather
Großmutter, f, Großmütter, grandmother
Sohn, m, Söhne, son
Tochter, f, Töchter, daughter
Freund, m, Freunde, friend
Freundin, f, Freundinnen, friend
Nachbar, m-weak, Nachbarn, neighbour
Nachbarin, f, Nachbarinnen, neighbour
Eltern, -, Eltern, parents
Großeltern, -, Großeltern, grandparents
""",
    "folk": """
Mann, m, Männer, man, men
Frau, f, Frauen, woman, women
Gast, m, Gäste, guest
Chef, m, Chefs, boss
Kollege, m-weak, Kollegen, colleague
Kollegin, f, Kolleginnen, colleague
Tourist, m-weak, Touristen, tourist
König, m, Könige, king
Königin, f, Königinnen, queen
""",
    "child": """
Kind, n, Kinder, child, children
Junge, m-weak, Jungen, boy
Mädchen, n-she, Mädchen, girl
Schüler, m, Schüler, pupil
Schülerin, f, Schülerinnen, pupil
""",
    "worker": """
Lehrer, m, Lehrer, teacher
Lehrerin, f, Lehrerinnen, teacher
Arzt, m, Ärzte, doctor
Ärztin, f, Ärztinnen, doctor
Student, m-weak, Studenten, student
Studentin, f, Studentinnen, student
Koch, m, Köche, cook
Bäcker, m, Bäcker, baker
Bauer, m-weak, Bauern, farmer
Verkäufer, m, Verkäufer, salesman, salesmen
Verkäuferin, f, Verkäuferinnen, saleswoman, saleswomen
Polizist, m-weak, Polizisten, police officer
Kellner, m, Kellner, waiter
Kellnerin, f, Kellnerinnen, waitress
Künstler, m, Künstler, artist
Musikerin, f, Musikerinnen, musician
Gärtner, m, Gärtner, gardener
Fahrer, m, Fahrer, driver
Sängerin, f, Sängerinnen, singer
""",
    "pet": """
Hund, m, Hunde, dog
Katze, f, Katzen, cat
Kaninchen, n, Kaninchen, rabbit
Pferd, n, Pferde, horse
Esel, m, Esel, donkey
""",
    "livestock": """
Kuh, f, Kühe, cow
Schaf, n, Schafe, sheep, sheep
Huhn, n, Hühner, chicken
Ente, f, Enten, duck
Schwein, n, Schweine, pig
Ziege, f, Ziegen, goat
Gans, f, Gänse, goose, geese
""",
    "wildlife": """
Maus, f, Mäuse, mouse, mice
Vogel, m, Vögel, bird
Hase, m-weak, Hasen, hare
Fuchs, m, Füchse, fox
Bär, m-weak, Bären, bear
Löwe, m-weak, Löwen, lion
Affe, m-weak, Affen, monkey
Elefant, m-weak, Elefanten, elephant
Wolf, m, Wölfe, wolf, wolves
""",
    "pastry": """
Kuchen, m, Kuchen, cake
Apfelkuchen, m, Apfelkuchen, apple cake
Brötchen, n, Brötchen, roll
Brot, n, -, bread
Pizza, f, Pizzas, pizza
""",
    "dish": """
Suppe, f, Suppen, soup
Kartoffelsuppe, f, Kartoffelsuppen, potato soup
Ei, n, Eier, egg
Kartoffel, f, Kartoffeln, potato, potatoes
Wurst, f, Würste, sausage
Fleisch, n, -, meat
Reis, m, -, rice
""",
    "fruit": """
Apfel, m, Äpfel, apple
Birne, f, Birnen, pear
Banane, f, Bananen, banana
Orange, f, Orangen, orange
Kirsche, f, Kirschen, cherry
Erdbeere, f, Erdbeeren, strawberry
Tomate, f, Tomaten, tomato, tomatoes
""",
    "treat": """
Käse, m, -, cheese
Honig, m, -, honey
Schokolade, f, -, chocolate
Obst, n, -, fruit
Salat, m, Salate, salad
""",
    "drink": """
Wasser, n, -, water
Milch, f, -, milk
Kaffee, m, -, coffee
Tee, m, -, tea
Bier, n, -, beer
Wein, m, -, wine
Apfelsaft, m, -, apple juice
Orangensaft, m, -, orange juice
""",
    "clothing": """
Hut, m, Hüte, hat
Mantel, m, Mäntel, coat
Kleid, n, Kleider, dress
Hemd, n, Hemden, shirt
Rock, m, Röcke, skirt
Jacke, f, Jacken, jacket
Pullover, m, Pullover, sweater
Mütze, f, Mützen, cap
Schal, m, Schals, scarf, scarves
Schuhe, -, Schuhe, shoes
Handschuhe, -, Handschuhe, gloves
""",
    "book": """
Buch, n, Bücher, book
Roman, m, Romane, novel
Gedicht, n, Gedichte, poem
Geschichte, f, Geschichten, story
Märchen, n, Märchen, fairy tale
""",
    "message": """
Brief, m, Briefe, letter
Postkarte, f, Postkarten, postcard
Zeitung, f, Zeitungen, newspaper
Wörterbuch, n, Wörterbücher, dictionary
Kochbuch, n, Kochbücher, cookbook
Tagebuch, n, Tagebücher, diary
""",
    "image": """
Bild, n, Bilder, picture
Foto, n, Fotos, photo
Landkarte, f, Landkarten, map
""",
    "topic": """
Frage, f, Fragen, question
Antwort, f, Antworten, answer
Wort, n, Wörter, word
Problem, n, Probleme, problem
Rätsel, n, Rätsel, riddle
Aufgabe, f, Aufgaben, task
Lied, n, Lieder, song
""",
    "device": """
Lampe, f, Lampen, lamp
Radio, n, Radios, radio
Computer, m, Computer, computer
Fernseher, m, Fernseher, television
Kamera, f, Kameras, camera
Waschmaschine, f, Waschmaschinen, washing machine
Taschenlampe, f, Taschenlampen, flashlight
""",
    "utensil": """
Messer, n, Messer, knife, knives
Löffel, m, Löffel, spoon
Gabel, f, Gabeln, fork
Schlüssel, m, Schlüssel, key
Regenschirm, m, Regenschirme, umbrella
Bleistift, m, Bleistifte, pencil
Uhr, f, Uhren, clock
Ring, m, Ringe, ring
""",
    "crockery": """
Tasse, f, Tassen, cup
Teller, m, Teller, plate
Flasche, f, Flaschen, bottle
Glas, n, Gläser, glass
""",
    "container": """
Korb, m, Körbe, basket
Tasche, f, Taschen, bag
Koffer, m, Koffer, suitcase
Kiste, f, Kisten, box
Rucksack, m, Rucksäcke, backpack
""",
    "parcel": """
Paket, n, Pakete, parcel
Geschenk, n, Geschenke, present
""",
    "furniture": """
Tisch, m, Tische, table
Stuhl, m, Stühle, chair
Bett, n, Betten, bed
Sofa, n, Sofas, sofa
Sessel, m, Sessel, armchair
Schreibtisch, m, Schreibtische, desk
Teppich, m, Teppiche, carpet
""",
    "storage": """
Schrank, m, Schränke, cupboard
Kühlschrank, m, Kühlschränke, refrigerator
Schublade, f, Schubladen, drawer
""",
    "opening": """
Tür, f, Türen, door
Haustür, f, Haustüren, front door
Fenster, n, Fenster, window
Tor, n, Tore, gate
""",
    "plant": """
Blume, f, Blumen, flower
Rose, f, Rosen, rose
Tulpe, f, Tulpen, tulip
Sonnenblume, f, Sonnenblumen, sunflower
""",
    "tree": """
Baum, m, Bäume, tree
Apfelbaum, m, Apfelbäume, apple tree
Kirschbaum, m, Kirschbäume, cherry tree
""",
    "instrument": """
Klavier, n, Klaviere, piano
Gitarre, f, Gitarren, guitar
Geige, f, Geigen, violin
Flöte, f, Flöten, flute
Trompete, f, Trompeten, trumpet
""",
    "toy": """
Ball, m, Bälle, ball
Puppe, f, Puppen, doll
Teddybär, m-weak, Teddybären, teddy bear
""",
    "car": """
Auto, n, Autos, car
Fahrrad, n, Fahrräder, bicycle
Motorrad, n, Motorräder, motorcycle
Boot, n, Boote, boat
""",
    "transport": """
Bus, m, Busse, bus
Zug, m, Züge, train
Straßenbahn, f, Straßenbahnen, tram
Schiff, n, Schiffe, ship
Flugzeug, n, Flugzeuge, plane
Taxi, n, Taxis, taxi
""",
    "house": """
Haus, n, Häuser, house
Schule, f, Schulen, school
Kirche, f, Kirchen, church
Schloss, n, Schlösser, castle
Turm, m, Türme, tower
Hotel, n, Hotels, hotel
Museum, n, Museen, museum
Krankenhaus, n, Krankenhäuser, hospital
Rathaus, n, Rathäuser, town hall
Brücke, f, Brücken, bridge
Wohnung, f, Wohnungen, apartment
""",
    "room": """
Küche, f, Küchen, kitchen
Wohnzimmer, n, Wohnzimmer, living room
Schlafzimmer, n, Schlafzimmer, bedroom
Badezimmer, n, Badezimmer, bathroom
Keller, m, Keller, cellar
Büro, n, Büros, office
Werkstatt, f, Werkstätten, workshop
""",
    "outdoors": """
Garten, m, Gärten, garden
Park, m, Parks, park
Wald, m, Wälder, forest
Wiese, f, Wiesen, meadow
Feld, n, Felder, field
Strand, m, Strände, beach
See, m, Seen, lake
Berg, m, Berge, mountain
Insel, f, Inseln, island
Fluss, m, Flüsse, river
""",
    "town": """
Stadt, f, Städte, city
Dorf, n, Dörfer, village
Markt, m, Märkte, market
Spielplatz, m, Spielplätze, playground
Bauernhof, m, Bauernhöfe, farm
Bahnhof, m, Bahnhöfe, station
Flughafen, m, Flughäfen, airport
Haltestelle, f, Haltestellen, stop
Bibliothek, f, Bibliotheken, library
Universität, f, Universitäten, university
Supermarkt, m, Supermärkte, supermarket
Bäckerei, f, Bäckereien, bakery
Apotheke, f, Apotheken, pharmacy
Restaurant, n, Restaurants, restaurant
Café, n, Cafés, café
Kino, n, Kinos, cinema
Zoo, m, Zoos, zoo
Straße, f, Straßen, street
""",
}

WOMEN = "Anna Julia Laura Sabine Sophie Clara Eva Lena"
MEN = "Peter Paul Martin Daniel Jan Felix Stefan David"

# Names that a verb or adjective row may use for several classes at once.
NOUN_GROUPS: dict[str, str] = {
    "adult": "family folk worker",
    "person": "family folk child worker name",
    "animal": "pet livestock wildlife",
    "being": "person animal",
    "food": "pastry dish fruit treat",
    "text": "book message",
    "vehicle": "car transport",
    "building": "house",
    "landmark": "Bahnhof Museum Hotel Restaurant Krankenhaus Bibliothek Bäckerei",
    "goods": "clothing text device utensil crockery container toy car instrument furniture image",
    "portable": "text utensil crockery container toy parcel image device",
    "place": "house room outdoors town",
}

# Where one is and where one goes: noun, German and English preposition at rest, German and English of motion.
PLACE_TABLE = """
Haus, in, in, in, into
Schule, in, at, in, to
Kirche, in, in, in, to
Schloss, in, in, in, to
Turm, auf, on, auf, up
Hotel, in, in, in, to
Museum, in, in, in, to
Krankenhaus, in, in, in, to
Rathaus, in, in, zu, to
Brücke, auf, on, zu, to
Wohnung, in, in, in, into
Küche, in, in, in, into
Wohnzimmer, in, in, in, into
Schlafzimmer, in, in, in, into
Badezimmer, in, in, in, into
Keller, in, in, in, into
Büro, in, in, in, to
Werkstatt, in, in, in, into
Garten, in, in, in, into
Park, in, in, in, to
Wald, in, in, in, into
Wiese, auf, in, auf, into
Feld, auf, in, auf, into
Strand, an, on, an, to
See, an, at, an, to
Berg, auf, on, auf, up
Insel, auf, on, auf, to
Fluss, an, by, zu, to
Stadt, in, in, in, to
Dorf, in, in, in, to
Markt, auf, at, auf, to
Spielplatz, auf, on, auf, to
Bauernhof, auf, on, auf, to
Bahnhof, an, at, zu, to
Flughafen, an, at, zu, to
Haltestelle, an, at, zu, to
Bibliothek, in, in, in, to
Universität, an, at, zu, to
Supermarkt, in, in, zu, to
Bäckerei, in, in, zu, to
Apotheke, in, in, zu, to
Restaurant, in, in, in, to
Café, in, in, in, to
Kino, in, at, in, to
Zoo, in, at, in, to
Straße, auf, in, auf, into
"""
