"""Pages and figures of attention hold the model's own weights, bit by bit, which follow from the queries and keys."""

import base64
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from harness import MakeTranslator, make_two_ways, page_data
from pretend_device import PretendDevice
from torch import Tensor

from translate.data.batching import EncodedPair, collate
from translate.decoding import Translator
from translate.decoding.alignment import merge_units
from translate.decoding.loading import load_own_translator
from translate.errors import InputError
from translate.visualize.attention import (
    Attention,
    AttentionChoice,
    attention_page,
    attention_picture,
    capture_attention,
    look_at_attention,
)
from translate.visualize.page import picture_page
from translate.visualize.panels import Matrix, Picture, Table, printable
from translate.visualize.sentences import MERGED


@pytest.fixture(scope="module")
def attention(make_translator: MakeTranslator) -> Attention:
    return look_at(make_translator(positions="rotary"), AttentionChoice())


def look_at(translator: Translator, choice: AttentionChoice) -> Attention:
    return look_at_attention(
        translator, "Der Künstler läuft.", target="The artist runs.", choice=choice, name="toy", step=12
    )


def floats(text: str) -> Any:
    return np.frombuffer(base64.b64decode(text), dtype="<f4")


@pytest.mark.parametrize(("kind", "tags"), [("source", 1), ("target", 1), ("both", 2)])
def test_tags_of_languages_are_tokens(tmp_path: Path, kind: str, tags: int) -> None:
    """Each is a word by itself, and the log-probability leaves them out."""
    run = make_two_ways(tmp_path, [kind], num_steps=0)[kind]
    translator = load_own_translator(run.path).translator.toward(to="de")
    found = look_at_attention(translator, "dog runs", target="Hund läuft", choice=AttentionChoice(), name="toy", step=7)
    before, start = translator.tag_ids()
    assert len(before) + len(start) == tags
    pieces = translator.tokenizers.source.pieces
    assert found.pair.source.pieces == [*pieces(before), *pieces(found.pair.text_ids.source), "</s>"]
    assert found.pair.target_input.pieces == ["<s>", *pieces(start), *pieces(found.pair.text_ids.target)]
    assert [word.text for word in found.pair.source.words[-3:]] == ["dog", "runs", "</s>"]
    shapes = {each.kind: tuple(each.weights.shape[1:]) for each in found.layers}
    columns, rows = len(found.pair.source.pieces), len(found.pair.target_output.pieces)
    assert shapes == {"encoder": (columns, columns), "decoder": (rows, rows), "cross": (rows, columns)}
    (score,) = translator.score(["dog runs"], [found.pair.text_ids.target])
    assert f"{-score.log_prob:.3f} nats" in found.paragraphs[0]


@pytest.mark.parametrize("positions", ["rotary", "relative"])
def test_attention_on_another_device_is_that_of_the_cpu(
    make_translator: MakeTranslator, pretend: PretendDevice, positions: str
) -> None:
    translator = make_translator(positions=positions)
    expected = look_at(translator, AttentionChoice())
    translator.model.to(pretend.device)
    found = look_at(translator, AttentionChoice())
    assert len(found.layers) == len(expected.layers) == 6
    for one, other in zip(found.layers, expected.layers, strict=True):
        assert one[:2] == other[:2] and torch.equal(one.visible, other.visible)
        torch.testing.assert_close(one.weights, other.weights, rtol=0, atol=1e-5)
    assert page_data(attention_page(found))["tokens"] == page_data(attention_page(expected))["tokens"]


def test_the_page_has_all_heads_bit_by_bit(attention: Attention) -> None:
    data = page_data(attention_page(attention))
    assert [kind["kind"] for kind in data["kinds"]] == ["encoder", "decoder", "cross"]
    layers = {(each.kind, each.layer): each for each in attention.layers}
    assert len(layers) == 6
    for kind in data["kinds"]:
        for number, layer in enumerate(kind["layers"]):
            captured = layers.pop((kind["kind"], number))
            assert np.array_equal(floats(layer), captured.weights.numpy().ravel())
            rows = ["".join("1" if cell else "0" for cell in row) for row in captured.visible]
            assert kind["visible"] == rows
    assert layers == {}
    assert [word["text"] for word in data["tokens"]["source"]["words"]] == ["Der", "Künstler", "läuft.", "</s>"]
    assert data["paragraphs"][0].startswith("Forced: the translation was given. Step 12, fp32;")
    assert data["start"] == {"kind": "cross", "layer": 1, "head": -1, "unit": "subwords"}  # the mean
    assert data["merged"] == MERGED


