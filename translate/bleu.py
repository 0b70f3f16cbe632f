"""SacreBLEU's BLEU with the tokenizer of `evaluation.bleu_tokenizer`, for validation, scores and synthetic corpora."""

from typing import TYPE_CHECKING

from translate.errors import InputError

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU


def load_bleu(tokenizer: str) -> "BLEU":
    """SacreBLEU's BLEU of single sentences, with one of its tokenizers.

    Raises:
        InputError: The tokenizer's package is not installed, or its model cannot be downloaded.
    """
    from sacrebleu.metrics.bleu import BLEU

    try:
        return BLEU(tokenize=tokenizer, effective_order=True)
    except (ImportError, RuntimeError, OSError) as error:
        package = f"sacrebleu[{tokenizer.removesuffix('-mecab')}]"
        problem = f"its package is not installed; install it with pip install '{package}'"
        if tokenizer.startswith("flores"):
            problem = f"sacreBLEU cannot download its model to ~/.sacrebleu/models ({error}); copy it there"
        raise InputError(
            f"evaluation.bleu_tokenizer = {tokenizer}: {problem}, or choose another tokenizer, such as 13a"
        ) from error
