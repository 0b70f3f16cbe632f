"""Tokenizers: text comes back, draws are pure functions of the seed, and limits named in errors are exact."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
import sentencepiece

from translate.config.schema import TokenizerConfig
from translate.data.cache import DataCache
from translate.data.extension import extend_tokenizers
from translate.data.tokenizer import (
    BOS_ID,
    EOS_ID,
    MAX_CHARACTERS,
    PAD_ID,
    UNK_ID,
    WHOLE_PARTS,
    Tokenizer,
    Tokenizers,
    is_sentinel,
    load_tokenizers,
    prepare_tokenizers,
    read_tokenizer,
    train_tokenizer,
)
from translate.errors import InputError


def settings(**changes: object) -> TokenizerConfig:
    return TokenizerConfig.model_validate({"vocab_size": 331, **changes})


def test_decoding_leaves_out_special_symbols(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("Ein Mann")
    assert tokenizer.decode([PAD_ID, BOS_ID, *ids, EOS_ID, PAD_ID, PAD_ID]) == "Ein Mann"
    assert "".join(tokenizer.pieces(ids)) == "▁Ein▁Mann"
    assert tokenizer.pieces([PAD_ID, UNK_ID, BOS_ID, EOS_ID]) == ["<pad>", "<unk>", "<s>", "</s>"]


@pytest.mark.parametrize("type_", ["bpe", "unigram"])
def test_training_is_deterministic_and_quiet(type_: str, capfd: pytest.CaptureFixture[str], german: list[str]) -> None:
    config = settings(type=type_)
    models = {train_tokenizer(iter(german), config).model_bytes for _ in range(3)}
    assert len(models) == 1
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("is_extended", [False, True], ids=["trained", "extended"])
@pytest.mark.parametrize("normalization", ["nmt_nfkc", "nmt_nfkc_cf", "identity"])
@pytest.mark.parametrize("type_", ["bpe", "unigram"])
def test_placeholders_stay_whole_and_so_do_the_spaces_around_them(
    type_: str, normalization: str, is_extended: bool, german: list[str]
) -> None:
    size = 328 + 171  # 170 placeholders and <x>: within the size of a trained tokenizer, in addition to another's
    config = settings(type=type_, normalization=normalization, vocab_size=size, add_pieces=["<placeholders>", "<x>"])
    given = settings(type=type_, normalization=normalization, vocab_size=328) if is_extended else config
    tokenizer = extend_tokenizers(prepare_tokenizers(given, german, german), config, [], []).source
    assert tokenizer.vocab_size == size
    texts = {
        'ein "%s"?': ["%s"],
        "(%d)": ["%d"],
        "eine %1%% %": ["%1", "%%"],
        "a%sb{}": ["%s", "{}"],
        "%1$d %2$s%n": ["%1$d", "%2$s", "%n"],
        "<b>%L1</b><br/> {0} <x>": ["<b>", "%L1", "</b>", "<br/>", "{0}", "<x>"],
        "%10": ["%1"],
    }
    for text, pieces in texts.items():
        ids = tokenizer.encode(text)
        assert [piece for piece in tokenizer.pieces(ids) if re.fullmatch(r"[%{<](?!0x)\S+", piece)] == pieces
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("piece", ["<s>", "<unk>", "<0x41>"])
def test_special_symbols_are_no_pieces_to_add(piece: str, german: list[str]) -> None:
    with pytest.raises(InputError, match=f"tokenizer.add_pieces: {piece} "):
        train_tokenizer(german, settings(add_pieces=[piece]))


@pytest.mark.parametrize("type_", ["bpe", "unigram"])
@pytest.mark.parametrize("byte_fallback", [True, False])
def test_the_vocabulary_sizes_named_in_errors_are_exact(type_: str, byte_fallback: bool, german: list[str]) -> None:
    def size_named(asked: int) -> int:
        with pytest.raises(InputError, match=rf"^tokenizer.vocab_size = {asked} is too ") as caught:
            train_tokenizer(german, settings(type=type_, vocab_size=asked, byte_fallback=byte_fallback))
        named = re.search(r": (\d+) is the (smallest|largest) that works", str(caught.value))
        assert named is not None, caught.value
        return int(named[1])

    smallest, largest = size_named(8), size_named(5000)
    # By hand: four special symbols, the word boundary ▁, 256 bytes, and each character once.
    characters = len(set("".join(german)) - {" "})
    assert smallest == 4 + 1 + 256 * byte_fallback + characters
    for size in (smallest, largest):
        trained = train_tokenizer(german, settings(type=type_, vocab_size=size, byte_fallback=byte_fallback))
        assert trained.vocab_size == size
    assert size_named(smallest - 1) == smallest
    assert size_named(largest + 1) == largest


def test_errors_of_training_name_the_side(german: list[str], english: list[str]) -> None:
    config = settings(vocabulary="separate", vocab_size=5000)
    with pytest.raises(InputError, match=r"vocab_size = 5000 .* the source side .*: \d+ .* type bpe$"):
        prepare_tokenizers(config, german, english)
    with pytest.raises(InputError, match="^tokenizer: the training text is empty"):
        train_tokenizer(["", "  "], settings())


@pytest.mark.parametrize("type_", ["bpe", "unigram"])
def test_a_line_is_trained_on_whole_in_parts(type_: str, german: list[str], english: list[str]) -> None:
    words = " ".join([*german, *english]).split(" ")
    together, apart = " ".join(words * 97), [" ".join(words)] * 97  # 60,000 characters
    spaced = train_tokenizer([together], settings(type=type_))
    if type_ == "bpe":  # counts words, and so cannot tell where a line is cut
        assert spaced.model_bytes == train_tokenizer(apart, settings(type=type_)).model_bytes
    assert spaced.decode(spaced.encode(together)) == together
    # The last of 100,000 letters without a space counts too.
    solid = train_tokenizer([*german, "ab" * 50_000 + "ж"], settings(type=type_))
    assert len(solid.encode("ж")) <= 2 and UNK_ID not in solid.encode("ж")
    assert not any("<0x" in piece for piece in solid.pieces(solid.encode("ж")))


@pytest.mark.parametrize("text", ["Ein Hund läuft. ", "x", " ", "\U0001f600"])
def test_a_line_of_millions_is_over_any_limit(tokenizer: Tokenizer, text: str) -> None:
    """Only its beginning is segmented, which takes little time and memory; also if the rest would have no token."""
    line = f"Ein Mann{text * (MAX_CHARACTERS // len(text))}"
    short, ids, again = tokenizer.encode_lines(["Hund", line, line[:MAX_CHARACTERS]], num_threads=1)
    assert short == tokenizer.encode("Hund") and ids == tokenizer.encode(line)
    assert ids == again + [PAD_ID] * (len(ids) - len(again)) and len(ids) > MAX_CHARACTERS > 4
    assert all(len(part) <= MAX_CHARACTERS for part in WHOLE_PARTS.findall(line))
    assert "".join(WHOLE_PARTS.findall(line)) == line


def test_the_parts_of_a_line_have_its_ids(tokenizer: Tokenizer) -> None:
    line = "Ein Hund läuft über die Straße. " * 40_000
    parts = [token for part in WHOLE_PARTS.findall(line) for token in tokenizer.encode(part)]
    assert len(line) > MAX_CHARACTERS and parts == 40_000 * tokenizer.encode("Ein Hund läuft über die Straße.")


def test_max_training_lines_are_evenly_spaced(monkeypatch: pytest.MonkeyPatch, german: list[str]) -> None:
    trained_on: list[list[str]] = []

    def train(lines: Sequence[str], config: TokenizerConfig, *, text_name: str = "") -> Tokenizer:
        trained_on.append(list(lines))
        return train_tokenizer(german, settings())

    monkeypatch.setattr("translate.data.tokenizer.train_tokenizer", train)
    source, target = [f"s{number}" for number in range(7)], ["t" * MAX_CHARACTERS, "t1", "t2"]
    given = source, [f"{target[0]} and more", *target[1:]]  # which is left out of training
    prepare_tokenizers(settings(max_training_lines=3), *given)
    prepare_tokenizers(settings(max_training_lines=3, vocabulary="separate"), *given)
    # By hand: floor(0 · 7/3), floor(1 · 7/3), floor(2 · 7/3)
    assert trained_on == [["s0", "s2", "s4", *target], ["s0", "s2", "s4"], target]


def test_a_cached_model_depends_on_its_own_text_only(tmp_path: Path, german: list[str], english: list[str]) -> None:
    cache, config = DataCache(folder=tmp_path), settings(vocabulary="separate")
    texts = [(german, english), (german, english[1:]), (english, german)]
    made = [(prepare_tokenizers(config, *each, cache=cache), cache.num_made) for each in texts]
    (first, _), _, (swapped, _) = made
    assert [number for _, number in made] == [2, 3, 3]
    assert swapped.source.model_bytes == first.target.model_bytes


def test_joint_and_separate_are_saved_and_loaded(tmp_path: Path, german: list[str], english: list[str]) -> None:
    for vocabulary, names in (("joint", ["joint.model"]), ("separate", ["source.model", "target.model"])):
        made = prepare_tokenizers(settings(vocabulary=vocabulary), german, english)
        assert (made.source is made.target) == (vocabulary == "joint")
        directory = tmp_path / vocabulary
        directory.mkdir()
        made.save(directory)
        assert sorted(path.name for path in directory.iterdir()) == names
        loaded = load_tokenizers(directory)
        assert loaded.vocabulary == vocabulary
        assert loaded.source.encode(german[0]) == made.source.encode(german[0])
        assert loaded.target.encode(english[0]) == made.target.encode(english[0])
    (tmp_path / "separate" / "target.model").unlink()
    with pytest.raises(InputError, match=r"target\.model: no such file$"):
        load_tokenizers(tmp_path / "separate")
    with pytest.raises(InputError, match=rf"^{tmp_path}: .*joint\.model"):
        load_tokenizers(tmp_path)


def test_ready_models_are_used_as_they_are(tmp_path: Path, german: list[str], english: list[str]) -> None:
    source, target = tmp_path / "a.model", tmp_path / "b.model"
    source.write_bytes(train_tokenizer(german, settings(vocab_size=337)).model_bytes)
    target.write_bytes(train_tokenizer(english, settings(vocab_size=347)).model_bytes)
    both = prepare_tokenizers(settings(vocabulary="separate", source_model=source, target_model=target), [], [])
    assert (both.source.vocab_size, both.target.vocab_size, both.vocabulary) == (337, 347, "separate")
    joint = prepare_tokenizers(settings(source_model=source), [], [])
    assert joint.source is joint.target and joint.source.vocab_size == 337
    assert isinstance(joint, Tokenizers)


def spm_train(folder: Path, lines: list[str], **options: object) -> Path:
    """A model that SentencePiece trains with its own defaults."""
    (folder / "text").write_text("\n".join(lines), encoding="utf-8")
    options = {"input": str(folder / "text"), "model_prefix": str(folder / "foreign"), "vocab_size": 60} | options
    sentencepiece.SentencePieceTrainer.train(minloglevel=2, **options)
    return folder / "foreign.model"


@pytest.mark.parametrize(
    "ids", [{}, {"pad_id": 3}, {"bos_id": -1, "eos_id": 2}, {"unk_id": 1, "bos_id": 0, "pad_id": 9}]
)
def test_other_special_ids_become_ours(tmp_path: Path, german: list[str], ids: dict[str, int]) -> None:
    model = spm_train(tmp_path, german, **ids)
    own, original = read_tokenizer(model), sentencepiece.SentencePieceProcessor(model_file=str(model))
    for line in [*german[:20], "ж?"]:
        assert own.pieces(own.encode(line)) == [original.id_to_piece(token) for token in original.encode(line)]
        assert own.decode(own.encode(line)) == original.decode(original.encode(line))
    assert own.pieces([PAD_ID, UNK_ID, BOS_ID, EOS_ID]) == ["<pad>", "<unk>", "<s>", "</s>"]


def test_models_that_do_not_serve(tmp_path: Path, german: list[str]) -> None:
    model = spm_train(tmp_path, german)
    with pytest.raises(InputError, match=r"^x\.model: has the special ids \(-1, 0, 1, 2\), not \(0, 1, 2, 3\);"):
        Tokenizer(model.read_bytes(), name="x.model")
    suffix = spm_train(tmp_path, german, treat_whitespace_as_suffix=True)
    with pytest.raises(InputError, match=f"^{suffix}: .*--treat_whitespace_as_suffix"):
        read_tokenizer(suffix)
    whole = model.read_bytes()
    for damaged in (whole[: len(whole) // 2], b""):
        with pytest.raises(InputError, match=rf"^x\.model: .*\({len(damaged)} bytes\); copy it again"):
            Tokenizer(damaged, name="x.model")


def test_an_added_piece_with_the_name_of_a_sentinel_can_be_generated(german: list[str]) -> None:
    tokenizer = train_tokenizer(german, settings(add_pieces=["<extra_id_0>"]))
    assert "<extra_id_0>" in tokenizer.all_pieces and tokenizer.never_generated == [PAD_ID, BOS_ID]


def test_pieces_that_stand_for_no_text() -> None:
    symbols = ["<extra_id_7>", "▁<extra_id_99>", "<unnamed_250111>", "madeupword0000", "madeupword128104"]
    assert [
        piece for piece in (*symbols, "madeupword", "▁madeupword128104", "extra_id_7") if is_sentinel(piece)
    ] == symbols