HOSTILE = "</script><script>alert(1)</script> & <b>„fett“</b> {{style}} \u2028"


@pytest.mark.parametrize("kind", ["attention", "panels"])
def test_a_page_needs_nothing_else_and_no_text_gets_out_of_its_place(attention: Attention, kind: str) -> None:
    if kind == "attention":
        pair = attention.pair._replace(source_text=HOSTILE)
        page = attention_page(attention._replace(pair=pair, title=HOSTILE))
        assert page_data(page)["source"] == HOSTILE
    else:
        pytest.importorskip("vl_convert", reason="the extra `pictures` is not installed")
        page = picture_page(Picture(HOSTILE, [HOSTILE], [Table(HOSTILE, [HOSTILE], [[HOSTILE]])]))
        assert page_data(page)["panels"][0]["rows"] == [[printable(HOSTILE)]]
    library = (
        r"<script>\(\(\) => \{\n.*?\n\}\)\(\);</script>"  # Vega-Lite, which could ask for more, but not from this page
    )
    page = re.sub(library, "", page, flags=re.DOTALL)
    assert page.count("<script") == 2 and page.count("</script>") == 2 and "alert(1)</script>" not in page
    assert re.findall(r"(?:src|href|url|import|fetch)\s*[=(]\s*[\"']?", page) == []
    addresses = set(re.findall(r"https?://[^\s\"']+", page))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # the name of a language, which no browser asks for
    assert "default-src 'none'" in page
    assert page.startswith("<!doctype html>") and '<meta charset="utf-8">' in page


def masked(weights: Tensor) -> list[Any]:
    """Rows without the numbers of the future."""
    rows = enumerate(weights.double().tolist())
    return [pytest.approx([None if key > query else value for key, value in enumerate(row)]) for query, row in rows]


def test_the_figure_has_the_same_weights(attention: Attention) -> None:
    picture = attention_picture(attention._replace(choice=AttentionChoice("decoder")))
    assert picture.columns == 4 and len(picture.panels) == 8  # the mean and three heads of two layers
    (heads,) = [each.weights for each in attention.layers if (each.kind, each.layer) == ("decoder", 1)]
    for place, title, weights in [(4, "mean of the heads", heads.double().mean(dim=0)), (6, "head 1", heads[1])]:
        panel = picture.panels[place]
        assert isinstance(panel, Matrix) and panel.title == f"layer 1, {title}"
        assert list(panel.rows) == list(panel.columns) == attention.pair.target_input.pieces
        assert panel.values == masked(weights)
    assert "Der Künstler läuft. → The artist runs." in picture.paragraphs


def test_the_figure_of_one_head_in_words(attention: Attention) -> None:
    pair = attention.pair
    for kind, head in (("cross", 2), ("decoder", 0)):
        picture = attention_picture(attention._replace(choice=AttentionChoice(kind, 0, head, "words")))  # type: ignore[arg-type]
        (panel,) = picture.panels
        assert isinstance(panel, Matrix) and MERGED in picture.paragraphs
        queries, keys = (pair.target_output, pair.source) if kind == "cross" else (pair.target_input, pair.target_input)
        assert list(panel.rows) == [word.text for word in queries.words]
        assert list(panel.columns) == [word.text for word in keys.words]
        (heads,) = [each.weights for each in attention.layers if (each.kind, each.layer) == (kind, 0)]
        units = ([word.positions for word in side.words] for side in (keys, queries))
        weights = merge_units(heads[head].double(), *units)
        assert panel.values == (list(map(pytest.approx, weights.tolist())) if kind == "cross" else masked(weights))


@pytest.mark.parametrize(
    ("choice", "error"),
    [
        ({"kind": "encoder", "layer": -1}, "^--layer -1: the encoder has layers 0 to 1$"),
        ({"kind": "self"}, "^kind = 'self': .*'encoder', 'decoder', 'cross'$"),
        ({"unit": "word"}, "^unit = 'word': .*'subwords', 'words'$"),
    ],
)
def test_a_choice_that_is_not_there(make_translator: MakeTranslator, choice: dict[str, Any], error: str) -> None:
    with pytest.raises(InputError, match=error):
        look_at(make_translator(), AttentionChoice(**choice))


