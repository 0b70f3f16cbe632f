"""Any text in: pairing and order are kept, nothing is lost unsaid, and tokens spell what they were made from."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from translate.config.data import DataConfig, TextCorpus
from translate.config.schema import TokenizerConfig
from translate.data import corpora, token_store
from translate.data.corpora import ParallelCorpus, read_corpus
from translate.data.epochs import BatchSettings, TrainingBatches
from translate.data.subword_sampling import SubwordSampler
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizer, Tokenizers, train_tokenizer

few = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

# Ends of lines and spaces for Python, Unicode or a terminal, and characters with a meaning of their own.
ODD = (
    "\n\r\t\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029 \u00a0\u3000\u200b\ufeff\u200d▁<>&ß"
    "\u0301\u0308\u05d0\u0627\ue000\ufffd\U0001f984\U0001f3fd\u0915\u094d\u1112\u1161"
)
characters = st.one_of(
    st.sampled_from(ODD), st.characters(exclude_categories=["Cs"], exclude_characters="\0"), st.sampled_from("aä Mn.")
)
any_text = st.text(characters, max_size=40)
any_line = st.text(characters.filter(lambda character: character != "\n"), max_size=40)


@pytest.fixture(params=["lists", "files"])
def storage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where corpora are held: both ways are tried on the same text."""
    if request.param == "files":
        monkeypatch.setattr("translate.data.cache.cache_folder", lambda: tmp_path / "cache")
        monkeypatch.setattr(corpora, "MAX_BYTES_IN_MEMORY", 0)
        monkeypatch.setattr(token_store, "MAX_BYTES_IN_MEMORY", 0)
    return request.param


def split_by_hand(data: bytes) -> list[str]:
    """Lines end in 0x0a; one 0x0d before that, and the mark that the file begins with, are no text."""
    pieces = data.split(b"\n")
    if pieces[-1] == b"":
        pieces.pop()
    lines = [piece[:-1] if piece[-1:] == b"\r" else piece for piece in pieces]
    if lines and lines[0][:3] == b"\xef\xbb\xbf":
        lines[0] = lines[0][3:]
    return [line.decode() for line in lines]


@few
@given(st.lists(st.tuples(any_line, any_line), min_size=1, max_size=12), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_pairs_stay_pairs(
    tmp_path: Path, storage: str, pairs: list[tuple[str, str]], line_end: str, ends_in_newline: bool
) -> None:
    source, target = tmp_path / "a.de", tmp_path / "a.en"
    for side, path in enumerate((source, target)):
        text = "".join(pair[side] + line_end for pair in pairs)
        path.write_bytes((text if ends_in_newline else text.removesuffix(line_end) + "." + line_end).encode())
    corpus = read_corpus(TextCorpus(source=source, target=target), key="k")
    assert list(corpus.sources) == split_by_hand(source.read_bytes())
    assert list(corpus.targets) == split_by_hand(target.read_bytes())
    assert len(corpus.sources) == len(corpus.targets) == len(pairs)


@few
@given(
    st.lists(st.tuples(any_line, any_line), min_size=1, max_size=30),
    st.integers(60, 200),
    st.sampled_from([None, 0.3]),
    st.integers(0, 3),
)
def test_every_kept_pair_is_seen_once_an_epoch(
    storage: str, pairs: list[tuple[str, str]], batch_tokens: int, sampling: float | None, number: int
) -> None:
    tokenizer = tokenizers("bpe", "nmt_nfkc")
    pairs = [*pairs, ("Ein Mann", "läuft")]  # not all may be left out
    corpus = ParallelCorpus("news", [source for source, _ in pairs], [target for _, target in pairs], 1.0)
    limits = DataConfig(max_source_tokens=50, max_target_tokens=40)
    settings = BatchSettings(limits, subword_sampling=sampling, batch_tokens=batch_tokens, seed=1)
    batches = TrainingBatches([corpus], Tokenizers(tokenizer, tokenizer, "joint"), settings)
    seen = []
    for batch in batches.epoch(number):
        assert batch.source_ids.numel() <= batch_tokens and batch.target_input_ids.numel() <= batch_tokens
        rows = zip(*(tensor.tolist() for tensor in batch[:3]), batch.indices, strict=True)
        for source, target_input, target_output, index in rows:
            source_tokens, target_tokens = unpadded(source), unpadded(target_output)
            assert source_tokens[-1] == target_tokens[-1] == EOS_ID
            assert unpadded(target_input) == [BOS_ID, *target_tokens[:-1]]
            assert len(source_tokens) <= 51 and len(target_tokens) <= 41
            for ids, line in ((source_tokens, pairs[index][0]), (target_tokens, pairs[index][1])):
                usual = tokenizer.encode(line)
                assert ids[:-1] == usual if sampling is None else tokenizer.decode(ids) == tokenizer.decode(usual)
            seen.append(index)
        assert all(tensor.shape[1] == max(len(unpadded(row)) for row in tensor.tolist()) for tensor in batch[:3])
    (report,) = batches.filter_reports
    assert len(seen) == len(set(seen)) == report.num_kept
    assert report.num_pairs == len(pairs)


def unpadded(row: list[int]) -> list[int]:
    """The row without its padding, which must be at its right end."""
    num_tokens = len(row) - row[::-1].index(next(token for token in row[::-1] if token != PAD_ID))
    assert PAD_ID not in row[:num_tokens]
    return row[:num_tokens]


@cache
def tokenizers(kind: str, normalization: str) -> Tokenizer:
    lines = ["Ein Mann läuft durch den Schnee.", "Zwei Männer mit Hüten", "a b c d  e", "x▁y und z"] * 3
    config = TokenizerConfig.model_validate({"type": kind, "vocab_size": 292, "normalization": normalization})
    return train_tokenizer(lines, config)


every_kind: Callable[..., Callable[..., None]] = pytest.mark.parametrize("kind", ["bpe", "unigram"])


def one_space_between_words(text: str) -> str:
    """What SentencePiece does to U+0020, and to ▁ (U+2581) which it writes for it, whatever the normalisation."""
    return " ".join(word for word in text.replace("▁", " ").split(" ") if word)


@every_kind
@few
@given(text=any_text | st.just("a\0b"))
def test_identity_gives_the_text_back_but_for_repeated_spaces(kind: str, text: str) -> None:
    tokenizer = tokenizers(kind, "identity")
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == one_space_between_words(text)
    assert all(token > EOS_ID for token in ids)  # no padding, no unknown: bytes spell everything


@every_kind
@few
@given(lines=st.lists(any_text, max_size=5), amount=st.floats(0.01, 0.99), seed=st.integers(0, 2**62))
def test_sampled_segmentations_spell_the_same(kind: str, lines: list[str], amount: float, seed: int) -> None:
    tokenizer = tokenizers(kind, "nmt_nfkc")
    sampled = SubwordSampler(tokenizer.model_bytes).sample(lines, amount=amount, seed=seed)
    usual = tokenizer.encode_lines(lines, num_threads=1)
    assert [tokenizer.decode(ids) for ids in sampled] == [tokenizer.decode(ids) for ids in usual]
