"""Filling XLIFF: what is written where, by the specifications, and that nothing else changes.

The rules of the schemas that could be broken are checked here: the order of children, unique ids, attributes and their
values.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from translate.config.data import Direction, TableCorpus
from translate.data.corpora import read_corpus
from translate.decoding import Translation
from translate.documents.document import DocumentTranslation, translate_documents
from translate.errors import InputError

GERMAN_ENGLISH = Direction("de", "en")
HEAD_1 = '<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">'
FILE_1 = '<file original="a" datatype="plaintext" source-language="de" target-language="en-GB"><body>'
HEAD_2 = '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="de-DE" trgLang="en">'
MADE_1 = 'state="needs-review-translation" state-qualifier="leveraged-mt"'
MADE_2 = 'state="translated" subState="translate:mt"'


def fill(
    text: str, function: Callable[[str], str] = str.upper, direction: Direction | None = GERMAN_ENGLISH, **options: Any
) -> DocumentTranslation:
    def translate(texts: Any) -> list[Translation]:
        return [Translation(text, function(text), [], 0.0, 0.0, False, False) for text in texts]

    return translate_documents([text], "xliff", translate, None, direction, **options)[0]


def old(body: str, head: str = FILE_1) -> str:
    return f"{HEAD_1}{head}{body}</body></file></xliff>\n"


def new(unit: str, head: str = HEAD_2) -> str:
    return f"<?xml version='1.0'?>{head}<file id='f'><unit id='u'>{unit}</unit></file></xliff>"


def unit(content: str, more: str = "") -> str:
    return f'<trans-unit id="u"{more}>{content}</trans-unit>'


S, T = "<source>eins</source>", f"<target {MADE_1}>EINS</target>"
MARKS = '<mrk mtype="seg" mid="1">{}</mrk> <mrk mtype="seg" mid="2">{}</mrk>'
MARKED = f"{S}<seg-source>{MARKS.format('a', 'b')}</seg-source>"
FILLED = [  # XLIFF 1.2
    (
        "<source>a &lt;b&gt;c&lt;/b&gt;<![CDATA[<br>]]>d</source><target/>",
        "<source>a &lt;b&gt;c&lt;/b&gt;<![CDATA[<br>]]>d</source>"
        f"<target {MADE_1}>A &lt;b&gt;C&lt;/b&gt;&lt;br&gt; D</target>",
    ),
    (S, S + T),
    (f"\r\n    {S}\r\n    <note>n</note>", f"\r\n    {S}\r\n    {T}\r\n    <note>n</note>"),
    (f"{S}<target/>", S + T),
    (f"{S}<target state = 'new' xml:lang='en' >one</target >", f"{S}<target xml:lang='en'  {MADE_1}>EINS</target>"),
    (f'{S}<target state="needs-translation"> </target>', S + T),
    (f"{S}<!-- c --><note>a</note>", f"{S}{T}<!-- c --><note>a</note>"),
    (
        f"{S}<alt-trans><source>a</source><target>b</target></alt-trans>",
        f"{S}{T}<alt-trans><source>a</source><target>b</target></alt-trans>",
    ),
    (
        '<source xml:space="preserve"> a <![CDATA[<5> & ]]>&amp;&#x20;c<!-- d --><?e f?>&lt;\n</source>',
        '<source xml:space="preserve"> a <![CDATA[<5> & ]]>&amp;&#x20;c<!-- d --><?e f?>&lt;\n</source>'
        f'<target xml:space="preserve" {MADE_1}> A &lt;5&gt; &amp; &amp; C&lt;\n</target>',
    ),
    (
        '<source>Ein <g id="1"><x id="2"/>Hund</g> <bpt id="3">[b]</bpt>da<ept id="3">[/b]</ept>.</source>',
        '<source>Ein <g id="1"><x id="2"/>Hund</g> <bpt id="3">[b]</bpt>da<ept id="3">[/b]</ept>.</source>'
        f'<target {MADE_1}>EIN <g id="1"><x id="2"/>HUND</g> <bpt id="3">[b]</bpt>DA<ept id="3">[/b]</ept>.</target>',
    ),
    (
        '<source>Von <x id="I" equiv-text="{{name}}"/> <mrk mtype="protected">Acme</mrk> da</source>',
        '<source>Von <x id="I" equiv-text="{{name}}"/> <mrk mtype="protected">Acme</mrk> da</source>'
        f'<target {MADE_1}>VON <x id="I" equiv-text="{{{{name}}}}"/> <mrk mtype="protected">Acme</mrk> DA</target>',
    ),
    (
        '<source>a. b</source><seg-source><mrk mtype="seg" mid="1">a.</mrk>\n'
        '<mrk mtype="seg" mid="2">b</mrk></seg-source>',
        '<source>a. b</source><seg-source><mrk mtype="seg" mid="1">a.</mrk>\n'
        '<mrk mtype="seg" mid="2">b</mrk></seg-source>'
        f'<target {MADE_1}><mrk mtype="seg" mid="1">A.</mrk>\n<mrk mtype="seg" mid="2">B</mrk></target>',
    ),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), FILLED)
def test_targets_of_version_1(before: str, after: str) -> None:
    translation = fill(old(unit(before)))
    assert translation.text == old(unit(after)) and not translation.problems
    assert translation.entries == {"filled": 1}
    assert fill(translation.text).text == translation.text  # nothing is left to fill


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"<segment>{S}</segment>", f"<segment {MADE_2}>{S}<target>EINS</target></segment>"),
        (
            f'<segment id="s" state="initial">\n {S}\n <target></target></segment>',
            f'<segment id="s" {MADE_2}>\n {S}\n <target>EINS</target></segment>',
        ),
        (
            f"<ignorable>{S}</ignorable><segment><source>a <cp hex='001B'/>b <sc id='1'/>c<ec startRef='1'/>"
            "</source></segment>",
            f"<ignorable>{S}</ignorable><segment {MADE_2}><source>a <cp hex='001B'/>b <sc id='1'/>c<ec startRef='1'/>"
            "</source><target>A <cp hex='001B'/>B <sc id='1'/>C<ec startRef='1'/></target></segment>",
        ),
        (
            "<originalData><data id='d'>%s</data></originalData><segment><source>a <ph id='1' dataRef='d'/> "
            "<pc id='2'>b</pc> <mrk id='3' translate='no'>c</mrk></source></segment>",
            f"<originalData><data id='d'>%s</data></originalData><segment {MADE_2}><source>a <ph id='1' dataRef='d'/> "
            "<pc id='2'>b</pc> <mrk id='3' translate='no'>c</mrk></source><target>A <ph id='1' dataRef='d'/> "
            "<pc id='2'>B</pc> <mrk id='3' translate='no'>c</mrk></target></segment>",
        ),
    ],
)  # fmt: skip
def test_targets_of_version_2(before: str, after: str) -> None:
    translation = fill(new(before))
    assert translation.text == new(after) and not translation.problems
    assert fill(translation.text).text == translation.text


@pytest.mark.parametrize(
    ("content", "name", "is_made_again"),
    [
        (unit(f"{S}<target>one</target>"), "translated", False),
        (unit(f'{S}<target state="final">one</target>'), "translated", False),
        (unit(f'{S}<target {MADE_1}>one</target>'), "unreviewed", True),
        (unit(f'{S}<target state="needs-review-translation">one</target>'), "unreviewed", True),
        (unit(f'{S}<target state-qualifier="fuzzy-match">one</target>'), "unreviewed", True),
        (unit(f"{S}<target {MADE_1}>one</target>", ' approved="yes"'), "translated", False),
        (unit(f"{S}<target>one</target>", ' approved="no"'), "unapproved", False),
        (unit(S, ' approved="yes"'), "untranslatable", False),
        (unit(S, ' translate="no"'), "untranslatable", False),
        (f'<group translate="no">{unit(S)}</group>', "untranslatable", False),
        (unit(f"{MARKED}<target>{MARKS.format('', 'Be')}</target>"), "partly translated", False),
        (
            unit(f"{MARKED}<target><mrk mtype='seg' mid='1'>Ah</mrk></target>"),
            "partly translated",
            False,
        ),
        (f"<segment state='translated'>{S}<target>one</target></segment>", "translated", False),
        (f"<segment {MADE_2}>{S}<target>one</target></segment>", "unreviewed", True),
        (f"<segment state='final' subState='x:y'>{S}<target>one</target></segment>", "translated", False),
    ],
)  # fmt: skip
def test_what_has_a_translation_stays(content: str, name: str, is_made_again: bool) -> None:
    """And `again` makes what no person has reviewed again."""
    text = new(content) if "<segment" in content else old(content)
    translation = fill(text)
    assert translation.text == text and translation.entries == {"filled": 0, name: 1}
    again = fill(text, again=True).text
    mark = f" {MADE_1}" if "<trans-unit" in text else ""
    assert again == (re.sub("<target[^>]*>one<", f"<target{mark}>EINS<", text) if is_made_again else text)


@pytest.mark.parametrize(
    ("source", "made", "target"),
    [
        ("_Ordner öffnen…", "Open folder.", "_Open folder…"),
        ("&amp;Datei:", "File", "&amp;File:"),
        ("Datei", "File.", "File"),
        ("R&amp;D", "R&D", "R&amp;D"),
    ],
)
def test_accelerators_and_ends_follow_the_source(source: str, made: str, target: str) -> None:
    text = fill(old(unit(f"<source>{source}</source>")), lambda text: made).text
    assert f">{target}</target>" in text


@pytest.mark.parametrize(
    ("source", "made", "reason"),
    [
        ("Hallo {name}", "Hello {name} {name}", "placeholders"),
        ('Hallo <x id="1"/>, &amp;Welt', "Hello", ""),  # its place follows, and text with elements keeps its signs
        ("eins", "", "words"),
        ("_Öffnen", "…", "words"),
        ("_Öffnen", "a_b_c", "accelerator"),
        ("a &lt;b&gt;c&lt;/b&gt;", "…", "words"),
    ],
)
def test_what_is_not_valid_is_not_filled(source: str, made: str, reason: str) -> None:
    text = old(f"\n{unit(f'<source>{source}</source>')}")
    translation = fill(text, lambda text: made)
    assert translation.entries == ({"filled": 0, "untranslated": 1} if reason else {"filled": 1})
    assert [problem.startswith("line 2: ") and reason in problem for problem in translation.problems] == [True] * bool(
        reason
    )


@pytest.mark.parametrize(
    ("source", "read"),
    [
        ("Hallo<x id='1'/>Welt", "Hallo Welt"),
        ("Hallo <x id='1'/>Welt<x id='2'/>!", "Hallo Welt!"),
        ("(<x id='1'/>a)<x id='2'/><x id='3'/>b", "(a) b"),
        ("a<bpt id='1'/>b<ept id='1'/>", "ab"),
        ("<g id='1'>a<x id='2'/></g>b <g id='3'><x id='4'/>c</g>", "a b c"),
    ],
)
def test_the_model_reads_what_it_learnt(tmp_path: Path, source: str, read: str) -> None:
    """A code between words separates them, here as in corpora."""
    asked = list[str]()
    text = old(unit(f"<source>{source}</source>"))
    fill(text, lambda text: asked.append(text) or text)
    path = tmp_path / "a.xlf"
    path.write_text(text.replace("</source>", "</source><target>x</target>"))
    corpus = TableCorpus(kind="xliff", path=path, source_column="de", target_column="en")
    assert asked == [read] == read_corpus(corpus, key="data")[1]


def test_an_empty_translation_fills_nothing() -> None:
    text = old(unit(S))
    translation = fill(text, lambda text: "")
    assert translation.text == text and translation.entries == {"filled": 0, "untranslated": 1}
    assert translation.conditions["empty"] == 1


def test_what_xml_cannot_contain_is_never_written() -> None:
    made = "a\0b\x1b \ud800 <&> \ufffe"
    text = fill(old(unit(S)), lambda text: made).text
    assert ElementTree.fromstring(text)[0][0][0][1].text == "a\ufffdb\ufffd \ufffd <&> \ufffd"


def test_languages() -> None:
    """What a file does not name is added, and another direction is refused with both directions."""
    missing = FILE_1.replace(' target-language="en-GB"', "")
    text = fill(old(unit(S) * 2, missing)).text
    assert text == old(unit(S + T) * 2, missing.replace(">", ' target-language="en">', 1))
    assert ' srcLang="de" trgLang="pt-BR">' in fill(
        new(f"<segment>{S}</segment>", '<xliff version="2.0" srcLang="de">'), direction=Direction("de", "pt_BR")
    ).text  # fmt: skip
    for text in (old(unit(S)), new(f"<segment>{S}</segment>")):
        with pytest.raises(InputError, match=r"de(-DE)?-en(-GB)?, and the model en-de"):
            fill(text, direction=Direction("en", "de"))
        assert fill(text, direction=None).entries == {"filled": 1}
    other = FILE_1.replace("en-GB", "fr")
    both = f"{HEAD_1}{FILE_1}{unit(S)}</body></file>{other}{unit(S)}</body></file></xliff>"
    assert fill(both).text == both.replace(S, S + T, 1)
    assert fill(both).entries == {"filled": 1, "in other languages": 1}


def test_prefixes_are_those_of_the_source() -> None:
    text = (
        '<x:xliff xmlns:x="urn:oasis:names:tc:xliff:document:1.2" version="1.2"><x:file source-language="de"'
        ' target-language="en"><x:body><x:trans-unit id="a"><x:source>a <x:g id="1">b</x:g></x:source></x:trans-unit>'
        "</x:body></x:file></x:xliff>"
    )
    target = f'<x:target {MADE_1}>A <x:g id="1">B</x:g></x:target>'
    assert fill(text).text == text.replace("</x:source>", f"</x:source>{target}")


DEEP = 20_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no element found"),
        ("nope", "syntax error"),
        ("<html/>", "<html>"),
        (old(unit(S))[:-10], "line 2|line 1"),
        (old("<a>"), "mismatched tag: line 1"),
        (old(unit("<source>&nbsp;</source>")), "undefined entity"),
        (f"<!DOCTYPE a [<!ENTITY b 'c'>]>{old(unit('<source>&b;</source>'))}", "remove <!DOCTYPE"),
        (f'<?xml version="1.0" encoding="UTF-16"?>{old(unit(S))}', "line 1: encoding='UTF-16'"),
        (f"<?xml version='1.0' encoding='latin1'?>{old(unit(S))}", "line 1: encoding='latin1'"),
        (old(unit(f"<source>{'<g>' * DEEP}a{'</g>' * DEEP}</source>")), "RecursionError"),
        ("\0", "XLIFF"),
        ("<a>\ud800</a>", "XLIFF"),
    ],
)
def test_bad_files_are_refused_quickly(text: str, message: str) -> None:
    started = time.process_time()
    with pytest.raises(InputError, match=message):
        fill(text)
    assert time.process_time() - started < 5.0


@pytest.mark.parametrize(
    "text",
    [
        old(f"{'<group>' * DEEP}{unit(S)}{'</group>' * DEEP}"),
        old(unit(S, f' x="{"y>" * 2_000_000}"')),
        old(unit(S, f' {"y" * 10_000_000}=""')),
        old(unit(S) * 2000, FILE_1.replace(' target-language="en-GB"', f' x="{"y" * 1_000_000}"')),
        old(unit(f"<source>{'<g>' * 40}a b{'</g>' * 40}</source>")),
        old(unit(f"<source>{'a <x/> ' * 5000}</source>")),
    ],
)
def test_the_time_is_linear(text: str) -> None:
    started = time.process_time()
    translation = fill(text)
    assert translation.entries["filled"] and not translation.problems
    assert time.process_time() - started < 8.0


WORDS = st.sampled_from(
    ["Ein Hund", "läuft. ", "&amp;", "&lt;b&gt;", "%s", "{0}", " ", "\n  ", "a", "<![CDATA[<x> ]]>", "<!-- c -->"]
)
POINTS = st.sampled_from(
    ['<x id="#"/>', '<x id="#" equiv-text="{n}"/>', '<ph id="#">%d</ph>', '<it id="#" pos="open">i</it>']
    + ['<mrk mtype="protected">P</mrk>', '<bx id="#" rid="r"/>', '<ex id="#" rid="r"/>']
)
PAIRS = ('<g id="#">{}</g>', '<bpt id="#">b</bpt>{}<ept id="#">b</ept>', '<mrk mtype="term">{}</mrk>')
NEW_POINTS = st.sampled_from(
    ['<ph id="#"/>', '<ph id="#" equiv="{n}"/>', '<ph id="#" dataRef="d"/>', '<cp hex="001B"/>']
    + ['<mrk id="#" translate="no">P</mrk>', '<sc id="#"/>', '<ec id="#" isolated="yes"/>', '<sm id="#"/>']
)
NEW_PAIRS = ('<pc id="#">{}</pc>', '<sc id="s"/>{}<ec startRef="s"/>', '<mrk id="#" type="term">{}</mrk>')


def inside(points: st.SearchStrategy[str], pairs: Sequence[str]) -> st.SearchStrategy[str]:
    """The content of a source: text and points, within pairs within pairs."""
    return st.recursive(
        st.lists(WORDS | points, max_size=5).map("".join),
        lambda inner: st.lists(inner | st.one_of([inner.map(pair.format) for pair in pairs]), max_size=3).map("".join),
        max_leaves=8,
    )


MARKS_1 = ("", ' state="new"', f" {MADE_1}")  # of a target
MARKS_2 = ("", ' state="initial"', f" {MADE_2}")  # of a segment
TARGETS = st.sampled_from(["", "<target{}/>", "<target{}>x</target>", "<target{}> </target>"])
MORE = st.sampled_from(["", ' translate="no"', ' canResegment="no"', ' approved="yes"'])
SPACES = st.sampled_from(["", "\n  ", "\r\n\t"])
VERSIONS = {
    "1.2": st.tuples(inside(POINTS, PAIRS), TARGETS, st.sampled_from(MARKS_1), MORE, SPACES),
    "2.0": st.tuples(inside(NEW_POINTS, NEW_PAIRS), TARGETS, st.sampled_from(MARKS_2), MORE, SPACES),
}
VERSIONS["2.1"] = VERSIONS["2.0"]
FUNCTIONS = st.sampled_from(
    [str, str.upper, lambda text: " ".join(reversed(text.split())), lambda text: "", lambda text: "x <&>"]
)


def numbered(text: str) -> str:
    numbers = iter(range(1, 10_000))
    return re.sub("#", lambda _: str(next(numbers)), text)


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=100, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.data(), st.booleans(), FUNCTIONS)
def test_nothing_but_targets_and_their_marks_changes(
    version: str, data: st.DataObject, again: bool, function: Callable[[str], str]
) -> None:
    is_old, units = version == "1.2", list[str]()
    parts = data.draw(st.lists(VERSIONS[version], max_size=4))
    for source, target, mark, more, space in parts:
        content = f"{space}<source>{numbered(source)}</source>{space * bool(target)}{target.format(mark * is_old)}"
        segment = f"<originalData><data id='d'>%s</data></originalData><segment{mark}>{content}</segment>"
        units.append(unit(f"{content}<note>t</note>", more) if is_old else f'<unit id="u"{more}>{segment}</unit>')
    head = HEAD_1 + FILE_1 if is_old else HEAD_2.replace('"2.0"', f'"{version}"') + '<file id="f">'
    text = f"\ufeff{head}{chr(10).join(units)}{'</body>' * is_old}</file></xliff>"
    found = fill(text, function, again=again)
    filled = re.findall("<(?:trans-)?unit .*?</(?:trans-)?unit>", found.text, re.DOTALL)
    without = re.compile(r"\s*<target[^>]*/>|\s*<target.*?</target>|(?<=<segment)[^>]*", re.DOTALL)
    assert without.sub("", found.text) == without.sub("", text)
    assert found.entries.get("filled", 0) == sum(one != other for one, other in zip(units, filled, strict=True))
    for (_, target, mark, more, _), before, after in zip(parts, units, filled, strict=True):
        is_made = ">x<" in target and (mark == "" or (mark in (MARKS_1[2], MARKS_2[2]) and not again))
        is_closed = "translate" in more or ("approved" in more and is_old) or is_made
        assert before == after or not is_closed
        (element,) = ElementTree.fromstring(f"<a>{after}</a>")
        if before != after:
            marked, marks = (element.find("target"), MADE_1) if is_old else (element.find("segment"), MADE_2)
            assert marked is not None and marked.attrib == dict(re.findall('(\\S+)="(.*?)"', marks))
            sides = [next(element.iter(name)) for name in ("source", "target")]
            codes = [Counter((each.tag, each.get("id")) for each in list(side.iter())[1:]) for side in sides]
            assert codes[0] == codes[1]
            if function is str:
                assert "".join(sides[1].itertext()).split() == "".join(sides[0].itertext()).split()
