"""Sentences that occur again, by hand-written pairs."""

from translate.lint.duplicates import find_leakage, find_repetitions, hash_pairs

Text = tuple[list[str], list[str]]


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
    ]
    hashes = hash_pairs([source for source, _ in pairs], [target for _, target in pairs])
    assert {kind: numbers.tolist() for kind, numbers in find_repetitions(hashes).items()} == {
        "empty": [5, 6, 7, 9, 10],
        "equal": [4],
        "repeated": [2, 8],
        "ambiguous": [3],
    }


def test_source_and_target_do_not_change_places() -> None:
    hashes = hash_pairs(["a", "b"], ["b", "a"])
    assert find_repetitions(hashes)["repeated"].tolist() == []


def test_leakage_by_hand() -> None:
    training = hash_pairs(["eins", "zwei", "drei", "zwei"], ["one", "two", "three", "2"])
    held_out = hash_pairs(["vier", "Zwei", "drei ", "eins", "", "zwei"], ["four", "two", "THREE", "1", "", "zwo"])
    leakage = find_leakage(held_out, training)
    assert leakage.pairs.tolist() == [1, 2]
    assert leakage.pairs_in_training.tolist() == [1, 2]
    assert leakage.sources.tolist() == [3, 5]
    assert leakage.sources_in_training.tolist() == [0, 1]


def test_nothing_leaks_from_the_embedded_corpus(embedded: Text, held_out: Text) -> None:
    training = hash_pairs(*embedded)
    leakage = find_leakage(hash_pairs(*held_out), training)
    assert len(leakage.pairs) == len(leakage.sources) == 0
    assert [len(numbers) for numbers in find_repetitions(training).values()] == [0] * 4
