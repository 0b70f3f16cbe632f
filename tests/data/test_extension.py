"""A vocabulary that grows: SentencePiece reads it, old text is segmented as before, and new pieces are found."""

import logging

import pytest
from harness import corpus_lines
from sentencepiece import sentencepiece_model_pb2

from translate.config.schema import TokenizerConfig
from translate.data.extension import add_tags, extend_tokenizers, missing_characters
from translate.data.tokenizer import END_OF_VOCABULARY, Tokenizer, Tokenizers, prepare_tokenizers
from translate.errors import InputError

LINES = corpus_lines("train.de")[:300]
OTHERS = corpus_lines("test.de")[:200]
NEW = ["Ein ☃ und ein Ω.", "ΩΩ ☃", "Ω ⁂"]


def make(kind: str, *, byte_fallback: bool, vocabulary: str = "joint", **settings: object) -> Tokenizers:
    size = 650 if byte_fallback else 400
    values = {"type": kind, "vocab_size": size, "byte_fallback": byte_fallback, "vocabulary": vocabulary}
    return prepare_tokenizers(TokenizerConfig.model_validate({**values, **settings}), LINES, LINES)


@pytest.mark.parametrize("byte_fallback", [True, False])
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_old_text_stays_and_new_characters_are_found(
    kind: str, byte_fallback: bool, caplog: pytest.LogCaptureFixture
) -> None:
    before = make(kind, byte_fallback=byte_fallback)
    settings = TokenizerConfig(add_characters=True, add_pieces=("<medical>", "_Straße"))
    with caplog.at_level(logging.INFO, logger="translate"):
        after = extend_tokenizers(before, settings, NEW, OTHERS[:1])
    assert after.source is after.target and after.vocabulary == "joint"
    old, new, size = before.source, after.source, before.source.vocab_size
    assert new.pieces(range(size)) == old.pieces(range(size))
    assert new.pieces(range(size, new.vocab_size)) == ["<medical>", "_Straße", "Ω", "☃", "⁂"]  # by frequency
    assert caplog.messages == [f"Vocabulary extended by 5 to {size + 5} subwords: <medical>, _Straße, Ω, ☃, ⁂"]
    unspelt = ["Ein → Pfeil", "数"]  # is neither old nor new
    for line in [*LINES, *OTHERS, *unspelt]:
        assert new.encode(line) == old.encode(line)
    for line in NEW:
        assert not any(map(new.lacks, line)) and new.decode(new.encode(line)) == line
    assert new.pieces(new.encode("<medical> Ein")) == ["▁", "<medical>", *old.pieces(old.encode("Ein"))]
    assert new.encode_lines(["☃"], num_threads=1)[0][-1] == size + 3


def test_what_is_there_is_not_added() -> None:
    before = make("bpe", byte_fallback=False)
    settings = TokenizerConfig(add_characters=True, add_pieces=("e",))
    assert extend_tokenizers(before, settings, LINES, LINES).source is before.source
    once = extend_tokenizers(before, TokenizerConfig(add_pieces=("<a>", "<a>")), LINES, LINES).source
    assert once.vocab_size == before.source.vocab_size + 1


@pytest.mark.parametrize("normalization", ["nmt_nfkc", "nmt_nfkc_cf", "identity"])
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_source_tag_is_one_subword_and_changes_no_other_text(kind: str, normalization: str) -> None:
    before = make(kind, byte_fallback=True, normalization=normalization)
    assert add_tags(before, [], []) == before
    after = add_tags(before, ["<bt>", "<ft>"], [])
    old, new, size = before.source, after.source, before.source.vocab_size
    assert after.target is new and new.pieces(range(size, new.vocab_size)) == ["▁<bt>", "▁<ft>"]
    for line in [*LINES, *OTHERS, "a<bt> b", "a < bt > b"]:
        assert new.encode(line) == old.encode(line)
    assert new.encode_lines([f"<ft> {line}" for line in LINES], num_threads=2)[7] == [size + 1, *old.encode(LINES[7])]


@pytest.mark.parametrize("vocabulary", ["joint", "separate"])
def test_a_target_tag_is_a_single_token_where_the_vocabulary_has_it_without_a_space(vocabulary: str) -> None:
    before = make("unigram", byte_fallback=True, vocabulary=vocabulary, add_pieces=("<2de>",))
    assert len(before.target.tag_ids("<2de>")) == 2 and add_tags(before, ["<2de>"], []) == before
    after = add_tags(before, [], ["<2de>"])
    assert after.target.tag_ids("<2de>") == [before.target.vocab_size] and add_tags(after, [], ["<2de>"]) == after
    for line in [*OTHERS[:50], "a<2de> b"]:
        assert after.target.encode(line) == before.target.encode(line)


