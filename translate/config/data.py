"""The section `data`: where sentence pairs come from, and which are left out."""

import warnings
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeGuard

from pydantic import Discriminator, Field, Tag, ValidationInfo, field_validator, model_validator

from translate.config.section import InputPath, NotNegativeInt, PositiveInt, Section, expecting

LANGUAGE_CODE = r"^[A-Za-z][\w-]{0,63}$"
LanguageCode = Annotated[str, Field(pattern=LANGUAGE_CODE)]
"""The code of a language, which may become a part of a file's name."""
LanguageTag = Annotated[str, Field(pattern=r"^[^\s{}]{0,50}\{\}[^\s{}]{0,50}$")]
"""The tag of a language with {} for its code."""
Chance = Annotated[float, Field(ge=0.0, le=1.0)]
Column = Annotated[
    NotNegativeInt | str, expecting("should be the number of a column, counted from 0, or its name in the header")
]


class Direction(NamedTuple):
    """The languages of a source and of its translation."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


warnings.filterwarnings("ignore", 'Field name "copy" in "Augmentation" shadows')  # a method that pydantic gave up


class Augmentation(Section):
    """Changes to pairs, each with its probability per pair; drawn again in every epoch.

    Clean text never has `EIN HUND LÄUFT`, but users type it. A held-out corpus is changed once, and identically in
    every run, to show how a model copes with text like this.
    """

    upper_case: Chance = 0.0
    """BOTH SIDES IN CAPITALS; at most one of upper_case, title_case and lower_case changes a pair."""
    title_case: Chance = 0.0
    """Both Sides With A Capital At The Start Of Each Word."""
    lower_case: Chance = 0.0
    """both sides in lower case."""
    drop_final_punctuation: Chance = 0.0
    """Both sides without their final punctuation, if both have some."""
    ascii_umlauts: Chance = 0.0
    """The source with ae, oe, ue and ss for ä, ö, ü and ß."""
    typos: Chance = 0.0
    """The source with typos: one word in ten, but at least one, has a letter swapped, dropped, added or replaced."""
    copy: Chance = 0.0  # type: ignore[assignment]
    """Both sides with the same placeholder, tag, emoji, URL, e-mail address, number or name, at the beginning, at the
    end, or around or instead of a word that both have; or nothing but such text, which is its own translation."""

    @model_validator(mode="after")
    def _check_chances_of_cases(self) -> Self:
        if (total := self.upper_case + self.title_case + self.lower_case) > 1.0 + 1e-9:
            raise ValueError(f"upper_case + title_case + lower_case = {total:g}: a pair has only one, so at most 1")
        return self


class WeightedCorpus(Section):
    """Keys of every kind of corpus."""

    weight: Annotated[float, Field(gt=0.0, le=1000.0)] = 1.0
    """How often each pair is seen per epoch: 2 is twice, and 0.5 is a different random half in every epoch."""
    source_language: LanguageCode | None = None
    """Language code of this corpus's source; null: data.source_language."""
    target_language: LanguageCode | None = None
    """Language code of this corpus's target; null: data.target_language."""
    both_directions: bool = False
    """Use the corpus twice: as it is, and from its target to its source."""
    source_tag: Annotated[str, Field(pattern=r"^<[a-z][a-z0-9_-]{1,98}>$")] | None = None
    """Put this before each source of a training corpus, such as `<bt>` for back-translations (Caswell et al. 2019). It
    becomes one learnt subword, in addition to tokenizer.vocab_size."""
    augment: Augmentation | None = None
    """Changes of case, punctuation and spelling, each with its probability; null changes nothing."""
    license: str | None = None
    """Licence of the corpus, such as cc-by-4.0, for the model card of an export."""

    def swapped(self) -> Self:
        """The same corpus with its sides exchanged."""
        sides = ("source", "target") if isinstance(self, TextCorpus) else ("source_column", "target_column")
        languages = {"source_language": self.target_language, "target_language": self.source_language}
        return self.model_copy(update={one: getattr(self, other) for one, other in (sides, sides[::-1])} | languages)


