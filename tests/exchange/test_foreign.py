"""Vocabularies of other toolkits in the order of our ids, and SentencePiece models to match."""

from itertools import chain

import pytest
import sentencepiece
from harness import train_spm

from translate.data.extension import add_pieces
from translate.data.subword_sampling import SubwordSampler
from translate.data.tokenizer import UNK_ID, Tokenizer
from translate.errors import InputError
from translate.exchange.foreign import Vocabulary, reorder_sentencepiece


@pytest.mark.parametrize(
    ("symbols", "rows", "only_ours"),
    [
        ({"start": 5, "pad": 5}, [-1, 1, 5, 0, 2, 3, 4], [0]),  # OPUS-MT
        ({}, [-1, 1, -1, 0, 2, 3, 4, 5], [0, 2]),  # Marian, whose decoder starts with zeros
        ({"start": 0, "pad": 5}, [5, 1, 0, 0, 2, 3, 4], [2]),  # the end symbol is the start
        ({"start": 2, "pad": 3}, [3, 1, 2, 0, 4, 5], []),  # this toolkit's exports
    ],
)
def test_rows(symbols: dict[str, int], rows: list[int], only_ours: list[int]) -> None:
    vocabulary = Vocabulary(["</s>", "<unk>", "a", "<s>", "c", "<pad>"], unk=1, eos=0, **symbols)
    assert (vocabulary.rows, vocabulary.only_ours) == (rows, only_ours)
    assert len(set(vocabulary.names)) == len(rows)
    others = [name for token, name in enumerate(vocabulary.subwords) if token not in rows[:4]]
    assert vocabulary.names[4:] == others


def reordered(model: bytes, *, lacks: int = 0, more: tuple[str, ...] = ()) -> tuple[Tokenizer, Vocabulary]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [processor.id_to_piece(token) for token in range(processor.get_piece_size())]
    vocabulary = Vocabulary([*reversed(pieces[lacks + 2 :]), *more, "</s>", "<unk>"], unk=-1, eos=-2)
    size = len(vocabulary.subwords)
    vocabulary = vocabulary._replace(unk=size - 1, eos=size - 2)
    return reorder_sentencepiece(model, vocabulary, name="a.spm"), vocabulary


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_texts_are_segmented_as_before(english: list[str], german: list[str], kind: str) -> None:
    """A piece that only the vocabulary has is never produced; one that it lacks is UNK; its characters are known."""
    model = train_spm(english, model_type=kind, vocab_size=150)
    original = sentencepiece.SentencePieceProcessor(model_proto=model)
    tokenizer, vocabulary = reordered(model, lacks=5, more=("▁the▁dog", "ß", ">>deu<<"))
    assert tokenizer.vocab_size == len(vocabulary.names) == 150 - 5 + 3 + 2
    known = set(vocabulary.names)
    ids = tokenizer.encode_lines([*english, *german], num_threads=1)
    for text, line in zip([*english, *german], ids, strict=True):
        expected = [piece if piece in known else "<unk>" for piece in original.encode(text, out_type=str)]
        assert tokenizer.pieces(line) == expected
        assert tokenizer.encode(text) == line
    assert UNK_ID in {token for line in ids for token in line}
    assert tokenizer.pieces(tokenizer.encode("ß"))[1:] == ["ß"]
    assert tokenizer.decode(tokenizer.parse(["▁the▁dog", "ß"])) == "the dogß"


@pytest.mark.parametrize(("kind", "amount"), [("bpe", 1e-12), ("unigram", 1e5)])
def test_a_pruned_vocabulary(german: list[str], english: list[str], kind: str, amount: float) -> None:
    """What is kept is found as before, in sampling too, which merges through what was pruned and splits it again."""
    model = train_spm(german, model_type=kind)
    whole, vocabulary = reordered(model)
    text = german[:20]
    pieces = {*"".join(whole.normalize(text)), *whole.pieces([*chain(*whole.encode_lines(text, num_threads=1))])}
    kept = {row for row, name in enumerate(vocabulary.subwords) if name in pieces}
    pruned = reorder_sentencepiece(model, vocabulary._replace(kept=frozenset(kept)), name="a.spm")
    assert [*map(pruned.pieces, map(pruned.encode, text))] == [*map(whole.pieces, map(whole.encode, text))]
    sampler = SubwordSampler(pruned.model_bytes)
    assert sampler.sample(german, amount=amount, seed=1) == pruned.encode_lines(german, num_threads=1)
    sampled = sampler.sample([*german, *english, "Ω ☃"], amount=0.3, seed=1)
    assert max(map(max, sampled)) < pruned.vocab_size < whole.vocab_size
    assert [*map(pruned.decode, sampled[:20])] == text
    assert sampled[:20] != pruned.encode_lines(text, num_threads=1)
    lost = [name for name in vocabulary.names[4:] if name not in pieces and name.isalpha()]
    added = [next(name for name in lost if is_one == (len(name) == 1)) for is_one in (True, False)]
    grown = add_pieces(pruned, added[1:], added[:1])
    assert grown.pieces(grown.encode(" ".join(added))) == ["▁", added[0], "▁", added[1]]
    assert grown.encode_lines(text, num_threads=1) == pruned.encode_lines(text, num_threads=1)


def test_models_that_do_not_serve(english: list[str]) -> None:
    vocabulary = Vocabulary(["</s>", "<unk>"], unk=1, eos=0)
    with pytest.raises(InputError, match=r"a\.spm: is not a SentencePiece model \(3 bytes\)"):
        reorder_sentencepiece(b"\xff\xff\xff", vocabulary, name="a.spm")
    with pytest.raises(InputError, match=r"a\.spm: is a SentencePiece model of words or characters"):
        reorder_sentencepiece(train_spm(english, model_type="char", vocab_size=30), vocabulary, name="a.spm")