def test_separate_vocabularies_get_what_their_side_needs() -> None:
    before = make("bpe", byte_fallback=False, vocabulary="separate")
    after = add_tags(before, ["<bt>"], [])
    assert after.source.vocab_size == before.source.vocab_size + 1 and after.target is before.target
    # Two models with the same entries, as some imported models have them, keep the same entries.
    imported = add_tags(Tokenizers(before.source, Tokenizer(before.source.model_bytes), "joint"), ["<bt>"], [])
    assert imported.source.all_pieces == imported.target.all_pieces == after.source.all_pieces
    settings = TokenizerConfig(vocabulary="separate", add_characters=True, add_pieces=("<a>",))
    source, target, vocabulary = extend_tokenizers(before, settings, ["Ω"], ["☃"])
    size = before.source.vocab_size
    assert vocabulary == "separate"
    assert source.pieces(range(size, source.vocab_size)) == ["<a>", "Ω"]
    assert target.pieces(range(size, target.vocab_size)) == ["<a>", "☃"]


def test_a_tokenizer_that_would_split_a_tag_is_refused() -> None:
    prefixless = sentencepiece_model_pb2.ModelProto.FromString(make("bpe", byte_fallback=True).source.model_bytes)
    prefixless.normalizer_spec.add_dummy_prefix = False
    tokenizer = Tokenizer(prefixless.SerializeToString(), name="given.model")
    with pytest.raises(InputError, match="the tag <bt> .*given.model reads <bt> a as <"):
        add_tags(Tokenizers(tokenizer, tokenizer, "joint"), ["<bt>"], [])


def test_characters_are_counted_as_they_are_segmented_and_the_rarest_can_be_spared() -> None:
    tokenizer: Tokenizer = make("bpe", byte_fallback=True).source
    # The normalisation writes two Latin letters for the ligature, which are known, and one Greek letter for two marks.
    assert missing_characters(tokenizer, [["ﬁ Ω\N{OHM SIGN}"], ["<Ω>"]], coverage=1.0, pieces=["<Ω>"]) == ["Ω"]
    text = ["Ω" * 10 + "☃" * 3 + "⁂" + "e" * 85]  # with a space before them 100 characters
    for coverage, kept in ((1.0, "Ω☃⁂"), (0.99, "Ω☃"), (0.97, "Ω☃"), (0.96, "Ω")):
        assert "".join(missing_characters(tokenizer, [text], coverage=coverage)) == kept


def test_an_imported_vocabulary_whose_sides_are_segmented_apart() -> None:
    """What a side has no id for gets the one that the other side has; what a side never finds, it finds from now on."""
    trained = make("unigram", byte_fallback=False).source
    model = sentencepiece_model_pb2.ModelProto.FromString(trained.model_bytes)
    piece = type(model.pieces[0])
    lowest = min(each.score for each in model.pieces)
    common = [*model.pieces, piece(piece="Ω", score=lowest, type=5), piece(piece="☃", score=lowest, type=1)]
    end = piece(piece=END_OF_VOCABULARY, type=3)
    sides = []
    for after_end in ([piece(piece="⁂", score=-3.0, type=1)], []):
        del model.pieces[:]
        model.pieces.extend([*common, end, *after_end])
        sides.append(Tokenizer(model.SerializeToString()))
    before = Tokenizers(sides[0], sides[1], "joint")
    size = sides[0].vocab_size
    assert size == trained.vocab_size + 2 and sides[0].all_pieces == sides[1].all_pieces
    assert sides[0].lacks("⁂") and not any(map(sides[0].lacks, "Ω☃"))  # Ω is looked up, as in transformers
    settings = TokenizerConfig(add_characters=True, add_pieces=("<a>",))
    source, target, vocabulary = extend_tokenizers(before, settings, ["Ω ⁂ ☃"], ["⁂ ∀"])
    assert vocabulary == "joint" and source.all_pieces == target.all_pieces
    assert source.pieces(range(size, source.vocab_size)) == ["<a>", "⁂", "∀"]
    for tokenizer in (source, target):
        assert not any(map(tokenizer.lacks, "Ω☃⁂∀"))
        assert tokenizer.encode("Ω")[-1] == trained.vocab_size
        for line in OTHERS[:50]:
            assert tokenizer.encode(line) == trained.encode(line)
    pieces = sentencepiece_model_pb2.ModelProto.FromString(source.model_bytes).pieces
    assert [each.score for each in pieces if each.piece == "⁂"] == [-3.0]
