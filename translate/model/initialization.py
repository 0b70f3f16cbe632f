"""The weights before training."""

from typing import Literal

import torch
from torch import nn

from translate.model.attention import MultiHeadAttention


def initialize(module: nn.Module, method: Literal["paper", "xavier"]) -> None:
    """Draw the weights of linear layers and embeddings from torch's global generator; biases become 0.

    paper: Like the code of the paper's authors, Xavier's uniform distribution for each projection (query, key and value
    apart), and embeddings from N(0, 1 / d_model), so that scaled by sqrt(d_model) they have variance 1.
    xavier: Xavier's uniform distribution for every matrix as it is stored, also for fused projections and embeddings.

    Source: Glorot and Bengio 2010; Vaswani et al. 2018, https://arxiv.org/abs/1803.07416 (tensor2tensor).
    """
    for child in module.modules():
        if isinstance(child, nn.Linear):
            nn.init.xavier_uniform_(child.weight)
            if child.bias is not None:
                nn.init.zeros_(child.bias)
        elif isinstance(child, nn.Embedding):
            if method == "paper":
                nn.init.normal_(child.weight, std=child.embedding_dim**-0.5)
            else:
                nn.init.xavier_uniform_(child.weight)
    if method == "paper":
        with torch.no_grad():
            for child in module.modules():
                if isinstance(child, MultiHeadAttention):
                    for projection in child.input_projection.weight.chunk(3):
                        nn.init.xavier_uniform_(projection)