class NamedColumns(WeightedCorpus):
    """A corpus with named columns."""

    source_column: str
    """Column of the source sentence; a dot leads into a nested column (`translation.de`)."""
    target_column: str
    """Column of the translation; a dot leads into a nested column."""
    streaming: bool = False
    """Read data.stream_segment_pairs pairs at a time, and never hold the whole corpus in memory. With several streamed
    corpora, `weight` is the share of a segment, which has at most one pass of each."""


class TextCorpus(WeightedCorpus):
    """A pair of plain-text files with one sentence per line; they may be gzipped (`.gz`)."""

    kind: Literal["text"] = "text"
    """Two plain-text files."""
    source: InputPath
    """File of source sentences."""
    target: InputPath
    """File of translations: line N translates line N of `source`."""


class TsvCorpus(WeightedCorpus):
    """A file of tab-separated text with one pair per line and no quoting; it may be gzipped."""

    kind: Literal["tsv"] = "tsv"
    """One tab-separated file."""
    path: InputPath
    """The file; or several as one corpus: a folder, or a pattern such as `po/*.po`."""
    source_column: Column = 0
    """Column of the source sentence: its number, counted from 0, or its name in the first line, the file's header."""
    target_column: Column = 1
    """Column of the translation: its number, counted from 0, or its name in the header."""

    @property
    def has_header(self) -> bool:
        """Whether the first line has the names of the columns."""
        return isinstance(self.source_column, str) or isinstance(self.target_column, str)


class TableCorpus(NamedColumns):
    """A local file with a table, which may be gzipped (`.gz`) unless it is Parquet."""

    kind: Literal["json", "csv", "parquet", "po", "tmx", "xliff"]
    """The file's format. json is one object per line. The cells of csv are separated by
    commas; if the header has none, by semicolons, or else by tabs. The columns of po (gettext catalogs, PO or MO), of
    tmx, a translation memory, and of xliff are the codes of their languages."""
    path: InputPath
    """The file; or several as one corpus: a folder, or a pattern such as `po/*.po`."""


class HubCorpus(NamedColumns):
    """A dataset on the Hugging Face Hub, loaded with `datasets`."""

    kind: Literal["hub"] = "hub"
    """A dataset by its name."""
    dataset: str
    """Name on the Hub, such as `bentrevett/multi30k`."""
    subset: str | None = None
    """The dataset's configuration, such as `de-en` for `wmt14`."""
    split: str
    """Split, such as `train` or `train[:1000]`."""
    revision: str | None = None
    """Commit, tag or branch of the dataset."""

    @model_validator(mode="after")
    def _check_split_can_be_streamed(self) -> Self:
        if self.streaming and "[" in self.split:
            whole = self.split.partition("[")[0]
            raise ValueError(f"streaming = true takes a whole split, not '{self.split}'; write split: {whole}")
        return self


Corpus = Annotated[TextCorpus | TsvCorpus | TableCorpus | HubCorpus, Field(discriminator="kind")]


CorporaByName = dict[Annotated[str, Field(pattern=r"^[\w-]+$")], Corpus]


def is_by_name(value: object) -> bool:
    """Whether a value of `data.validation` maps names to corpora, and is not one corpus or some of its keys."""
    if not isinstance(value, dict) or not value or value.keys() & {"kind", "augment"}:
        return False
    return all(isinstance(corpus, dict | WeightedCorpus) for corpus in value.values())


def by_name(corpora: Any) -> dict[str, Any]:
    """The corpora in a value of `data` by name: in a list by the index, and a single one by an empty name."""
    if isinstance(corpora, list | tuple):
        return {str(index): corpus for index, corpus in enumerate(corpora)}
    if isinstance(corpora, dict) and all(isinstance(corpus, dict | WeightedCorpus) for corpus in corpora.values()):
        return corpora
    return {} if corpora is None else {"": corpora}


OneOrByName = Annotated[
    Annotated[Corpus, Tag("one")] | Annotated[CorporaByName, Tag("by_name")],
    Discriminator(lambda value: "by_name" if is_by_name(value) else "one"),
]


def is_stream(corpus: Corpus) -> TypeGuard[TableCorpus | HubCorpus]:
    """Whether a corpus is read in segments and never held in memory as a whole."""
    return isinstance(corpus, NamedColumns) and corpus.streaming