def encode(translator: Translator) -> EncodedPair:
    tokenizers = translator.tokenizers
    source, target = "Ein Hund läuft über die Straße.", "A dog runs across the street."
    return EncodedPair(tokenizers.source.encode(source), tokenizers.target.encode(target))


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "relative"])
@torch.inference_mode()
def test_the_weights_follow_from_queries_keys_and_positions(make_translator: MakeTranslator, positions: str) -> None:
    translator = make_translator(positions=positions)
    calls: dict[tuple[str, int], tuple[Any, ...]] = {}
    for stack, layers in (("encoder", translator.model.encoder.layers), ("decoder", translator.model.decoder.layers)):
        for number, layer in enumerate(layers):
            for kind, attention in ((stack, layer.self_attention), ("cross", getattr(layer, "cross_attention", None))):
                if attention is not None:
                    attention.register_forward_pre_hook(  # type: ignore[union-attr]
                        lambda *call, key=(kind, number): calls.update({key: call}), with_kwargs=True
                    )
    captured = capture_attention(translator.model, encode(translator))
    assert [(each.kind, each.layer) for each in captured] == [
        ("encoder", 0), ("encoder", 1), ("decoder", 0), ("decoder", 1), ("cross", 0), ("cross", 1)
    ]  # fmt: skip
    for each in captured:
        torch.testing.assert_close(each.weights.sum(dim=2), torch.ones_like(each.weights[:, :, 0]))
        lower = torch.ones_like(each.visible).tril() if each.kind == "decoder" else torch.ones_like(each.visible)
        assert torch.equal(each.visible, lower)
        assert (each.weights[:, ~each.visible] == 0.0).all() and (each.weights[:, each.visible] > 0.0).all()
        attention, inputs, keywords = calls[each.kind, each.layer]
        if each.kind == "cross":
            query, (key, _) = attention.project_query(inputs[0]), attention.project_key_value(inputs[1])
        else:
            query, (key, _) = attention.project_query_key_value(*inputs, rotary=keywords.get("rotary"))
        scores = (query @ key.transpose(2, 3))[0] / math.sqrt(query.shape[3])
        bias = keywords.get("bias")
        assert (bias is None) == (each.kind == "cross" or positions != "relative")
        scores = scores if bias is None else scores + bias
        torch.testing.assert_close(scores.masked_fill(~each.visible, -math.inf).softmax(dim=-1), each.weights)


def test_whoever_changes_the_weights_is_seen(make_translator: MakeTranslator) -> None:
    """Were the weights computed again beside the model, the change would not be in them."""
    translator = make_translator()
    attention: Any = translator.model.encoder.layers[0].self_attention
    attention.weights_dropout.register_forward_hook(lambda module, inputs, weights: torch.full_like(weights, 0.25))
    assert (capture_attention(translator.model, encode(translator))[0].weights == 0.25).all()


def test_nothing_stays_behind_in_the_model(make_translator: MakeTranslator, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = make_translator()
    batch = collate([encode(translator)], [0])
    with torch.inference_mode():
        before = translator.model(batch.source_ids, batch.target_input_ids)
    capture_attention(translator.model, encode(translator))
    monkeypatch.setattr(translator.model.decoder, "forward", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        capture_attention(translator.model, encode(translator))
    monkeypatch.undo()
    modules = list(translator.model.modules())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in modules)
    with torch.inference_mode():
        assert torch.equal(translator.model(batch.source_ids, batch.target_input_ids), before)


def test_bf16_is_shown_as_it_is(make_translator: MakeTranslator) -> None:
    translator = make_translator(positions="rotary")
    exact = capture_attention(translator.model, encode(translator))
    translator.model.bfloat16()
    for each, other in zip(capture_attention(translator.model, encode(translator)), exact, strict=True):
        assert each.weights.dtype == torch.float32
        assert 0.0 < float((each.weights - other.weights).abs().max()) < 0.2
        torch.testing.assert_close(each.weights.sum(dim=2), torch.ones_like(each.weights[:, :, 0]), atol=0.02, rtol=0)
