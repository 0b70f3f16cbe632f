"""Validation: the loss by forced decoding, and the scores by the very code of `translate eval`."""

import math
import time
from typing import NamedTuple

from translate.config import Config
from translate.data.corpora import ParallelCorpus
from translate.data.tokenizer import Tokenizers
from translate.decoding import Translator
from translate.evaluation import Evaluation, evaluate
from translate.model import Transformer
from translate.model.out_of_memory import out_of_memory_told


class Validation(NamedTuple):
    """How good the model is on the validation corpus."""

    loss: float  # nats a target token, the end symbol included, without label smoothing
    evaluation: Evaluation
    seconds: float

    @property
    def perplexity(self) -> float:
        """exp(loss); infinite where that overflows."""
        return math.exp(self.loss) if self.loss < 700.0 else math.inf


def validate(model: Transformer, tokenizers: Tokenizers, corpus: ParallelCorpus, config: Config) -> Validation:
    """The model's loss, translations and scores on the validation corpus; afterwards it is in training mode.

    Raises:
        OutOfMemory: The device's memory is not enough for the search.
    """
    started = time.perf_counter()
    settings = config.decoding_settings()
    model.eval()
    try:
        with out_of_memory_told(
            "the validation",
            mend=f"Lower decoding.batch_tokens (now {settings.batch_tokens}) or decoding.beam_size (now"
            f" {settings.beam_size}), and go on with --resume.",
        ):
            translator = Translator(model, tokenizers, settings)
            scores = translator.score(corpus.sources, [tokenizers.target.encode(line) for line in corpus.targets])
            loss = -sum(score.log_prob for score in scores) / sum(len(score.token_log_probs) for score in scores)
            evaluation = evaluate(translator, corpus.sources, corpus.targets, config.evaluation, effort="quick")
    finally:
        model.train()
    return Validation(loss, evaluation, time.perf_counter() - started)
