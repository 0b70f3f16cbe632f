"""The second start: what was trained and encoded is read, and the same comes out."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from trainings import Digits

from translate.config.load import override_config
from translate.config.schema import Config
from translate.data.cache import DataCache
from translate.data.corpora import data_fingerprint
from translate.data.extension import add_tags
from translate.decoding.counterparts import COUNTERPARTS
from translate.errors import InputError
from translate.training import preparation
from translate.training.preparation import check_validation, make_tokenizers, prepare_data, read_corpora


class Prepared:
    """Everything before the first step, with a cache in a folder or without, and the facts that two starts share."""

    def __init__(self, config: Config, folder: Path | None) -> None:
        cache = None if folder is None else DataCache(folder=folder)
        data = prepare_data(config, device=torch.device("cpu"), cache=cache)
        self.tokenizers, self.num_made = data.tokenizers, 0 if cache is None else cache.num_made
        batches = [batch for number in range(2) for batch in data.batches.epoch(number)]
        self.facts = (
            [tokenizer.model_bytes for tokenizer in data.tokenizers[:2]],
            data_fingerprint(data.corpora.train, data.tokenizers),
            [(batch.indices, *(ids.tolist() for ids in batch[:3])) for batch in batches],
        )


@pytest.mark.parametrize(("vocabulary", "num_entries", "sampling"), [("joint", 3, "0.2"), ("separate", 4, "null")])
def test_the_second_start_is_the_first(
    digits: Digits, tmp_path: Path, vocabulary: str, num_entries: int, sampling: str
) -> None:
    folder = tmp_path / "cache"
    config = digits(
        f"tokenizer.vocabulary={vocabulary}", "model.tie_embeddings=none", f"tokenizer.subword_sampling={sampling}"
    )
    without, first, second = Prepared(config, None), Prepared(config, folder), Prepared(config, folder)
    assert first.facts == without.facts == second.facts
    assert (first.num_made, second.num_made) == (num_entries, 0)
    assert len(list(folder.iterdir())) == num_entries


def test_only_what_decides_counts(digits: Digits, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    assert Prepared(digits(), folder).num_made == 3
    # What is filtered, sampled, batched and how often it is seen is decided after encoding.
    same = digits("data.max_source_tokens=5", "tokenizer.subword_sampling=0.1", "training.batch_tokens=200",
                  "training.seed=5", "training.threads=1")  # fmt: skip
    assert Prepared(same, folder).num_made == 0
    assert Prepared(digits("tokenizer.vocab_size=39"), folder).num_made == 3
    text = (tmp_path / "train.in").read_text(encoding="utf-8")
    (tmp_path / "train.in").write_text(text.replace("0", "1", 1), encoding="utf-8")
    assert Prepared(digits(), folder).num_made == 2  # the same tokenizer came out, and the targets' ids are there


def test_the_tokenizer_has_seen_capitals_and_no_typos(digits: Digits, tmp_path: Path) -> None:
    """It is that of the text in capitals, whatever the typos; token ids of the plain text are kept once."""
    for path in tmp_path.glob("*.[io]*"):
        path.write_text(path.read_text().translate(str.maketrans("0123456789", "abcdefghij")))
    folder, capitals = tmp_path / "cache", "data.train.0.augment={upper_case: 1"
    plain, upper = Prepared(digits(), folder), Prepared(digits(f"{capitals}}}"), folder)
    assert plain.tokenizers.source.lacks("A") and not upper.tokenizers.source.lacks("A")
    assert upper.tokenizers.source.lacks("a")
    assert (plain.num_made, upper.num_made) == (3, 3)
    with_typos = Prepared(digits(f"{capitals}, typos: 1}}"), folder)
    assert with_typos.tokenizers.source.model_bytes == upper.tokenizers.source.model_bytes and with_typos.num_made == 0
    assert with_typos.facts != upper.facts


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["decoding.engine=ctranslate2", "decoding.mbr=chrf"], "decoding.mbr = 'chrf'"),  # only in the last evaluation
        (["decoding.engine=ctranslate2", "decoding.no_repeat_ngram=2"], "decoding.no_repeat_ngram = 2"),
        (["decoding.forbidden_ids=[[7], [5, 40]]"], "decoding.forbidden_ids: 40 is not an id"),
    ],
)
def test_what_no_validation_could_do_is_refused_before_training(
    digits: Digits, overrides: list[str], message: str
) -> None:
    config, works = digits(*overrides), digits("decoding.engine=ctranslate2", "decoding.precision=int8")
    corpora = read_corpora(config)
    tokenizers = make_tokenizers(config, corpora)
    check_validation(works, corpora, tokenizers)
    with pytest.raises(InputError, match=re.escape(message)):
        check_validation(config, corpora, tokenizers)


@pytest.mark.parametrize("engine", ["decoding.engine=ctranslate2", "decoding.precision=int8"])
def test_a_model_that_the_engine_lacks_is_refused_before_training(
    digits: Digits, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """As if CTranslate2 had no relu. Without validation, nothing else would show it before the model is decoded."""
    activations = COUNTERPARTS["activation"]
    monkeypatch.setitem(activations, "relu", activations["relu"]._replace(ctranslate2=None))
    config = digits(engine, "data.validation=null")
    corpora = read_corpora(config)
    with pytest.raises(InputError, match="model.activation = 'relu'"):
        check_validation(config, corpora, make_tokenizers(config, corpora))


@pytest.mark.parametrize(("streaming", "weight"), [("false", "1"), ("false", "3"), ("true", "1")])
def test_the_share_of_sources_with_several_sentences(
    digits: Digits, tmp_path: Path, streaming: str, weight: str
) -> None:
    """Pairs that are left out do not count, and the others as often as they are seen."""
    one, other = "Franz jagt im Taxi quer durch Bayern.", "Zwölf Boxkämpfer jagen Viktor über den Deich."
    rows = [(f"{one} {other}", one), *[(one, other)] * 3, (f"{one} " * 99, one)]
    lines = "".join(json.dumps({"de": source, "en": target}) + "\n" for source, target in rows)
    (tmp_path / "a.jsonl").write_text(lines * 20, encoding="utf-8")
    table = f"kind: json, path: {tmp_path}/a.jsonl, source_column: de, target_column: en, streaming: {streaming}"
    text = f"kind: text, source: {tmp_path}/train.in, target: {tmp_path}/train.out, weight: {weight}"
    corpora = [table] if streaming == "true" else [table, text]
    limits = (
        "data.max_source_tokens=200",
        "data.max_target_tokens=200",
        "training.batch_tokens=999",
        "tokenizer.vocab_size=60",
    )
    config = digits(f"data.train=[{', '.join(f'{{{corpus}}}' for corpus in corpora)}]", *limits)
    data = prepare_data(config, device=torch.device("cpu"))
    others = int(weight) * len(data.corpora.train[1].sources) if len(corpora) > 1 else 0
    assert data.multi_sentence_share == pytest.approx(20 / (80 + others), rel=0.05)


@pytest.mark.parametrize("vocabulary", ["joint", "separate"])
def test_a_language_that_the_vocabulary_of_one_side_has_is_not_added(
    digits: Digits, monkeypatch: pytest.MonkeyPatch, vocabulary: str
) -> None:
    """With tags of the target, only its vocabulary has them."""
    base = digits(f"tokenizer.vocabulary={vocabulary}", "model.tie_embeddings=none")
    corpora = read_corpora(base)
    tagged = add_tags(make_tokenizers(base, corpora), [], [base.data.language_tag.format("de")])
    monkeypatch.setattr(preparation, "open_run", lambda _: SimpleNamespace(tokenizers=tagged))
    tuned = {"training.initialize_from": "base", "tokenizer.add_languages": {"de": None}}
    with pytest.raises(InputError, match=r"tokenizer\.add_languages: the vocabulary already has .*de"):
        make_tokenizers(override_config(base, tuned), corpora)
