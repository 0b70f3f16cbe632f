"""Placeholders of texts, by hand; which texts have the same ones; and linear time, whatever a text contains."""

import time

import pytest

from translate.placeholders import find_placeholders, have_same_placeholders

TEXTS = {  # text: its placeholders, separated by spaces
    "%s of %d files, %-10.2f %lu %zd %@ %ls %02d:%02d": "%s %d %-10.2f %lu %zd %@ %ls %02d %02d",
    "%1$d of %2$s in %1$dms": "%1$d %2$s %1$d",
    "%dx%d pixels, %s's, %d%%, 100%%": "%d %d %s %d %% %%",
    "Page 5 %d, 7%s": "%d %s",
    "%(name)s has %(count)d items (%(share).1f%%)": "%(name)s %(count)d %(share).1f %%",
    "{} {0} {name} {name!r:>10} {a.b[0]} %{count} ${var} $var $(var) {{user}}": (
        "{} {0} {name} {name!r:>10} {a.b[0]} %{count} ${var} $var $(var) {{user}}"
    ),
    "{date, number, #.##}{0,date}": "{date, number, #.##} {0,date}".replace(", ", ",_"),
    "%1 of %L2, %n files, %1%2, %1. %1m %1x%2 %Ln": "%1 %L2 %n %1 %2 %1 %1 %1 %2 %Ln",
    "%1s, %1d and %1.1f MB": "%1s %1d %1.1f",
    "%dpx %ipx %iKiB %.2fkm %sfoo %I64d %3$*1$d %*d %%": "%d %i %i %.2f %s %I64d %3$*1$d %*d %%",
    "%<name>s %<cost>.2f $t(key) $t(a.b, x) $USER_NAME$ $HOME": (
        "%<name>s %<cost>.2f $t(key) $t(a.b,_x) $USER_NAME$ $HOME"
    ),
    "%<PRIuMAX> of %6<PRIu32>px, %gs, %us": "%<PRIuMAX> %6<PRIu32> %g %u",
    "%A, %e. %B %Y, %H:%M": "%A %e %B %Y %H %M",
    "%APPDATA%, %s%%": "%APPDATA% %s %%",
    "%minutes% minute|%maxCount% or %sFoo%s, %llu% 50%ige%": "%minutes% %maxCount% %s %s %llu",  # of Symfony
    '<b>Bold</b><br/><br /><a href="x > y">a</a>': '<b> </b> <br/> <br_/> <a_href="x_>_y"> </a>',
    "<p>Paragraph <filename>%1</filename>&nbsp;&#8230;&#x2026;": (
        "<p> <filename> %1 </filename> &nbsp; &#8230; &#x2026;"
    ),
    "See https://example.org/a?b=%20c&d=1, www.example.org. Or (http://x.org/y).": (
        "https://example.org/a?b=%20c&d=1 www.example.org http://x.org/y"
    ),
    "https://x.org/a_(b)/{id}?q={{x}}#a-~b%20. (See www.x.org/ä.)": (
        "https://x.org/a_(b)/{id}?q={{x}}#a-~b%20 www.x.org/ä"
    ),
    "&lt;https://x.org/&gt; {n, plural, one {https://x.org}}": (
        "&lt; https://x.org/ &gt; {n,_plural, one_{ https://x.org } }"
    ),
    "Ask me@example.org! (mailto:jörg@müller.de).": "me@example.org jörg@müller.de",
    "<b>%s, <p><tt>%1, <file>, </file-name>, <x>": "<b> %s <p> <tt> %1",
    "Great 😀👍🏽 👩‍👩‍👧 🇩🇪🇫🇷 ❤️ ☺ 1️⃣ 🏴󠁧󠁢󠁥󠁮󠁧󠁿": "😀 👍🏽 👩‍👩‍👧 🇩🇪 🇫🇷 ❤️ ☺ 1️⃣ 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "{count, plural, =0 {none} one {# file} other {{name} has # files}} %s": (
        "{count,_plural, =0_{ } one_{ # } other_{ {name} # } } %s"
    ),
    "{who, select, male {He} other {{n,plural,one{a}other{b}}}}.": (
        "{who,_select, male_{ } other_{ {n,plural, one{ } other{ } } } }"
    ),
}
PROSE = [
    "5 % der Wähler, 5 % sind, 100% sure, 50%ige Lösung, 10 %-ige, 5 %, 3,5\N{NO-BREAK SPACE}% davon, (%), in %",
    "$5, 5$, US$ 20, a $ b",
    "10 %-ige, %-ige, die %igen, %usage, %fix, 3 %ig",
    "❝Hi❞ ➔ ✔ ✓ ✗ ★ ☐ ☑ ♪ ⚠ ❶ ✉ 🡒 🙶 🞄",
    "https://, www. and https://…",
    "a < b > c, x<y, 3 <4> 5, <none>, <click here>, <3",
    "{ alone, } and {, {see the note below}",
    "© 2024 Example™ ®, 1 2 #3 *4, → …, AT&T, Q&A; R &amp; D",
    "Mail @ home, a@b, 5@6",
    "one {file} other {files}".replace("{", "(").replace("}", ")"),
]


@pytest.mark.parametrize("text", TEXTS)
def test_placeholders(text: str) -> None:
    assert [found.replace(" ", "_") for found in find_placeholders(text)] == TEXTS[text].split()


@pytest.mark.parametrize("text", PROSE)
def test_prose_has_no_placeholders(text: str) -> None:
    assert find_placeholders(text) == []


@pytest.mark.parametrize(
    ("source", "target", "is_same"),
    [
        ("%s in %d", "%d, %s", False),
        ("%s in %d", "%2$d, %1$s", True),
        ("%2$d, %1$s", "%s in %d", True),
        ("%s and %s", "%s", False),
        ("%s", "%d", False),
        ("%1 in %2", "%2: %1", True),
        ("{a} {b}", "{b} {a}", True),
        ("%H:%M on %A, %B %Y", "%A, %B %Y, %H:%M", True),
        ("<b>%s</b><br/>", "<br /><b>%s</b>", True),
        ("<b>%s</b>", "<b></b %s>", False),
        ("Yes \u2764\ufe0f", "\u2764 Ja", True),
        ("Yes \U0001f44d\U0001f3fd", "Ja \U0001f44d", False),
        ("{n, plural, one {# file} other {# files}}", "{n, plural, one{# Datei} other {# Dateien}}", True),
        ("{n, plural, one {# file} other {# files}}", "{n, plural, one {# Datei} andere {# Dateien}}", False),
        ("{n, plural, one {# file} other {# files}}", "{n, plural, one {# Datei} other {# Dateien}", False),
        ("no placeholder", "keiner", True),
        ("Visit “https://x.org”.", "Siehe »https://x.org«.", True),
        ("Visit https://x.org.", "请访问https://x.org。", True),
        ("Go to https://x.org for help.", "ヘルプはhttps://x.orgをご覧ください。", True),
        ("See https://x.org…", "Siehe https://x.org …", True),
        ("Mail a@b.org", "メールはa@b.orgへ", True),
        ("https://x.org/", "https://x.org", True),
        ("https://x.org/a", "https://x.org/b", False),
        ("%1.1f MB", "%1,1f MB", False),
        ("%1s", "%1 s", False),
        ("<b>%s", "%s", False),
        ("A <file> B", "A </file>", True),
        ("<file>%s</file>", "<file>%s", False),
        ("❝Hi❞", "„Hi“", True),
        ("A ➔ B", "A → B", True),
        ("✔ yes", "✓ ja", True),
        ("✔\ufe0f yes", "ja", False),
        ("100 %", "100 %s", False),
    ],
)
def test_texts_with_the_same_placeholders(source: str, target: str, is_same: bool) -> None:
    assert have_same_placeholders(source, target) == is_same


STARTS = ["", "{a,plural,", "{a,plural,one{", "<a ", "a@"]
UNITS = (
    ["%", "%0", "%1$", "%-", "%(a", "%A", "5 %", "{", "{a", "{ ", "{a,", "}", "$a", "${", "$(", "<", "<a ", "<a b="]
    + [
        '<a b="',
        "<a>",
        "</a",
        "&",
        "&a",
        "&#1",
        "a@",
        "a.",
        "@a.",
        "a-",
        "http://",
        "www.",
        "www",
        "\U0001f1e9",
        "\u200d",
    ]
    + ["http://(", "www.{", "http://a(b", "http://a.", "$A", "$t(", "%<a", "%1.", "a@b.", "<a  "]
    + ["1\ufe0f", "\U0001f600\u200d", "{a,plural,", "{a,plural,b{", "{a,plural,b{}", "{a,plural,b", "#", " ", "\n", "a"]
)


@pytest.mark.parametrize("unit", UNITS)
def test_time_is_linear(unit: str) -> None:
    """A quadratic search of 20,000 characters takes about a second, a linear one about 10 ms."""
    for start in STARTS:
        begin = time.process_time()
        find_placeholders((start + unit * 20_000)[:20_000])
        assert time.process_time() - begin < 0.4, start
