"""Texts by language in which `|` stands where a sentence ends, judged by hand, for the package and for the page."""

SENTENCES = {
    "de": r"""
Das kostet 3 Mio. Euro. | Danke.
Am 3. Okt. 2020 kam er. | Tel. 030 123 456.
Fa. Meyer liefert max. 10 Stück. | Gut so.
Er sah z. B. die 3. Frau. | Nr. 5 blieb! | »Ach?« | Ja
Am 21. 3. 2024. | Zum 100. Mal. | Nr. 12. | Ende der Liste.
Dr. Weber kam um ca. 8 Uhr.  | Er ging d. h. Otto blieb, u. a. Maria, i. d. R. Anna.
Im 19. Jh. n. Chr. war es so. | Heute nicht.
Der Umsatz stieg auf 5 Mrd. Euro. | Das ist viel.
Er verdient 3 Mio. | Das ist viel.
Heinrich VIII. König von England. | Er war dick.
Das ist ein Test. | Der nächste folgt. | Morgen ist Montag.
Das ist ein Test. | Morgen kommt der nächste.
Vgl. Abb. 3 auf S. 5. | Siehe Art. 5 Abs. 2.
Die Datei liegt unter www.a.de/b.html. | Öffnen Sie sie!
Sie kam z.B. Montag, d.h. gestern. | Ich nicht.
Er sagte: „Komm!“ | Sie kam. | „Nein!“, rief er.
„Wann?“, fragte er. | „Jetzt.“ | Und er ging.
Prof. Dr. med. Müller und Dipl.-Ing. Schmidt kamen. | Ende.
Version 1.2.3. | Danach 3.14 und 2.
Er wohnt in der Goethestr. 5. | Das Haus ist groß.
1. Die Katze schläft. | 2. Der Hund bellt.
Ich bin 25. | Die Katze ist 3.
Katzen, Hunde usw. sind Tiere. | Vögel usw. | Auch Fische.
Was?! | Wirklich... | Ja… | Gut.
Er kam (wie immer). | (Sie nicht.) | Schade.
Tel. (030) 123, Tel. +49 30. Fax 5.
Die Fa. Siemens AG & Co. KG, ggf. Bosch. | Nein.
Um 8.30 Uhr. | Um 17 Uhr.
Hr. Meier, Fr. Schulz und Frl. Kunz. | Gut.
Der Hund schläft. | Die Katze ist müde. | Mein Sohn liest gern.
mind. 5, max. Höhe 3 m, min. 2. | Danke!
St. Pauli gewinnt. | Str. 3 ist gesperrt.
Hallo {name. Ja}. | Wie geht's?
Klick <a title="Eins. Zwei">hier. | Jetzt</a>.
Am 21.3. Abfahrt. | Ankunft am 1.4.2024. | Ende.
""",
    "en": r"""
See Fig. 3. | It works.
Apple Inc. Apple Ltd. Foo.
Apple Inc. | The company is big.
sure?Yes. | No.
Go to http://a.b/c?d=E.F now! | OK.
He said "Go!" | Then left. | (Really.) | Yes...
At 5 p.m. | He left. | The U.S. Army came at 6 p.m. Eastern Time.
J. R. R. Tolkien wrote it. | C. S. Lewis too.
I am 25. | She is 30. | World War II. | Germany lost.
Use {0}. | Then %s. | Done. | See file.txt? | Yes.
Mr. and Mrs. Smith vs. Dr. No. | Good.
E.g. this, i.e. that, approx. 5, approx. Five. | Ok then.
The No. 5 bus, vol. 3, pp. 12, p. 4, ch. 2. | End.
Oh no. | Peter fell.
It's OK. | Come in.
That is all. | Peter left.
1. Open it. | 2. Close it.
Version 2.0. | New in 3.1.4: nothing.
Mail a.b@c.de. | Write soon.
Jan. 5 and Sept. 3 were Mondays. | Good.
Smith et al. (2020) agree. | We don't.
She has a Ph.D. | She teaches.
Wait... | What? | Nothing!
Washington, D.C. | It is a city.
The price is $5. | It rose by 3.5%. | Then fell.
St. John's, Mt. Everest and Gen. Lee. | Right?
"Is it?" she asked. | "No."
Yahoo! | Google too.
We sell cats, dogs, etc. | Visit us.
""",
    "fr": r"""
Vraiment ? | Oui ! | « Ah ! » dit-il. | Bon.
« Viens ! » | Il partit. | M. Dupont, av. J.-C., art. 5. | Fin.
""",
    "zh": r"""
你好。|「很好。」|他说。|真的？|是！
""",
    "ja": r"""
これは本です。|そうですか？|はい。
""",
    "hi": r"""
नमस्ते। |कैसे हैं? | ठीक है।
""",
    "ar": r"""
مرحبا. | كيف حالك؟ | بخير.
""",
    "es": r"""
El Sr. García vive aquí. | ¿Dónde? | ¡Allí! | Sí.
""",
    "ru": r"""
Он родился в 1799 г. Он жил на ул. Мира. | Да.
""",
    "und": r"""
Dr. Weber. | Fig. 3 ok. | 3. Mai.
""",
}


def sentence_cases() -> list[tuple[str, list[str]]]:
    """The language and the sentences of each text; a space after `|` only sets it apart."""
    return [
        (language, [part if number == 0 else part.removeprefix(" ") for number, part in enumerate(line.split("|"))])
        for language, lines in SENTENCES.items()
        for line in lines.strip().splitlines()
    ]