def corpus_title(corpus: Corpus) -> str:
    """What people call a corpus: its files without their folders, or its name on the Hub."""
    match corpus:
        case TextCorpus():
            title = f"{corpus.source.name}, {corpus.target.name}"
        case HubCorpus():
            title = " ".join(filter(None, (corpus.dataset, corpus.subset, corpus.split)))
        case _:
            title = corpus.path.name
    return f"{title} (both directions)" if corpus.both_directions else title


def without_reverse(corpora: Mapping[str, Corpus]) -> dict[str, Corpus]:
    """Corpora by key, where a corpus and its reverse, which follows it, are one corpus with `both_directions` again."""
    found: dict[str, Corpus] = {}
    for key, corpus in corpora.items():
        last = next(reversed(found), "")
        if last and corpus == found[last].swapped():
            found[last] = found[last].model_copy(update={"both_directions": True})
        else:
            found[key] = corpus
    return found


class DataConfig(Section):
    """The corpora, and which pairs are left out."""

    source_language: LanguageCode = "de"
    """Language code of the source."""
    target_language: LanguageCode = "en"
    """Language code of the target."""
    language_tags: Literal["source", "target", "both"] | None = None
    """How a model with several languages knows the direction. source: each source begins with the target language's
    tag; target: each target does; both: each side begins with its own language's tag. null is source if the training
    corpora have several target languages, and otherwise no tags."""
    language_tag: LanguageTag = "<2{}>"
    """The tag of a language, with {} for its code; one learnt subword."""
    languages: tuple[LanguageCode, ...] = ()
    """More languages that the model knows. An import of a multilingual model names all of its languages here."""
    root: InputPath | None = None
    """Folder in which relative corpus paths are looked up first."""
    train: tuple[Corpus, ...] = ()
    """Training corpora."""
    sampling_temperature: Annotated[float, Field(ge=1.0, le=1000.0)] | None = None
    """Raise the weights of directions with little text: the share of a direction with n weighted pairs is proportional
    to n^(1/T) (Arivazhagan et al. 2019), and the largest direction keeps its weights. 1 and null change nothing; 5 is
    usual."""
    validation: OneOrByName | None = None
    """Corpus that decides on the best checkpoint and on early stopping; or a named corpus for each direction, such as
    {de-en: …, en-de: …}, and their mean BLEU or loss decides."""
    validation_also: CorporaByName = {}
    """More corpora to score at each validation, by name, such as the test set of the run being fine-tuned: they show
    what the model forgets, and affect no decision. In a config that extends another, null removes one."""
    test: CorporaByName = {}
    """Test sets that `translate eval` reports on, by name. In a config that extends another, null removes one."""
    max_source_tokens: PositiveInt = 256
    """Training pairs whose source has more subwords are left out and counted."""
    max_target_tokens: PositiveInt = 256
    """Training pairs whose target has more subwords are left out and counted."""
    max_length_ratio: Annotated[float, Field(ge=1.0)] | None = 9.0
    """Training pairs with one side this many times as long as the other, in subwords, are left out; null keeps all."""
    leave_out: tuple[Literal["equal", "repeated"], ...] = ()
    """Also leave out, and count, training pairs whose sides are equal, or that repeat a pair of the same corpus or
    segment. Spaces and case are ignored; `translate check` says how many there are."""
    stream_segment_pairs: Annotated[int, Field(ge=1, le=1_000_000_000)] = 1_000_000
    """Pairs per segment of the streamed corpora. A segment is an epoch; two of them are held in memory."""

    @property
    def is_streamed(self) -> bool:
        """Whether any training corpus is streamed."""
        return any(is_stream(corpus) for corpus in self.train)

    def direction_of(self, corpus: WeightedCorpus) -> Direction:
        """The direction of a corpus: its own languages, or else those of `data`."""
        return Direction(corpus.source_language or self.source_language, corpus.target_language or self.target_language)

    @property
    def training_corpora(self) -> list[Corpus]:
        """The corpora to train on; a corpus that is used in both directions is listed once."""
        return list(without_reverse(self.corpora("train")).values())

    def corpora(self, *kinds: Literal["train", "validation", "validation_also", "test"]) -> dict[str, Corpus]:
        """The corpora of these kinds, or all held-out ones, by their keys: `data.train.0`, `data.test.news`."""
        found: dict[str, Corpus] = {}
        for kind in kinds or ("validation", "validation_also", "test"):
            named = by_name(getattr(self, kind))
            found |= {f"data.{kind}.{name}".rstrip("."): corpus for name, corpus in named.items()}
        return found

    def keys_by_name(self) -> dict[str, str]:
        """The key of each held-out corpus by the name of its set.

        The name is `validation`, `validation-NAME` for one of several, or NAME for corpora of `data.test` and
        `data.validation_also`. A NAME that is already taken has its section before it: `validation_also.NAME`.
        """
        keys: dict[str, str] = {}
        for key in self.corpora("validation", "test", "validation_also"):
            whole = key.removeprefix("data.")
            section, _, last = whole.partition(".")
            name = whole.replace(".", "-") if section == "validation" else last
            keys[whole if name in ("validation", *keys) else name] = key
        return keys

    @field_validator("train")
    @classmethod
    def _check_languages(cls, corpora: tuple[Corpus, ...]) -> tuple[Corpus, ...]:
        named = [index for index, corpus in enumerate(corpora) if corpus.source_language or corpus.target_language]
        unnamed = [index for index in range(len(corpora)) if index not in named]
        if named and unnamed:
            hint = "give it its source_language and target_language"
            raise ValueError(f"{unnamed[0]} names no languages, but data.train.{named[0]} does: {hint}")
        return corpora

    @field_validator("train", "validation", "validation_also", "test")
    @classmethod
    def _use_both_directions(cls, given: Any, info: ValidationInfo) -> Any:
        """Replace each corpus that is used in both directions with two, whose names end in their directions."""
        named, used = by_name(given), dict[str, Corpus]()
        if not any(corpus.both_directions for corpus in named.values()):
            return given
        for name, corpus in named.items():
            codes = {key: getattr(corpus, key) or info.data.get(key) for key in ("source_language", "target_language")}
            source, target = codes.values()
            forward = corpus.model_copy(update={**codes, "both_directions": False})
            new = {name: forward}
            if corpus.both_directions:
                if source == target:
                    key = f"{name}.both_directions".lstrip(".")
                    raise ValueError(f"{key} = true: its source_language and target_language are both {source}")
                new = {f"{name}-{source}-{target}": forward, f"{name}-{target}-{source}": forward.swapped()}
            if twice := new.keys() & used.keys():
                raise ValueError(f"{twice.pop()} names two corpora, because both_directions adds languages to a name")
            used |= new
        shown = {name.lstrip("-"): corpus for name, corpus in used.items()}
        return tuple(used.values()) if isinstance(given, tuple) else shown

    @model_validator(mode="after")
    def _check_sampling(self) -> Self:
        if self.sampling_temperature is not None and self.is_streamed:
            raise ValueError(
                f"data.sampling_temperature = {self.sampling_temperature:g} needs the size of each corpus, and"
                f" data.train.{[*map(is_stream, self.train)].index(True)}.streaming = true hides one: use weights"
            )
        return self

    @model_validator(mode="after")
    def _check_held_out(self) -> Self:
        validation = self.corpora("validation")
        if self.validation_also and not validation:
            raise ValueError("data.validation_also is scored at each validation: name data.validation too")
        directions: dict[Direction, str] = {}
        for key, corpus in validation.items():
            direction = self.direction_of(corpus)
            if (other := directions.setdefault(direction, key)) != key:
                raise ValueError(
                    f"{other} and {key} are both {direction}, which would count twice in the mean: give"
                    " each its source_language and target_language, or move one of them to data.validation_also"
                )
            name = key.rpartition(".")[2]
            if len(validation) > 1 and name in self.validation_also:
                raise ValueError(f"{key} and data.validation_also.{name} have the same name; rename one")
        for key, corpus in self.corpora().items():
            if is_stream(corpus):
                raise ValueError(f"{key}.streaming = true: only the corpora of data.train can be streamed")
            if corpus.source_tag is not None:
                raise ValueError(f"{key}.source_tag = {corpus.source_tag}: only the corpora of data.train have tags")
        return self
