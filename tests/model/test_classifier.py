"""The classifier: its pooling and its head by hand, and its encoder's weights, which it shares and trains."""

import pytest
import torch
from torch import Tensor, nn

from translate.config.schema import ModelConfig
from translate.model import Encoder, Memory, SequenceClassifier, Transformer

PAD, VOCAB = 3, 11


class FixedEncoder(Encoder):
    """Token n becomes the vector (n, 10 n), padding becomes a number that would show."""

    def __init__(self) -> None:
        super().__init__(
            ModelConfig(d_model=2, num_heads=1, d_ff=2, num_encoder_layers=1), tokens=nn.Embedding(VOCAB, 2), pad_id=PAD
        )

    def forward(self, source_ids: Tensor) -> Memory:
        hidden = torch.stack((source_ids, 10 * source_ids), dim=-1).float()
        visible = source_ids != PAD
        return Memory(torch.where(visible[..., None], hidden, 1e6), visible[:, None, None, :])


IDS = torch.tensor([[5, 7, 9, 1], [4, 8, PAD, PAD], [6, PAD, PAD, PAD]])


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ("mean", [[5.5, 55], [6, 60], [6, 60]]),  # (5 + 7 + 9 + 1) / 4, (4 + 8) / 2, 6
        ("first", [[5.0, 50], [4, 40], [6, 60]]),
    ],
)
def test_pooling_by_hand(pooling: str, expected: list[list[float]]) -> None:
    pooled = SequenceClassifier(FixedEncoder(), num_labels=3, pooling=pooling).pool(IDS)
    torch.testing.assert_close(pooled, torch.tensor(expected))


def test_the_head_by_hand() -> None:
    classifier = SequenceClassifier(FixedEncoder(), num_labels=3, pooling="first", dropout=0.5).eval()
    assert classifier.head.bias.tolist() == [0.0, 0.0, 0.0]
    with torch.no_grad():
        classifier.head.weight.copy_(torch.tensor([[1.0, 0], [0, 1], [1, -1]]))
        classifier.head.bias.copy_(torch.tensor([0.0, 0, 7]))
    torch.testing.assert_close(classifier(IDS), torch.tensor([[5.0, 50, -38], [4, 40, -29], [6, 60, -47]]))


def test_the_head_suits_the_encoders_device_and_precision() -> None:
    model = small_model()
    classifier = SequenceClassifier(model.encoder, num_labels=5).eval()
    expected = classifier(IDS)
    model.bfloat16()
    logits = classifier(IDS)
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits, expected, rtol=0, atol=0.05)
    assert SequenceClassifier(model.to("meta").encoder, num_labels=5).head.weight.is_meta


def small_model() -> Transformer:
    config = ModelConfig(d_model=18, num_heads=3, d_ff=29, num_encoder_layers=1, num_decoder_layers=1, dropout=0.0)
    return Transformer(config, source_vocab_size=VOCAB, target_vocab_size=VOCAB, pad_id=PAD)


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_neighbours_in_the_batch_change_nothing(pooling: str) -> None:
    classifier = SequenceClassifier(small_model().encoder, num_labels=5, pooling=pooling).eval()
    together = classifier(IDS)
    assert together.shape == (3, 5)
    for row, length in enumerate([4, 2, 1]):
        torch.testing.assert_close(classifier(IDS[row : row + 1, :length])[0], together[row], rtol=0, atol=1e-5)


def test_it_shares_a_translation_models_encoder() -> None:
    model = small_model()
    classifier = SequenceClassifier(model.encoder, num_labels=2)
    before = model(IDS, IDS).detach()
    assert {id(p) for p in model.encoder.parameters()} <= {id(p) for p in classifier.parameters()}
    optimizer = torch.optim.SGD(classifier.parameters(), lr=0.1)
    classifier(IDS)[:, 0].sum().backward()
    optimizer.step()
    assert (model(IDS, IDS) - before).abs().max() > 1e-4  # what the classifier learns, the translator has learnt
