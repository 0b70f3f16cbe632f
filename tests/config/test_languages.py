"""The languages of a config: directions, tags, and the choice of a direction."""

import contextlib
import itertools
from pathlib import Path
from typing import Any

import pytest

from translate.config.data import DataConfig, Direction, TsvCorpus
from translate.config.languages import Languages
from translate.errors import InputError


def languages(*train: dict[str, Any], **data: Any) -> Languages:
    files = {"kind": "text", "source": "a", "target": "b"}
    return Languages(DataConfig.model_validate({"train": [files | corpus for corpus in train], **data}))


def direction(name: str) -> dict[str, str]:
    return dict(zip(("source_language", "target_language"), name.split("-"), strict=True))


def test_one_direction_needs_no_tags_and_no_choice() -> None:
    for known in (languages({}), languages(), languages(direction("de-en"), {**direction("de-en"), "weight": 2})):
        assert known.directions == [("de", "en")] and known.tags is None
        assert known.choose() == known.choose("en") == known.choose(from_="de") == known.choose("en", "de")
        with pytest.raises(InputError, match="translates from de: 'fr' is not one of them"):
            known.choose(from_="fr")
        assert known.tags_of(known.choose()) == (None, None) and known.all_tags == ([], [])


@pytest.mark.parametrize(
    ("tags", "source", "target"),
    [(None, "<2en>", None), ("source", "<2en>", None), ("target", None, "<2en>"), ("both", "<2de>", "<2en>")],
)
def test_with_several_target_languages_a_tag_tells_the_direction(
    tags: str | None, source: str | None, target: str | None
) -> None:
    known = languages({"both_directions": True, "source_tag": "<bt>"}, language_tags=tags)
    assert list(map(str, known.directions)) == ["de-en", "en-de"]
    there, back = known.directions
    assert known.tags_of(there) == (source, target)
    swapped = {"<2en>": "<2de>", "<2de>": "<2en>"}
    of_targets = [target, swapped[target]] if target else []
    assert known.all_tags == ([*([source, swapped[source]] if source else []), "<bt>"], of_targets)
    assert known.choose("de") == known.choose(from_="en") == back


def test_both_directions_of_a_corpus_are_two_corpora() -> None:
    table = {"kind": "tsv", "path": "a", "source_column": 2, "weight": 3.0, "both_directions": True}
    data = DataConfig.model_validate({"train": [table | direction("fr-cs")]})
    there, back = (corpus.model_dump(exclude_defaults=True) for corpus in data.train)
    assert (back["source_column"], back["target_column"]) == (1, 2)
    assert (back["source_language"], back["target_language"], back["weight"]) == ("cs", "fr", 3.0)
    assert DataConfig.model_validate(data.model_dump()) == data


def test_a_language_is_chosen_only_where_there_is_a_choice() -> None:
    known = languages(*map(direction, ("de-en", "fr-en", "en-de")))
    assert known.choose("de") == known.choose("DE", "En") == ("en", "de")
    assert known.choose("en") == ("und", "en")  # the model is not told the source's language
    assert known.choose("en", "fr") == ("fr", "en")
    assert known.choose("de", "fr") == ("fr", "de")  # a direction without training data
    with pytest.raises(InputError, match="translates to en, de: .*--to.*to="):
        known.choose()
    with pytest.raises(InputError, match="translates to en, de: 'cs' is not one of them"):
        known.choose("cs")
    with pytest.raises(InputError, match="translates from de, fr, en: 'cs' is not one of them"):
        known.choose("en", "cs")
    for code in ("../en", "en\n", "e" * 65):
        with pytest.raises(InputError, match="translates to en, de: .* is not one of them"):
            known.choose(code)
        with pytest.raises(ValueError, match="should match"):
            DataConfig(languages=(code,))
    told = languages(*map(direction, ("de-en", "fr-en")), language_tags="both")
    with pytest.raises(InputError, match="translates from de, fr: choose one with --from"):
        told.choose("en", names=("--to", "--from"))
    named = languages(*map(direction, ("und-en", "fr-en")), language_tags="both")
    assert named.choose("en", "und") == ("und", "en")  # a code like any other


def test_of_many_languages_a_message_names_the_nearest_and_a_few() -> None:
    codes = [*(f"{letter}aa_Latn" for letter in "abcdefghijklmnopqrstuvwxyz"), "zho_Hans", "zho_Hant"]
    many = languages(source_language="und", target_language="und", languages=codes, language_tags="both")
    with pytest.raises(InputError, match="translates to zho_Hant, .* and 20 more: 'zho_Latn'"):
        many.choose("zho_Latn")


@pytest.mark.parametrize("names", [["de-en"], ["de-en", "de-fr"], ["de-en", "en-de"]])
def test_whoever_goes_on_with_a_model_is_told_what_it_writes(names: list[str]) -> None:
    """As an export tells an import: only targets have a tag."""
    told = languages(*map(direction, names), language_tags="source").settings
    known = languages(source_language="und", target_language="und", **told)
    assert {*known.targets} == {name[-2:] for name in names}


