"""An encoder with a classification head: for the sentiment, language or domain of a sentence."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from translate.model.dropout import Dropout
from translate.model.transformer import Encoder


class SequenceClassifier(nn.Module):
    """One label for a whole sequence: the encoder's vectors pooled, dropout, a linear layer.

    Args:
        encoder: New, or a trained translation model's (see `SavedRun.load_model`).
        pooling: mean: the average over the tokens that are not padding; first: the first token's vector.

    Source: first token: Devlin et al. 2019, https://arxiv.org/abs/1810.04805, section 3.2.
    """

    def __init__(
        self, encoder: Encoder, *, num_labels: int, pooling: Literal["mean", "first"] = "mean", dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = pooling
        self.dropout = Dropout(dropout)
        self.head = nn.Linear(encoder.d_model, num_labels, device=encoder.embedder.tokens.weight.device)
        nn.init.xavier_uniform_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, source_ids: Int[Tensor, "batch source"]) -> Float[Tensor, "batch labels"]:
        """Logits of the labels. They are in fp32 like the head, even if the encoder is in bf16."""
        return self.head(self.dropout(self.pool(source_ids).to(self.head.weight.dtype)))

    def pool(self, source_ids: Int[Tensor, "batch source"]) -> Float[Tensor, "batch d_model"]:
        """One vector for each sequence; padding is left out."""
        hidden, visible = self.encoder(source_ids)
        if self.pooling == "first":
            return hidden[:, 0]
        assert isinstance(visible, Tensor)
        real = visible[:, 0, 0, :, None]  # (batch, source, 1)
        return torch.where(real, hidden, 0.0).sum(dim=1) / real.sum(dim=1)
