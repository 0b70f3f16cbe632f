"""A tokenizer.json segments as SentencePiece does, by Hugging Face's `tokenizers`; tests/system asks a browser."""

from pathlib import Path
from typing import Any

import pytest
from harness import ODD_TEXT, corpus_lines, model_to_export

from translate.config.schema import TokenizerConfig
from translate.data.extension import add_pieces, add_tags
from translate.data.tokenizer import EOS_ID, Tokenizer, Tokenizers, train_tokenizer
from translate.exchange.tokenizer_json import find_obstacle, write_tokenizer_json

tokenizers = pytest.importorskip("tokenizers", reason="the extra `huggingface` is not installed")


SYMBOLS = ODD_TEXT[3]  # which unigram takes for such rather than for unknown characters


def make_joint(**settings: Any) -> Tokenizers:
    lines = [*corpus_lines("train.de")[:1000], *corpus_lines("train.en")[:1000], *ODD_TEXT[:3]]
    config = TokenizerConfig.model_validate({"vocab_size": 500, **settings})
    tokenizer = train_tokenizer(lines, config)
    return Tokenizers(tokenizer, tokenizer, "joint")


def load(tokenizer: Tokenizer, folder: Path) -> Any:
    write_tokenizer_json(tokenizer, folder / "tokenizer.json")
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"byte_fallback": False, "character_coverage": 0.995}, {"normalization": "nmt_nfkc_cf"},
     {"normalization": "identity"}],
    ids=str,
)  # fmt: skip
def test_the_same_ids_and_texts(kind: str, settings: dict[str, Any], tmp_path: Path) -> None:
    ours = make_joint(type=kind, **settings)
    assert find_obstacle(ours) is None
    theirs = load(ours.source, tmp_path)
    lines = [*corpus_lines("test.de")[:100], *corpus_lines("test.en")[:100], *ODD_TEXT, "\U000f0000 dog"]
    if kind == "unigram" and "<" not in ours.source.all_pieces:
        lines.remove(SYMBOLS)
    for line in lines:
        ids = ours.source.encode(line)
        assert theirs.encode(line).ids == [*ids, EOS_ID], line
        assert theirs.decode([2, *ids, EOS_ID]) == ours.source.decode(ids)


def test_a_tag_is_one_token(tmp_path: Path) -> None:
    ours = add_tags(make_joint(), ["<2en>"], ["<2de>"])
    assert find_obstacle(ours) is None
    theirs = load(ours.source, tmp_path)
    ids = ours.source.encode("Ein Hund läuft.")
    tags = [ours.source.tag_id(tag) for tag in ("<2en>", "<2de>")]
    assert theirs.encode("<2en> Ein Hund läuft.").ids == [tags[0], *ids, EOS_ID]
    assert theirs.decode([2, tags[1], *ids, EOS_ID]) == "Ein Hund läuft."


def test_what_stands_in_the_way() -> None:
    joint = make_joint().source
    medical = add_pieces(joint, ["<medical>"], ())
    assert "separate" in str(find_obstacle(model_to_export(tie_embeddings="none", vocabulary="separate")[1]))
    assert "add_pieces" in str(find_obstacle(Tokenizers(medical, medical, "joint")))
