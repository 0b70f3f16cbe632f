"""The page and the figures of attention hold the model's numbers, bit by bit, and nothing from elsewhere."""

import base64
import json
import re
from typing import Any

import numpy as np
import pytest
import torch
from harness import MakeTranslator
from pretend_device import PretendDevice

from translate.decoding import Translator
from translate.errors import InputError
from translate.visualize.attention import (
    Attention,
    AttentionChoice,
    attention_page,
    attention_picture,
    look_at_attention,
)
from translate.visualize.page import picture_page
from translate.visualize.panels import Matrix, Picture, Table, printable
from translate.visualize.sentences import MERGED, merge_words


@pytest.fixture(scope="module")
def attention(make_translator: MakeTranslator) -> Attention:
    return look_at(make_translator(positions="rotary"), AttentionChoice())


def look_at(translator: Translator, choice: AttentionChoice) -> Attention:
    return look_at_attention(
        translator, "Der Künstler läuft.", target="The artist runs.", choice=choice, name="toy", step=12
    )


def read_data(page: str) -> Any:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, flags=re.DOTALL)
    return json.loads(text)


def floats(text: str) -> Any:
    return np.frombuffer(base64.b64decode(text), dtype="<f4")


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
        assert one[:2] == other[:2] and (one.position_scores is None) == (other.position_scores is None)
        for part, same in zip(one[2:], other[2:], strict=True):
            if same is not None:
                torch.testing.assert_close(part, same, rtol=0, atol=1e-5)
    assert read_data(attention_page(found))["tokens"] == read_data(attention_page(expected))["tokens"]


def test_the_page_has_all_heads_bit_by_bit(attention: Attention) -> None:
    data = read_data(attention_page(attention))
    assert [kind["kind"] for kind in data["kinds"]] == ["encoder", "decoder", "cross"]
    layers = {(each.kind, each.layer): each for each in attention.layers}
    assert len(layers) == 6
    for kind in data["kinds"]:
        for number, layer in enumerate(kind["layers"]):
            captured = layers.pop((kind["kind"], number))
            for name in ("weights", "query", "key"):
                assert np.array_equal(floats(layer[name]), getattr(captured, name).numpy().ravel())
            if kind["kind"] == "cross":
                assert layer["position_scores"] is None
            else:
                assert np.array_equal(floats(layer["position_scores"]), captured.position_scores.numpy().ravel())
            rows = ["".join("1" if cell else "0" for cell in row) for row in captured.visible]
            assert kind["visible"] == rows
    assert layers == {}
    assert [word["text"] for word in data["tokens"]["source"]["words"]] == ["Der", "Künstler", "läuft.", "</s>"]
    assert data["paragraphs"][0].startswith("Forced: the translation was given. Step 12, fp32;")
    assert data["start"] == {"kind": "cross", "layer": 1, "head": -1, "unit": "subwords"}  # the mean
    assert data["merged"] == MERGED and "turn the queries and keys" in data["positions"]


def test_how_it_was_made_is_said(make_translator: MakeTranslator) -> None:
    for decoding, how in [({"beam_size": 3}, "beam 3"), ({"search": "sample", "seed": 5}, "seed 5")]:
        translator = make_translator(decoding=decoding)
        seen = look_at_attention(translator, "Der Hund.", choice=AttentionChoice(), name="toy", step=1)
        (forced,) = translator.force([seen.pair.ids])
        log_prob = f"{sum(forced.token_log_probs):.3f} nats".replace("-", "\N{MINUS SIGN}")
        assert how in seen.paragraphs[0] and log_prob in seen.paragraphs[0]


HOSTILE = "</script><script>alert(1)</script> & <b>„fett“</b> {{style}} \u2028"


@pytest.mark.parametrize("kind", ["attention", "panels"])
def test_a_page_needs_nothing_else_and_no_text_gets_out_of_its_place(attention: Attention, kind: str) -> None:
    if kind == "attention":
        pair = attention.pair._replace(source_text=HOSTILE)
        page = attention_page(attention._replace(pair=pair, title=HOSTILE))
        assert read_data(page)["source"] == HOSTILE
    else:
        pytest.importorskip("vl_convert", reason="the extra `pictures` is not installed")
        page = picture_page(Picture(HOSTILE, [HOSTILE], [Table(HOSTILE, [HOSTILE], [[HOSTILE]])]))
        assert read_data(page)["panels"][0]["rows"] == [[printable(HOSTILE)]]
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


def test_the_figure_has_the_same_weights(attention: Attention) -> None:
    picture = attention_picture(attention._replace(choice=AttentionChoice("decoder")))
    assert picture.columns == 4 and len(picture.panels) == 8  # the mean and three heads of two layers
    layer = next(each for each in attention.layers if (each.kind, each.layer) == ("decoder", 1))
    mean = layer.weights.double().mean(dim=0)
    for place, title, weights in [(4, "mean of the heads", mean), (6, "head 1", layer.weights[1])]:
        panel = picture.panels[place]
        assert isinstance(panel, Matrix) and panel.title == f"layer 1, {title}"
        assert list(panel.rows) == list(panel.columns) == attention.pair.target_input.pieces
        expected = [[value if key <= query else None for key, value in enumerate(row)]
                    for query, row in enumerate(weights.tolist())]  # fmt: skip
        assert panel.values == expected
    assert "Der Künstler läuft. → The artist runs." in picture.paragraphs


def test_the_figure_of_one_head_in_words(attention: Attention) -> None:
    picture = attention_picture(attention._replace(choice=AttentionChoice("cross", layer=0, head=2, unit="words")))
    (panel,) = picture.panels
    assert isinstance(panel, Matrix)
    assert list(panel.rows) == ["The", "artist", "runs.", "</s>"]
    assert list(panel.columns) == ["Der", "Künstler", "läuft.", "</s>"]
    layer = next(each for each in attention.layers if (each.kind, each.layer) == ("cross", 0))
    expected = merge_words(
        layer.weights[2].double(), query_words=attention.pair.target_output.words, key_words=attention.pair.source.words
    )
    torch.testing.assert_close(torch.tensor(panel.values, dtype=torch.float64), expected)
    assert MERGED in picture.paragraphs
    choice = AttentionChoice("decoder", layer=0, head=0, unit="words")  # words that may not be looked at stay masked
    (panel,) = attention_picture(attention._replace(choice=choice)).panels
    assert isinstance(panel, Matrix)
    masked = [[cell is None for cell in row] for row in panel.values]
    assert masked == [[column > row for column in range(4)] for row in range(4)]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (AttentionChoice("cross", layer=2), "^--layer 2: the decoder has the layers 0 to 1$"),
        (AttentionChoice("encoder", layer=-1), "^--layer -1: the encoder has the layers 0 to 1$"),
        (AttentionChoice("cross", head=3), "^--head 3: each layer has the heads 0 to 2$"),
    ],
)
def test_layers_and_heads_that_are_not_there(
    make_translator: MakeTranslator, choice: AttentionChoice, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        look_at(make_translator(), choice)
