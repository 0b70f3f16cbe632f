"""Sentences that occur again, by hand-written pairs; odd characters; and samples of a corpus."""

from pathlib import Path

import pytest

from translate.config.data import TextCorpus
from translate.data.corpora import ParallelCorpus
from translate.data.tokenizer import MAX_CHARACTERS
from translate.lint.corpora import (
    Survey,
    find_everywhere,
    find_leaks,
    find_odd_characters,
    find_repetitions,
    repetition_hashes,
    survey_corpus,
    take_sample,
)
from translate.lint.near_duplicates import near_duplicate_hashes, near_duplicate_key

Text = tuple[list[str], list[str]]
SETTINGS = TextCorpus(kind="text", source=Path("any.de"), target=Path("any.en"))


def survey(sources: list[str], targets: list[str], key: str = "data.any") -> Survey:
    return survey_corpus(key, ParallelCorpus("any", sources, targets, 1.0), SETTINGS)


def repetitions(sources: list[str], targets: list[str]) -> dict[str, list[int]]:
    hashes = repetition_hashes(survey(sources, targets))
    return {kind: numbers.tolist() for kind, numbers in find_repetitions(*hashes).items()}


def everywhere(sources: list[str], targets: list[str]) -> dict[str, list[int]]:
    return {
        kind: numbers.tolist() for kind, numbers in find_everywhere(survey(sources, targets)).items() if len(numbers)
    }


def test_repetition_by_hand() -> None:
    pairs = [
        ("Guten Tag.", "Good day."),  # 0
        ("Hallo!", "Hello!"),
        ("guten  TAG. ", "Good day."),  # 2: the same as 0 but for spaces and case
        ("Guten Tag.", "Hello."),  # 3: the source of 0 with another target
        ("Oslo", "oslo"),  # 4: a copy
        ("", "Nothing"),  # 5
        ("Etwas", " \t"),  # 6
        ("", ""),  # 7
        ("Guten Tag.", "Hello."),  # 8: repeats 3
        ("", "Another"),  # 9: no source is no source twice
        ("", ""),
        ("Hello.", "Guten Tag."),  # 11: 3 the other way round is not a repetition
        ("„Guten Tag!“", "Good day"),  # 12: 0 but for punctuation
        ("17 Hunde", "17 dogs"),
        ("25 Hunde.", "24 dogs"),  # another number is another sentence
        ("25 Hunde.", "25 cats"),  # 15: only the source occurred before
        ("...", "!"),
        ("?!", "-"),  # 17: nothing is left of it that could be compared
    ]
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    assert repetitions(sources, targets) == {"repeated": [2, 8], "near_repeated": [12]}
    assert everywhere(sources, targets) == {"empty": [5, 6, 7, 9, 10], "equal": [4]}


def test_leakage_by_hand() -> None:
    training = [survey(["eins", "zwei"], ["one", "two"]), survey(["drei", "zwei"], ["three", "2"], "data.more")]
    held_out = survey(
        ["vier", "Zwei", "drei ", "eins", "", "zwei", "dos"], ["four", "two", "THREE", "1", "", "zwo", "2"]
    )
    (leak,) = find_leaks(training, [held_out])
    assert (
        "2 of 7 pairs also occur in training; of the others, the source does in 2 and the target in 1 " in leak.message
    )
    assert [example.partition(":")[0] for example in leak.examples] == [
        "line 2 (the pair is line 2 of data.any)",
        "line 3 (the pair is line 1 of data.more)",
        "line 4 (the source is line 1 of data.any)",
    ]


def test_the_embedded_corpus_is_clean(embedded: Text, held_out: Text) -> None:
    assert find_odd_characters(*embedded) == {}
    assert [*find_leaks([survey(*embedded)], [survey(*held_out)])] == []
    assert list(repetitions(*embedded).values()) == [[]] * 2 and everywhere(*embedded) == {}


