"""Texts that were probably not meant to be scored are told, and others are not."""

import pytest
from harness import corpus_lines

from translate.evaluation.mistakes import find_mistakes
from translate.trigrams import choose_bleu_tokenizer

GERMAN, ENGLISH = corpus_lines("train.de")[:800], corpus_lines("train.en")[:800]
GOOD = [line.replace("the", "a", 1) for line in ENGLISH]


def test_what_is_meant_is_not_told() -> None:
    assert [*find_mistakes({"a": GOOD}, ENGLISH, GERMAN)] == []
    assert [*find_mistakes({"a": GOOD, "b": [line.upper() for line in GOOD]}, ENGLISH)] == []
    assert [*find_mistakes({"a": ENGLISH}, ENGLISH, GERMAN, translated_here=["a"])] == []  # a toy model is perfect
    assert [*find_mistakes({"a": ENGLISH[:5]}, ENGLISH[:5], ENGLISH[:5])] == []
    assert [*find_mistakes({"a": ["a man is a man"] * 800}, ENGLISH, GERMAN)] == []  # a new model
    words = sorted({word for line in GERMAN for word in line.split()})
    weak = [f"Der Onkel schläft, weil der Onkel schläft, weil {words[line % len(words)]}." for line in range(800)]
    assert [*find_mistakes({"a": weak}, GERMAN, ENGLISH)] == []
    unspaced = [[line.replace(" ", "") for line in lines] for lines in (weak, GERMAN)]
    assert [*find_mistakes({"a": unspaced[0]}, unspaced[1], bleu_tokenizer="char")] == []


def test_equal_texts() -> None:
    (told,) = find_mistakes({"a": ENGLISH[:-1] + ["other"]}, ENGLISH, GERMAN)
    assert told == "799 of 800 lines of a are equal to those of the references: is one text given twice?"
    (told,) = find_mistakes({"a": GOOD, "b": GOOD}, ENGLISH)
    assert told == "800 of 800 lines of a are equal to those of b: is one text given twice?"
    told, *_ = find_mistakes({"a": GERMAN[:500] + GOOD[500:]}, ENGLISH, GERMAN)
    assert told == "500 of 800 lines of a are equal to those of the sources: are they translated?"
    assert any(
        "the references are equal to those of the sources" in each
        for each in find_mistakes({"a": GOOD}, GERMAN, GERMAN)
    )


@pytest.mark.parametrize(
    ("language", "line", "tokenizer"),
    [
        ("zh_TW", "我今天去上學。", "zh"),
        ("cmn", "我用 Python 写程序。", "zh"),
        ("yue_Hant", "我哋去學校。", "zh"),
        ("zho_Hans", "你好", "zh"),
        ("ja", "私は学生です。", "char"),
        ("th", "ฉันไป โรงเรียน", "char"),
        ("km", "ខ្ញុំទៅសាលារៀន", "char"),
        ("ko", "나는 학교에 갑니다.", None),
        ("zh-Latn", "Wǒ qù xuéxiào.", None),
        ("ru", "Я иду в школу.", None),
    ],
)
def test_the_script_shows_whether_words_are_apart(language: str, line: str, tokenizer: str | None) -> None:
    """However short the lines are."""
    assert choose_bleu_tokenizer(language, [line] * 20) == tokenizer
    assert any("no spaces between" in told for told in find_mistakes({"a": ["x"] * 800}, [line] * 800)) == bool(
        tokenizer
    )


def test_bleu_of_text_without_spaces_needs_another_tokenizer() -> None:
    chinese = [line.replace(" ", "") for line in ENGLISH]
    (told,) = find_mistakes({"a": [line[1:] for line in chinese]}, chinese)
    assert "no spaces between words" in told and "--tokenize zh" in told
    assert [*find_mistakes({"a": [line[1:] for line in chinese]}, chinese, bleu_tokenizer="zh")] == []


def test_other_languages() -> None:
    (told,) = find_mistakes({"a": GOOD}, GERMAN)
    assert told.startswith("a seems to be in a different language from the references: ")
    named = [*find_mistakes({"a": GOOD}, [ENGLISH, GERMAN])]  # the second of two references
    assert [each.partition(":")[0] for each in named] == [
        "a seems to be in a different language from reference 2",
        "reference 1 seems to be in a different language from reference 2",
    ]
