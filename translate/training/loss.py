"""Losses are a sum and a count, never a mean: the step divides once, by the tokens of the whole step."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

_ROUNDED_ROWS = 64  # products of few different sizes: a CPU's library compiles a kernel for each


class SummedLoss(NamedTuple):
    """A loss over some targets."""

    loss: Float[Tensor, ""]  # what training minimises, summed over targets
    nll: Float[Tensor, ""]  # the same without label smoothing, for perplexity; no gradient
    tokens: int  # targets that are not padding


def label_smoothed_loss(
    hidden: Float[Tensor, "vector d_model"],
    weight: Float[Tensor, "vocab d_model"],
    target_ids: Int[Tensor, " target"],
    *,
    bias: Float[Tensor, " vocab"] | None = None,
    smoothing: float,
    r_drop: float = 0.0,
) -> SummedLoss:
    """Cross-entropy of the logits `hidden · weightᵀ + bias` against a target mixed with the uniform distribution.

    The vocabulary is wide, so the logits of a batch would be the largest tensor of training; here they are never in
    memory as a whole. Most of the work of the loss also yields their gradient, softmax minus target. So both products
    of the backward pass are computed here, a few rows at a time, in the memory of those rows' logits. Under autocast
    the products have its type, and the softmax is in fp32.

    With R-Drop, `hidden` has each target twice, from two passes with other dropout masks: first all of one pass, then
    all of the other. The loss is the mean of both cross-entropies plus alpha / 4 times the divergence of the two
    distributions, KL(P‖Q) + KL(Q‖P); that is half of the paper's, as each target counts once.

    Args:
        hidden: A vector for each target, and perhaps more after them, which count for nothing; with R-Drop exactly two
            for each target.
        target_ids: The next token of each vector; none is padding.
        smoothing: Probability mass moved from the target to all tokens, the target among them.
        r_drop: Alpha of R-Drop; 0 is a single pass.

    Raises:
        ValueError: `smoothing` is outside [0, 1).

    Source: Szegedy et al. 2016, https://arxiv.org/abs/1512.00567, section 7; R-Drop: Wu et al. 2021,
    https://arxiv.org/abs/2106.14448, equation 4.
    """
    if not 0.0 <= smoothing < 1.0:
        raise ValueError(f"smoothing = {smoothing} must be at least 0 and less than 1")
    loss, nll = _LabelSmoothedLoss.apply(hidden, weight, bias, target_ids, smoothing, r_drop)  # type: ignore[no-untyped-call]
    return SummedLoss(loss, nll, len(target_ids))


class _LabelSmoothedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target_ids: Tensor,
        smoothing: float,
        r_drop: float,
    ) -> tuple[Tensor, Tensor]:
        device, exact = hidden.device.type, torch.promote_types(weight.dtype, torch.float32)
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        wants_gradient, wants_weight_gradient, wants_bias_gradient, *_ = ctx.needs_input_grad
        vocab_size, d_model = weight.shape
        passes = hidden.detach().view(2 if r_drop else 1, -1, d_model)
        num_rows = passes.shape[1]
        narrow = weight.detach().to(dtype)
        gradient = torch.empty_like(passes)
        weight_gradient: Any = None
        bias_gradient = torch.zeros_like(bias) if bias is not None and wants_bias_gradient else None
        sums = torch.zeros(2, dtype=exact, device=hidden.device)
        step = _rows(vocab_size * len(passes), elements=2**24 if device == "cpu" else 2**27)
        with torch.autocast(device, enabled=False):
            for first in range(0, num_rows or 1, step):
                rows = slice(first, min(first + step, num_rows))
                some = F.pad(passes[:, rows].to(dtype), (0, 0, 0, -(rows.stop - first) % _ROUNDED_ROWS)).flatten(0, 1)
                logits = some @ narrow.t()
                if bias is not None:
                    logits += bias.detach()
                of_passes = logits.view(len(passes), -1, vocab_size)
                sums += _to_gradient_(of_passes, target_ids[rows], smoothing=smoothing, r_drop=r_drop, exact=exact)
                if wants_gradient:
                    gradient[:, rows] = (logits @ narrow).view(len(passes), -1, d_model)[:, : rows.stop - first]
                if wants_weight_gradient:  # frozen embeddings do not have one
                    product = logits.t() @ some
                    weight_gradient = product.to(weight.dtype) if first == 0 else weight_gradient.add_(product)
                if bias_gradient is not None:
                    bias_gradient += logits.sum(dim=0)
        gradient = gradient.view_as(hidden)
        ctx.save_for_backward(gradient, weight_gradient, bias_gradient)
        nll, loss = (total.clone() for total in sums)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, loss_gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        gradients = (None if saved is None else saved.mul_(loss_gradient) for saved in ctx.saved_tensors)
        return *gradients, None, None, None


def _to_gradient_(
    logits: Float[Tensor, "pass row vocab"], target_ids: Tensor, *, smoothing: float, r_drop: float, exact: torch.dtype
) -> Tensor:
    """Put the gradient in place of the logits: (nll, loss), summed over the targets.

    Rows without a target, after the others, have no gradient.
    """
    num_passes, _, vocab_size = logits.shape
    num_targets = len(target_ids)
    sums = torch.zeros(2, dtype=exact, device=logits.device)
    # On a CPU, few enough at once to stay in its cache.
    step = max(1, (2**19 if logits.device.type == "cpu" else 2**27) // (vocab_size * num_passes))
    for first in range(0, num_targets, step):
        rows = slice(first, min(first + step, num_targets))
        target = target_ids[rows].expand(num_passes, -1)[..., None]
        log_probs = F.log_softmax(logits[:, rows].to(exact), dim=-1)
        nll = -log_probs.gather(-1, target).sum() / num_passes
        loss = (1.0 - smoothing) * nll - smoothing / vocab_size / num_passes * log_probs.sum()
        if r_drop:
            divergence, r_drop_gradient = _divergence(log_probs)
            loss += 0.25 * r_drop * divergence
        difference = log_probs.exp_().sub_(smoothing / vocab_size)
        difference.scatter_add_(-1, target, torch.full_like(target, smoothing - 1.0, dtype=exact))
        if r_drop:
            difference.div_(num_passes).add_(r_drop_gradient, alpha=0.25 * r_drop)
        sums += torch.stack([nll, loss])
        logits[:, rows] = difference
    logits[:, num_targets:] = 0.0
    return sums


def _divergence(log_probs: Float[Tensor, "2 row vocab"]) -> tuple[Tensor, Tensor]:
    """KL(P‖Q) + KL(Q‖P), summed over the rows, and its gradient with respect to the logits of P and of Q."""
    probs, log_ratio = log_probs.exp(), log_probs[0] - log_probs[1]
    gradient = torch.stack([log_ratio, -log_ratio])  # (P: log P - log Q, Q: log Q - log P)
    kl = (probs * gradient).sum(dim=-1, keepdim=True)
    gradient.sub_(kl).mul_(probs)
    change = probs[0] - probs[1]
    gradient[0] += change
    gradient[1] -= change
    return kl.sum(), gradient


def _rows(vocab_size: int, *, elements: int) -> int:
    """The number of rows of logits that have about this many elements."""
    return max(_ROUNDED_ROWS, elements // vocab_size // _ROUNDED_ROWS * _ROUNDED_ROWS)