ODD = {
    "control": ["a\x07b", "a\x9fb", "a\udc80b", "a \ue000 b"],  # half of a surrogate pair, and for private use
    "line_end": ["one\u2028two", "one\rtwo", "one\x85two"],
    "invisible": ["zero\u200bwidth", "\ufeffmark", "soft\u00adhyphen"],
    "mojibake": [
        "What\ufffd",
        *(text.encode().decode("cp1252") for text in ("Straße", "während", "Größe", "„so“", "it’s", "10 €")),
        *(text.encode().decode("latin-1") for text in ("während", "да")),
    ],
    "markup": ["Tom &amp; Jerry", "it&#39;s", "<b>bold</b>", "a<br/>b"],
    "quoted": ['"Ein Mann, der ""rennt"""', '"""Größer"", sagt er"'],
}
USUAL = [
    "Straße, „Spaß“, “quoted”, l’été, São Paulo, MÃE, Ångström, €5, 10 – 20 …",
    "AT&T and R&D; a < b > c; x <3 y",
    '"Ja", sagte sie, "nein" und ""',
    "Мир, Ярославль",
    "a tab\tis a space",
    "no\u00a0break, narrow\u202fno-break",
    "👩‍👩‍👧 family, नमस्ते, می‌خواهم, שלום\u200f, e\u0301",  # joiners and directions belong to their scripts
    "中文。日本語",
    "",
]


def test_odd_characters_are_named_and_others_belong_into_text() -> None:
    for kind, lines in {**ODD, "none": USUAL}.items():
        for line in lines:
            found = find_odd_characters([line, "fine"], ["fine", "fine"])
            assert {name: numbers.tolist() for name, numbers in found.items()} == (
                {} if kind == "none" else {kind: [0]}
            )
    two_kinds = find_odd_characters(["ok", "&lt;\u200b", "\u200b"])
    assert {kind: numbers.tolist() for kind, numbers in two_kinds.items()} == {"invisible": [1, 2], "markup": [1]}


def test_a_sample_is_runs_of_neighbours() -> None:
    lines = [str(number) for number in range(10_000)]
    sample = take_sample(ParallelCorpus("any", lines, lines, 1.0), max_pairs=1500)
    assert sample.sources == sample.targets == [str(number) for number in sample.numbers]
    # Three runs of 500: the first, the last, and one in the middle.
    assert sample.numbers.tolist() == [*range(500), *range(4750, 5250), *range(9500, 10_000)]
    few = ParallelCorpus("any", lines[:1500], lines[:1500], 1.0)
    assert take_sample(few, max_pairs=1500).numbers.tolist() == [*range(1500)]
    long = ParallelCorpus("any", ["x" * MAX_CHARACTERS + "y"], ["z"], 1.0)
    assert take_sample(long, max_pairs=1).sources == ["x" * MAX_CHARACTERS], "the rest is not segmented"


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("Zwei Männer, im Freien!", "zwei männer im freien"),
        ("  zwei \t MÄNNER im\u00a0Freien ", "zwei männer im freien"),
        ("„Zwei“ Ma\u0308nner — im Freien…", "zwei männer im freien"),  # a letter and its dots; general punctuation
        ("Straße", "strasse"),
        ("ﬁne Ｗｉｄｅ", "fine wide"),
        ("12.5 % of 3,000", "0 of 0"),
        ("٣ and 7", "0 and 0"),
        ("zero\u200bwidth\u00ad", "zerowidth"),
        ("two\nlines\rand\x85more", "two lines and more"),
        ("हिन्दी", "हिन्दी"),  # vowel signs are marks, and stay
        ("half a pair \udc80", "half a pair"),
        ("…!? 👍", ""),
        ("", ""),
    ],
)
def test_what_is_left_of_a_line(line: str, key: str) -> None:
    assert near_duplicate_key(line) == key


def test_hashes_of_lines() -> None:
    numbered = (f"line {chr(97 + number % 26)}{number // 26}" for number in range(260))
    lines = ["Number 7.", "number 25", "Numbers 25", "", "!", *numbered]
    hashes = near_duplicate_hashes(line for line in lines)
    assert hashes[0] == hashes[1] != hashes[2]
    assert hashes[3:5].tolist() == [0, 0]
    assert len({*hashes[5:].tolist()}) == 26  # digits do not tell lines apart
    assert len({*near_duplicate_hashes(lines, keep_digits=True).tolist()}) == 3 + 1 + 260  # unless they are kept
    assert near_duplicate_key("٣ and 12.5 %", keep_digits=True) == "3 and 125"
    assert near_duplicate_hashes([]).tolist() == []
