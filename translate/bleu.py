"""SacreBLEU's BLEU with the tokenizer of `evaluation.bleu_tokenizer`, for validation, scores and synthetic corpora."""

from typing import TYPE_CHECKING

from translate.errors import InputError

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU


def load_bleu(tokenizer: str) -> "BLEU":
    """SacreBLEU's BLEU of single sentences, with one of its tokenizers.

    Raises:
        InputError: The tokenizer's package is not installed.
    """
    from sacrebleu.metrics.bleu import BLEU

    try:
        return BLEU(tokenize=tokenizer, effective_order=True)
    except (ImportError, RuntimeError) as error:
        package = f"sacrebleu[{tokenizer.removesuffix('-mecab')}]"
        raise InputError(
            f"evaluation.bleu_tokenizer = {tokenizer}: its package is not installed; install it with"
            f" pip install '{package}', or choose another tokenizer, such as 13a"
        ) from error
