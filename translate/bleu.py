"""SacreBLEU's BLEU with the tokenizer of `evaluation.bleu_tokenizer`, for validation, scores and synthetic corpora."""

from pathlib import Path
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
        if tokenizer.startswith("flores"):
            from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
            from sacrebleu.utils import SACREBLEU_DIR

            url = SPM_MODELS[tokenizer]["url"]
            raise InputError(
                f"evaluation.bleu_tokenizer = {tokenizer}: sacreBLEU cannot load its model ({error}); download {url} to"
                f" {Path(SACREBLEU_DIR, 'models', Path(url).name)}, or choose another tokenizer, such as 13a"
            ) from error
        package = f"sacrebleu[{tokenizer.removesuffix('-mecab')}]"
        raise InputError(
            f"evaluation.bleu_tokenizer = {tokenizer}: its package is not installed; install it with"
            f" pip install '{package}', or choose another tokenizer, such as 13a"
        ) from error