def test_languages_of_the_vocabulary_can_be_chosen_too() -> None:
    many = {"languages": ["de", "en", "fr"], "language_tags": "both", "language_tag": "__{}__"}
    imported = languages(source_language="und", target_language="und", **many)
    assert imported.directions == [] and imported.choose("fr", "de") == ("de", "fr")
    with pytest.raises(InputError, match="translates to de, en, fr: choose one"):
        imported.choose()
    there = languages(source_language="und", target_language="fr", **many)
    assert there.choose(from_="de") == ("de", "fr") and there.only is None and there.usual == ("de", "fr")
    alone = languages(source_language="und", target_language="und", **many | {"languages": ["de"]})
    assert alone.choose() == alone.usual == ("und", "de")
    tuned = languages(direction("gsw-de"), **many)
    assert tuned.choose() == ("gsw", "de") and tuned.choose("fr", "gsw") == ("gsw", "fr")
    assert tuned.choose(from_="fr") == ("fr", "de")
    assert tuned.tags_of(Direction("gsw", "de")) == ("__gsw__", "__de__")
    assert tuned.all_tags == (["__gsw__"], ["__de__"])
    assert tuned.targets_of("gsw") == ["de"] and tuned.targets_of("de") == ["en", "fr"] and tuned.usual == ("gsw", "de")


def test_a_language_is_translated_to_itself_only_after_such_training() -> None:
    """A corpus of copies, in addition to others (Currey et al. 2017), is a direction like any other."""
    known, copies = languages(direction("de-en"), direction("en-de")), direction("en-en")
    with pytest.raises(InputError, match="both languages are en: .*--to.*--from"):
        known.choose("en", "en", names=("--to", "--from"))
    trained = languages(direction("de-en"), copies)
    assert trained.choose("en", "en") == ("en", "en") and trained.choose("en", "de") == ("de", "en")


@pytest.mark.parametrize(
    ("to", "from_", "chosen"),
    [(None, None, "deu_Latn-eng_Latn"), ("fr", None, "deu_Latn-fra_Latn"), ("deu", "fr", "fra_Latn-deu_Latn")],
)
def test_a_default_gives_the_languages_that_a_text_does_not_name(
    to: str | None, from_: str | None, chosen: str
) -> None:
    """Whichever way a text spells the other language."""
    codes = {"languages": ["deu_Latn", "eng_Latn", "fra_Latn"], "language_tags": "both"}
    known = languages(source_language="deu_Latn", target_language="eng_Latn", **codes)
    assert str(known.choose(to, from_, default=known.only)) == chosen
    with pytest.raises(InputError, match="--from"):
        known.choose("fr")


def test_a_default_is_not_taken_against_the_text() -> None:
    known = languages(direction("de-en"), languages=["de", "en", "fr"], language_tags="source")
    assert known.choose("fr") == known.choose("fr", "und", default=known.only) == ("und", "fr")
    there, back = (both := languages({"both_directions": True})).directions
    for code in ("en", "EN", "eng_Latn"):  # the default's target: such a text goes the other way
        assert both.choose(from_=code, default=there) == back


@pytest.mark.parametrize("tags", [None, "both"])
@pytest.mark.parametrize("names", [["de-en"], ["de-en", "en-de"], ["fr-en", "en-fr"], ["de-en", "fr-en", "en-en"]])
def test_a_held_out_corpus_has_a_direction_that_can_be_chosen(names: list[str], tags: str | None) -> None:
    known = languages(*map(direction, names), language_tags=tags)
    for source, target in itertools.product(("de", "en", "fr", "cs"), repeat=2):
        corpus = TsvCorpus(kind="tsv", path=Path("a"), source_language=source, target_language=target)
        try:
            known.choose(target, source)
        except InputError:
            with pytest.raises(InputError, match=f"data.test.a is {source}-{target}, but the model translates "):
                known.check(corpus, key="data.test.a", is_tuned=False)
        else:
            known.check(corpus, key="data.test.a", is_tuned=False)


def test_the_base_of_a_fine_tuning_may_have_more_sources_than_the_new_corpora() -> None:
    known = languages(direction("en-fr"), languages=["de", "en", "fr"], language_tags="source")
    for code, is_known in {"cs-de": True, "en-cs": False}.items():
        corpus = TsvCorpus.model_validate({"kind": "tsv", "path": "a", **direction(code)})
        with contextlib.nullcontext() if is_known else pytest.raises(InputError, match="is en-cs, .* to fr, de, en:"):
            known.check(corpus, key="data.test.a", is_tuned=True)
        with pytest.raises(InputError, match=f"is {code}, but the model translates"):
            known.check(corpus, key="data.test.a", is_tuned=False)
    # An import of a model with source tags names the languages that it translates to alone.
    imported = languages(source_language="und", target_language="und", languages=["de", "fr"], language_tags="source")
    assert not imported.instead_of(Direction("en", "fr"), is_tuned=False)
    nameless = languages(source_language="und", target_language="und")
    assert not nameless.instead_of(Direction("en", "fr"), is_tuned=False)
    many = languages(source_language="und", target_language="und", languages=["de", "en"], language_tags="both")
    assert not many.instead_of(Direction("en", "de"), is_tuned=False)
    assert many.instead_of(Direction("fr", "de"), is_tuned=False) == "from de, en"


def test_a_held_out_corpus_without_languages_has_a_direction_of_the_training_corpora() -> None:
    corpus, key = TsvCorpus(kind="tsv", path=Path("a")), "data.validation"
    with pytest.raises(InputError, match=r"data.validation names no languages, .* de-en, .*source_language"):
        languages(*map(direction, ("fr-en", "en-fr"))).check(corpus, key=key, is_tuned=False)
    for known in (languages({}), languages({"both_directions": True}), languages(*map(direction, ("fr-de", "de-en")))):
        known.check(corpus, key=key, is_tuned=False)
