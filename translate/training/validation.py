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
    """The model's loss, translations and scores on the validation corpus; afterwards it is in training mode."""
    started = time.perf_counter()
    model.eval()
    translator = Translator(model, tokenizers, config.decoding)
    scores = translator.score(corpus.sources, [tokenizers.target.encode(line) for line in corpus.targets])
    loss = -sum(score.log_prob for score in scores) / sum(len(score.token_log_probs) for score in scores)
    evaluation = evaluate(translator, corpus.sources, corpus.targets, config.evaluation, effort="quick")
    model.train()
    return Validation(loss, evaluation, time.perf_counter() - started)
