"""The modelling file of exports: our model's logits for every shape, with and without cache, padded on either side."""

from pathlib import Path
from typing import Any

import pytest
import torch
from harness import model_to_export

from translate.config.schema import Config
from translate.data.tokenizer import Tokenizers
from translate.exchange.huggingface import write_huggingface
from translate.model import Transformer

transformers = pytest.importorskip("transformers", reason="the extra `huggingface` is not installed")

from translate.exchange.modeling_translate import TranslateForConditionalGeneration  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses:UserWarning")


def write(model: Transformer, tokenizers: Tokenizers, directory: Path) -> Any:
    """Export, which checks what it wrote, and load the result."""
    write_huggingface(model, tokenizers, Config.model_construct(model=model.config), directory)
    return TranslateForConditionalGeneration.from_pretrained(directory).eval()


@pytest.mark.parametrize(
    "shape",
    [
        {"norm": "pre", "positions": "rotary", "activation": "swiglu", "norm_epsilon": 0.03},
        {"positions": "learned", "max_positions": 79, "activation": "gelu", "scale_embeddings": False},
        {"positions": "relative", "relative_buckets": 11, "relative_max_distance": 37},
        {"norm": "pre", "positions": "relative", "tie_embeddings": "none", "output_bias": True},
        {"positions": "rotary", "tie_embeddings": "decoder", "vocabulary": "separate"},
    ],
    ids=str,
)
def test_every_shape_has_our_logits(tmp_path: Path, shape: dict[str, object]) -> None:
    exported = write(*model_to_export(**shape), tmp_path)
    tied = exported.encoder.tokens.weight is exported.decoder.tokens.weight
    assert tied == ("tie_embeddings" not in shape)
    assert (exported.output.weight is exported.decoder.tokens.weight) == (shape.get("tie_embeddings") != "none")


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "relative"])
def test_cache_and_padding_change_nothing(tmp_path: Path, positions: str) -> None:
    """Sources of 3 and 7 tokens; targets of 5, of which the shorter one begins with padding."""
    exported = write(*model_to_export(norm="pre", positions=positions, max_positions=79), tmp_path)
    long, short = torch.randint(4, 270, (7,)), torch.randint(4, 270, (3,))
    target = torch.cat((torch.tensor([2]), torch.randint(4, 270, (4,))))[None]
    padding = torch.zeros(4, dtype=torch.long)
    with torch.inference_mode():
        expected = exported(short[None], decoder_input_ids=target).logits[0]
        for row in (torch.cat((short, padding)), torch.cat((padding, short))):
            batch = torch.stack((row, long))
            logits = exported(batch, decoder_input_ids=target.expand(2, -1)).logits
            torch.testing.assert_close(logits[0], expected, atol=1e-4, rtol=0)
            past = exported(batch, decoder_input_ids=target[:, :2].expand(2, -1), use_cache=True)
            rest = exported(
                encoder_outputs=(past.encoder_last_hidden_state,),
                attention_mask=batch != 0,
                decoder_input_ids=target[:, 2:].expand(2, -1),
                past_key_values=past.past_key_values,
            )
            torch.testing.assert_close(torch.cat((past.logits, rest.logits), dim=1), logits, atol=1e-4, rtol=0)
        padded = torch.cat((torch.zeros(1, 2, dtype=torch.long), target), dim=1)
        logits = exported(short[None], decoder_input_ids=padded, decoder_attention_mask=padded != 0).logits
        torch.testing.assert_close(logits[0, 2:], expected, atol=1e-4, rtol=0)
        assert logits.isfinite().all()
        settings = {"max_new_tokens": 3, "num_beams": 2}
        expected = exported.generate(short[None], attention_mask=torch.ones(1, 3), **settings)
        assert torch.equal(exported.generate(short[None], **settings), expected)


def test_trains_on_labels(tmp_path: Path) -> None:
    """The loss is the mean over labels that are not ignored, by hand from the logits; gradients reach all weights."""
    exported = write(*model_to_export(norm="pre", positions="relative"), tmp_path)
    labels = torch.tensor([[5, 6, 3], [7, 3, -100]])
    inputs = torch.tensor([[2, 5, 6], [2, 7, 3]])
    assert exported.prepare_decoder_input_ids_from_labels(labels).tolist() == inputs.tolist()
    source = torch.tensor([[9, 8, 3], [9, 3, 0]])
    result = exported(source, labels=labels)
    log_probs = exported(source, decoder_input_ids=inputs).logits.log_softmax(dim=-1)
    expected = -(log_probs[0, range(3), [5, 6, 3]].sum() + log_probs[1, range(2), [7, 3]].sum()) / 5
    torch.testing.assert_close(result.loss, expected)
    result.loss.backward()
    assert all(parameter.grad is not None for parameter in exported.parameters())
    with pytest.raises(ValueError, match="give decoder_input_ids, or labels"):
        exported(source)
    options = transformers.TrainingArguments(tmp_path / "trainer", use_cpu=True)  # it divides a mean by their number
    assert transformers.Trainer(exported, options).model_accepts_loss_kwargs is False
