"""The masks in the picture are those that the model is given."""

from typing import Any

import torch
from harness import MakeTranslator

from translate.data.batching import EncodedPair, collate
from translate.visualize.masks import masks_picture


def test_they_are_those_that_the_model_is_given(make_translator: MakeTranslator) -> None:
    translator = make_translator()
    model, tokenizers = translator.model, translator.tokenizers
    given: dict[str, torch.Tensor] = {}
    layers: dict[str, Any] = {
        "encoder": model.encoder.layers[0].self_attention,
        "decoder": model.decoder.layers[1].self_attention,
        "cross": model.decoder.layers[1].cross_attention,
    }
    for name, attention in layers.items():
        attention.register_forward_pre_hook(
            lambda module, inputs, keywords, name=name: given.__setitem__(name, keywords["visible"]), with_kwargs=True
        )
    sources, targets = ["Der Hund läuft.", "Hund"], ["dog", "The dog runs."]
    pairs = map(EncodedPair, map(tokenizers.source.encode, sources), map(tokenizers.target.encode, targets))
    batch = collate(list(pairs), [0, 1])
    model(batch.source_ids, batch.target_input_ids)
    panels: list[Any] = list(masks_picture(translator, sources, targets).panels)
    for row in range(2):
        shown = [*panels[3 * row : 3 * row + 3], panels[6 + row]]
        target, causal, both, source = (torch.tensor(each.values).bool() for each in shown)
        assert torch.equal(given["encoder"][row, 0], source) and torch.equal(given["cross"][row, 0], source)
        assert torch.equal(given["decoder"][row, 0], both) and torch.equal(target & causal, both)
        assert torch.equal(causal, torch.ones_like(causal).tril())


def test_the_picture_has_their_tokens(make_translator: MakeTranslator) -> None:
    translator = make_translator()
    picture = masks_picture(translator, ["Der Hund läuft.", "Hund"], ["The dog runs.", "dog"])
    panels: list[Any] = list(picture.panels)
    assert panels[3].title == "2: target padding mask" and panels[7].title == "2: source padding mask"
    labels = [*translator.tokenizers.source.pieces(translator.tokenizers.source.encode("Hund")), "</s>"]
    assert panels[7].columns[: len(labels)] == labels and panels[5].rows == panels[5].columns
    assert panels[7].values == [[float(label != "<pad>") for label in panels[7].columns]]
    assert masks_picture(translator, ["Hund"], []).paragraphs[0].endswith("(decoded)")
