"""Augmentation: each change by hand, chances that are met, and epochs that are a pure function of seed and number."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from harness import corpus_lines, values_of, write_lines

from translate.config.data import Augmentation, DataConfig, TextCorpus
from translate.config.schema import Config
from translate.data import epochs
from translate.data.augmentation import (
    add_copies,
    add_typos,
    augment_corpus,
    change_pairs,
    draw_changes,
    read_held_out,
    title_case,
)
from translate.data.corpora import ParallelCorpus
from translate.data.epochs import BatchSettings, TrainingBatches
from translate.data.tokenizer import Tokenizer, Tokenizers

PAIR = ("Ein Hund läuft auf weißem Sand.", "A dog runs on white sand!")


def generator(seed: int = 7) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def changed(source: str, target: str, **chances: float) -> tuple[str, str]:
    """The pair with changes whose chance is 1."""
    corpus = ParallelCorpus("one", [source], [target], 1.0, augment=Augmentation(**chances))
    sources, targets = augment_corpus(corpus)[1:3]
    return sources[0], targets[0]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, PAIR),
        ({"upper_case": 1}, ("EIN HUND LÄUFT AUF WEISSEM SAND.", "A DOG RUNS ON WHITE SAND!")),
        ({"title_case": 1}, ("Ein Hund Läuft Auf Weißem Sand.", "A Dog Runs On White Sand!")),
        ({"lower_case": 1}, ("ein hund läuft auf weißem sand.", "a dog runs on white sand!")),
        ({"drop_final_punctuation": 1}, ("Ein Hund läuft auf weißem Sand", "A dog runs on white sand")),
        ({"ascii_umlauts": 1}, ("Ein Hund laeuft auf weissem Sand.", "A dog runs on white sand!")),
        ({"ascii_umlauts": 1, "upper_case": 1}, ("EIN HUND LAEUFT AUF WEISSEM SAND.", "A DOG RUNS ON WHITE SAND!")),
    ],
)
def test_changes_by_hand(change: dict[str, float], expected: tuple[str, str]) -> None:
    assert changed(*PAIR, **change) == expected
    source, target = changed(*PAIR, **change, typos=1)
    assert source != expected[0] and target == expected[1]


def test_final_punctuation_stays_unless_both_sides_have_some_and_words_before_it() -> None:
    for pair in [("Ja.", "Yes"), (".", "Yes."), ("", "")]:
        assert changed(*pair, drop_final_punctuation=1) == pair
    assert changed("Ja ?!", "Yes… ", drop_final_punctuation=1) == ("Ja", "Yes")


def test_tags_of_a_language_or_corpus_are_not_text() -> None:
    """Tags that a text has of its own come before sources alone, as in 0.10.0."""
    pair = (">>deu<< <bt> it's <b>bold</b>", "<b>es</b> ist fett")
    assert changed(*pair, upper_case=1) == (">>deu<< <bt> IT'S <B>BOLD</B>", "<B>ES</B> IST FETT")
    assert changed(*pair, title_case=1) == (">>deu<< <bt> It's <B>Bold</B>", "<B>Es</B> Ist Fett")
    assert title_case("don’t o'neill «il» ǆ blau-weiß USA 3d") == "Don’t O'neill «Il» ǅ Blau-Weiß USA 3d"


def test_typos_are_one_edit_in_a_tenth_of_the_words() -> None:
    """In one word of one to ten; every letter that is added is of the text."""
    words = ["ab", "12345", "Möwe", "läuft", "schnell,", "weiter"]
    seen = set()
    for seed in range(97):
        text = add_typos(" ".join(words), generator(seed))
        different = [pair for pair in zip(words, text.split(" "), strict=True) if pair[0] != pair[1]]
        assert len(different) <= 1  # a letter may be replaced by itself
        for before, after in different:
            assert before in words[2:] and after[0] == before[0] and set(after.lower()) <= set("".join(words).lower())
            shape = "swap" if sorted(after) == sorted(before) else len(after) - len(before)
            seen.add(shape)
    assert seen == {"swap", -1, 0, 1}
    for text in ("", "ab 12 .", "你好"):  # nothing has three letters
        assert add_typos(text, generator()) == text


def test_both_sides_get_the_same_text_at_the_same_place() -> None:
    """Without the words of the languages, both sides are the same, whatever was copied into them."""
    words, seen = ("Save the file", "Datei speichern", "Delete ", " of ", " von ", " löschen"), set()
    for source, target in [("Save the file.", "Datei speichern."), ("Delete “%1$s” of 12?", "“%1$s” von 12 löschen?")]:
        for seed in range(199):
            pair = add_copies(source, target, generator(seed))
            assert pair == add_copies(source, target, generator(seed)) != (source, target)
            rest = list(pair)
            for word in words:
                rest = [side.replace(word, "") for side in rest]
            assert rest[0] == rest[1], pair
            seen |= {
                name
                for name, is_there in {
                    "nothing else": pair[0] == pair[1],
                    "first": pair[1].endswith(f" {target}"),
                    "last": pair[1].startswith(f"{target} "),
                    "before the full stop": pair[1].startswith("Datei speichern ") and pair[1].endswith("."),
                    "instead of a word": "löschen" in pair[1] and "“%1$s”" not in pair[1] and "<" not in pair[1],
                    "tags around a word": ">%1$s</" in pair[1],
                    "tags around everything": ">Datei speichern.</" in pair[1],
                }.items()
                if is_there
            }
    assert len(seen) == 7


def test_copies_leave_other_changes_alone() -> None:
    """The text of the version before `copy`, and tags that sources have of their own."""
    chances = dict(zip(Augmentation.model_fields, (0.2, 0.1, 0.2, 0.3, 0.3, 0.5), strict=False))
    lines = corpus_lines("train.de")[:300], corpus_lines("train.en")[:300]
    before = augment_corpus(ParallelCorpus("one", *lines, 1.0, augment=Augmentation(**chances)))
    text = "\n".join([*before.sources, *before.targets])
    assert hashlib.sha256(text.encode()).hexdigest().startswith("679ac705bc328634")
    few, many = (draw_changes(Augmentation(**chances, copy=chance), 997, generator()) for chance in (0.0, 0.4))
    assert (many & 31 == few).all() and (many & 32 > 0).mean() == pytest.approx(0.4, abs=0.05)
    assert augment_corpus(before._replace(augment=Augmentation(copy=1)), with_noise=False)[1:3] == before[1:3]
    for seed in range(19):
        sources, targets = change_pairs(
            [">>deu<< <bt> a", "<b>a</b>"], ["b", "<b>c</b>"], np.uint8([32, 32]), generator(seed)
        )
        assert sources[0].startswith(">>deu<< <bt> ") and sources[1].replace("a</", "c</") == targets[1]


def test_chances_are_met() -> None:
    augment = Augmentation(upper_case=0.2, title_case=0.1, lower_case=0.3, drop_final_punctuation=0.4, typos=0.5)
    changes = draw_changes(augment, 20_000, generator())
    assert np.bincount(changes % 4) / 20_000 == pytest.approx([0.4, 0.2, 0.1, 0.3], abs=0.015)
    shares = [float((changes & bit > 0).mean()) for bit in (4, 8, 16)]
    assert shares == pytest.approx([0.4, 0.0, 0.5], abs=0.015)
    assert not draw_changes(None, 3, generator()).any()
    with pytest.raises(ValueError, match=r"upper_case \+ title_case \+ lower_case = 1\.1"):
        Augmentation(upper_case=0.6, lower_case=0.5)


def test_a_held_out_corpus_is_changed_alike_in_every_run(tmp_path: Path) -> None:
    lines = [f"Zeile {number} von vielen." for number in range(1300)]
    for size in (1300, 1100):
        for side in ("de", "en"):
            write_lines(tmp_path / f"{size}.{side}", lines[:size])
    augment = Augmentation(upper_case=0.5, typos=0.3)
    corpora = {
        name: TextCorpus(source=tmp_path / f"{size}.de", target=tmp_path / f"{size}.en", augment=augment)
        for name, size in {"long": 1300, "short": 1100, "again": 1100}.items()
    }
    data = DataConfig(test=corpora)
    long, short, again = read_held_out(Config(data=data), data.corpora("test")).values()
    assert short == again and short.augment is None
    assert list(short.sources[:1000]) == list(long.sources[:1000]) != lines[:1000]


@pytest.fixture
def corpora(german: list[str], english: list[str]) -> list[ParallelCorpus]:
    """Two corpora, of which the first is changed."""
    augment = Augmentation(upper_case=0.3, drop_final_punctuation=0.2, typos=0.3, copy=0.1)
    return [ParallelCorpus("a", german, english, 1.5, augment=augment), ParallelCorpus("b", english, german, 1.0)]


def batches_of(
    corpora: list[ParallelCorpus], tokenizer: Tokenizer, *, sampling: float | None = None, **limits: int
) -> TrainingBatches:
    settings = BatchSettings(DataConfig(**limits), sampling, 997, 3)
    return TrainingBatches(corpora, Tokenizers(tokenizer, tokenizer, "joint"), settings)


def texts(batches: TrainingBatches, number: int, tokenizer: Tokenizer) -> list[tuple[int, str, str]]:
    """The pairs of an epoch, with their numbers."""
    return sorted(
        (index, tokenizer.decode(source.tolist()), tokenizer.decode(target.tolist()))
        for batch in batches.epoch(number)
        for index, source, target in zip(batch.indices, batch.source_ids, batch.target_output_ids, strict=True)
    )


@pytest.mark.parametrize("sampling", [None, 0.2])
def test_an_epoch_is_changed_as_its_number_says(
    corpora: list[ParallelCorpus], tokenizer: Tokenizer, sampling: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epochs, "_SAMPLED_LINES", 7)  # several tasks
    batches, resumed = (batches_of(corpora, tokenizer, sampling=sampling) for _ in range(2))
    before = values_of(batches.epoch(0))
    assert values_of(batches.epoch(1)) != before
    assert values_of(resumed.epoch(1)) == values_of(batches.epoch(1))  # whatever was asked for before
    assert values_of(batches.epoch(0)) == before
    plain = [pair for corpus in corpora for pair in zip(corpus.sources, corpus.targets, strict=True)]
    size, pairs = len(corpora[0].sources), texts(batches, 1, tokenizer)
    assert len(pairs) == round(2.5 * size)
    assert all((source, target) == plain[number] for number, source, target in pairs if number >= size)
    upper = [(source, target) for _, source, target in pairs if source.isupper()]
    assert len(upper) == pytest.approx(0.3 * 1.5 * size, abs=0.2 * size)
    assert all(target.isupper() for _, target in upper)
    twice = [pair for pair in pairs if [each[0] for each in pairs].count(pair[0]) == 2]
    assert len(set(twice)) > len(twice) / 2  # a pair that is seen twice is changed in two ways
    changed_pairs = sum((source, target) != plain[number] for number, source, target in pairs)
    assert 0 < changed_pairs <= batches.epoch(1).num_changed


def test_what_is_not_changed_is_as_without_augmentation(corpora: list[ParallelCorpus], tokenizer: Tokenizer) -> None:
    """A chance of 0 changes nothing, not even the order."""
    plain = [corpus._replace(augment=None) for corpus in corpora]
    none = [corpora[0]._replace(augment=Augmentation()), corpora[1]]
    assert values_of(batches_of(none, tokenizer).epoch(1)) == values_of(batches_of(plain, tokenizer).epoch(1))


def test_a_changed_pair_that_is_too_long_stays_as_it_is(corpora: list[ParallelCorpus], tokenizer: Tokenizer) -> None:
    """Capitals that the vocabulary does not have fall apart into letters."""
    capitals = [corpora[0]._replace(augment=Augmentation(upper_case=1.0), weight=1.0)]
    sides = (capitals[0].sources, capitals[0].targets)
    limits = [max(len(tokenizer.encode(line.upper())) for line in side) - 1 for side in sides]
    batches = batches_of(capitals, tokenizer, max_source_tokens=limits[0], max_target_tokens=limits[1])
    assert batches.longest == max(limits) + 1
    epoch = batches.epoch(0)
    assert 0 < epoch.num_resegmented < len(sides[0]) == epoch.num_changed
    for batch in epoch:
        assert batch.source_ids.shape[1] <= limits[0] + 1 and batch.target_output_ids.shape[1] <= limits[1] + 1
    found = texts(batches, 0, tokenizer)
    is_usual = [(source, target) == (sides[0][number], sides[1][number]) for number, source, target in found]
    assert sum(is_usual) == epoch.num_resegmented and [number for number, _, _ in found] == list(range(len(sides[0])))
