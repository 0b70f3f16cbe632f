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
das ist gut. | das auch, usw. und so z.b. die katze. | er kam am 3. mai... aber nicht allein. | nein!
Die Datei a.txt. usw. und so fort.
Merken Sie sich Ihre PIN. | Geben Sie sie ein. | Das ist Max. | Anna mag ihn. | Jan. 5 kam Max. 3 Stück.
Starten Sie den PC. | Klicken Sie auf OK. | Das ist Ben. | Peter mag die App. | Die LED. | Aus.
Vitamin C. | Es hilft. | J.-P. Sartre, K.-H. Rummenigge. | Wenn z. B. Sie kommen, d. h. Das Boot.
Art.-Nr. 5, Tel.-Nr. 5, Artikel-Nr. 5 und Op. 5. | Typ-C. | Peter hat USB-C. | Gut.
Kap. IV und Bd. X gut. | 5 Tsd. Euro, 3 Stk. Schrauben, Rn. 5, Rdnr. 5, bspw. Katzen, Mag. Huber. | Ja.
Er hat 10.000. | Peter hat 3. | Klicken Sie. | Zum 3. Mal. | Ich mag. | Anna nicht.
Es dauert 5 Min. Fußweg, max. Höhe 3. | Es dauert 5 Min. | Geben Sie acht.
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
We sell cats, dogs, etc. | Visit us. | Dogs, etc. | 3 shops.
it rains. | see file.txt? | yes! | i.e. cats, dogs, etc. and birds. | wait... what? | no, dr. weber.
Restart your PC. | Click OK. | One more rep. | Anna rests. | Ask Rep. Smith, Col. Mustard and Ed. | Right?
Vitamin C. | It helps. | So am I. | He left. | J. Weber and W. E. B. Du Bois stay.
He said no. | I left. | In Oct. 5, Apr. 3, vol. II, figs. 3, refs. 3, ext. 5, apt. 5, ed. 3.
Hon. Smith, Ft. Worth, Pres. Lincoln, Adm. Nelson, Fifth Ave. Hotel, Sunset Blvd. Hotel. | Yes.
**One.** | Two. | _Three._ | _Four!_ | <b>One.</b> | <i>Two.</i> | End.[1] | Next.[2][13] | Last.
<b>Dr.</b> <i>Weber</i> came. | <b>Cats etc.</b> <i>and dogs.</i>
Hello . . . | Peter . . . went on . . . and on. | It is .NET. | I like .NET. | .NET is good.
Hello . . .
""",
    "fr": r"""
Vraiment ? | Oui ! | « Ah ! » dit-il. | Bon.
« Viens ! » | Il partit. | M. Dupont, av. J.-C., art. 5. | Fin.
Mme. Curie, Mlle. Dupont, Ste. Anne. | Quoi ? ! | Non.
""",
    "zh": r"""
你好。|「很好。」|他说。|真的？|是！
《你好。》|〈好。〉|【好。】|〔好。〕|好。|**好**。
你好!|我很好?|是……|好?!|「好!」|好a!b。|<b>好。</b>|好
""",
    "ja": r"""
これは本です。|そうですか？|はい。
これは本です!|そうですか?|はい
""",
    "hi": r"""
नमस्ते। |कैसे हैं? | ठीक है।
डॉ. शर्मा आए। |रु. पाँच।
""",
    "ar": r"""
مرحبا. | كيف حالك؟ | بخير.
""",
    "es": r"""
El Sr. García vive aquí. | ¿Dónde? | ¡Allí! | Sí.
Los EE. UU. ganaron. | Ud. Sabe, Uds. Saben, pág. 5, núm. 5. | La col. | Está en la lista. | Fin.
""",
    "ru": r"""
Он родился в 1799 г. Он жил на ул. Мира. | Да.
""",
    "nl": r"""
Bijv. Anna, blz. 5. | Ja.
""",
    "cs": r"""
Např. Praha. | Ano.
""",
    "pl": r"""
Np. Kraków. | Tak.
""",
    "ka": r"""
გამარჯობა. | როგორ ხარ? | A კარგად.
""",
    "my": r"""
မင်္ဂလာပါ။ |နေကောင်းလား။ |ဟုတ်ကဲ့။
""",
    "km": r"""
សួស្តី។ |អរគុណ។ |បាទ
""",
    "bo": r"""
བཀྲ་ཤིས། །|བདེ་ལེགས། |ཡིན།
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
