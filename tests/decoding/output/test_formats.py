"""Records of translations and of scores: by hand where a search is not needed, and as lines of other programs."""

import json
import math

import pytest
import torch
from harness import Toy, random_model

from translate.config.decoding import DecodingConfig
from translate.decoding import Translation, Translator
from translate.decoding.output.formats import CorpusScore, describe, moses_n_best, score_records


@pytest.fixture
def translator(toy: Toy) -> Translator:
    return Translator(toy.model, toy.tokenizers, DecodingConfig(device="cpu", beam_size=2, look_ahead_lines=3))


def test_a_record_by_hand(toy: Toy, translator: Translator) -> None:
    source, target = toy.tokenizers.source, toy.tokenizers.target
    ids = target.encode("dog runs")
    log_probs = [-0.5] * len(ids) + [-0.25]
    other = Translation("Hund läuft", "dog", target.encode("dog"), -4.0, -3.5, True, False, [-4.0])
    translation = Translation(
        "Hund läuft",
        "dog runs",
        ids,
        log_prob=sum(log_probs),
        score=-1.5,
        truncated=False,
        source_truncated=True,
        token_log_probs=log_probs,
        source_ids=source.encode("Hund läuft"),
        unmet=("cat",),
        alternatives=(other,),
        tokens=target.pieces(ids),
        source_tokens=source.pieces(source.encode("Hund läuft")),
    )
    lengths = [len(target.encode(word)) for word in ("dog", "runs")]
    record = describe(translation._replace(alignment="0-0 1-1"), translator, number=7)
    assert record == {
        "line": 7,
        "source": "Hund läuft",
        "source_tokens": source.pieces(source.encode("Hund läuft")),
        "translation": "dog runs",
        "tokens": [*target.pieces(ids), "</s>"],
        "log_prob": -0.5 * len(ids) - 0.25,
        "score": -1.5,
        "token_log_probs": log_probs,
        "words": [
            {
                "text": word,
                "probability": pytest.approx(math.exp(-0.5 * length)),
                "mean_probability": pytest.approx(math.exp(-0.5)),
            }
            for word, length in zip(("dog", "runs"), lengths, strict=True)
        ],
        "alignment": "0-0 1-1",
        "flags": ["source_truncated", "unmet"],
        "unmet": ["cat"],
        "pieces": [],
        "n_best": [
            {
                "translation": "dog",
                "tokens": target.pieces(target.encode("dog")),
                "log_prob": -4.0,
                "score": -3.5,
                "token_log_probs": [-4.0],
            }
        ],
    }
    json.dumps(record, allow_nan=False)
    assert list(moses_n_best(translation, number=6)) == [
        f"6 ||| dog runs ||| log_prob= {-0.5 * len(ids) - 0.25:.6f} ||| -1.500000",
        "6 ||| dog ||| log_prob= -4.000000 ||| -3.500000",
    ]


def test_records_of_scores(toy: Toy, translator: Translator) -> None:
    """Read one by one; the sums hold what was read so far."""
    total = CorpusScore()
    sources, targets = toy.sources[:5], ["", *toy.references[1:5]]
    records = score_records(translator, zip(sources, targets, strict=True), total)
    first = next(records)
    assert (first["line"], first["source"], first["target"], first["tokens"]) == (1, sources[0], "", ["</s>"])
    assert (total.tokens, total.log_prob) == (1, first["log_prob"])
    everything = [first, *records]
    assert [record["line"] for record in everything] == [1, 2, 3, 4, 5]
    (whole,) = translator.score([sources[4]], [toy.tokenizers.target.encode(targets[4])])
    assert everything[4]["log_prob"] == pytest.approx(whole.log_prob, abs=1e-4)
    assert everything[4]["score"] == pytest.approx(whole.score, abs=1e-4)
    assert total.tokens == sum(len(record["token_log_probs"]) for record in everything)
    for record, text in zip(everything, targets, strict=True):
        *tokens, end = record["tokens"]
        assert end == "</s>" and tokens == toy.tokenizers.target.pieces(toy.tokenizers.target.encode(text))
        assert len(record["tokens"]) == len(record["token_log_probs"])
    assert total.log_prob == pytest.approx(sum(record["log_prob"] for record in everything))
    json.dumps(everything, allow_nan=False)


def test_a_token_of_probability_0_leaves_json(toy: Toy) -> None:
    model = random_model(toy.tokenizers, output_bias=True).eval()
    target = toy.tokenizers.target.encode("dog")
    with torch.no_grad():
        model.output.bias[target[-1]] = -math.inf
    total = CorpusScore()
    (record,) = score_records(Translator(model, toy.tokenizers, DecodingConfig()), [("Hund", "dog")], total)
    assert [record[key] for key in ("log_prob", "score", "perplexity")] == [None] * 3
    assert [number is None for number in record["token_log_probs"]] == [token == target[-1] for token in [*target, -1]]
    assert total.log_prob == -math.inf
    json.dumps(record, allow_nan=False)
