"""Fine-tuning compared with the run that it begins from: is the rate lower, does the vocabulary suit the text?"""

from collections.abc import Iterator, Sequence

import torch

from translate.config.data import HubCorpus
from translate.config.load import read_resolved_config
from translate.config.schema import Config
from translate.config.yaml import shown_path
from translate.data.augmentation import read_held_out
from translate.data.tokenizer import Tokenizers
from translate.errors import InputError
from translate.lint.findings import Finding
from translate.lint.settings import peak_rate, usual_rate
from translate.lint.vocabulary import MANY_SUBWORDS, VocabularyReport, examine_vocabularies
from translate.runs.directory import RunDirectory

# T5 was fine-tuned at a tenth of the peak rate of its pre-training (Raffel et al. 2020, arXiv 1910.10683, section
# 3.1), BERT at a fifth to a half (Devlin et al. 2019, arXiv 1810.04805, appendix A).
_MAX_RATE_SHARE = 0.5
_GOOD_RATE_SHARE = 0.2
_MORE_SUBWORDS = 1.25  # times as many per word as in the run's own text


def rate_findings(config: Config) -> Iterator[Finding]:
    """A learning rate too high to keep what the run has learnt.

    LoRA is not checked: its best rates are about ten times higher, and it forgets less (Biderman et al. 2024, arXiv
    2405.09673).
    """
    if config.training.initialize_from is None or config.training.lora_rank > 0:
        return
    base, run = _base(config), shown_path(config.training.initialize_from)
    before, whose = usual_rate(config.model.d_model), "of the paper's schedule for a new model of this width"
    if base.data.train:  # otherwise it was imported, and its rate is unknown
        before, whose = peak_rate(base), f"with which {run} was trained"
    if (peak := peak_rate(config)) > _MAX_RATE_SHARE * before:
        rate = f"training.learning_rate = {config.training.learning_rate:g} with training.schedule ="
        rate += f" {config.training.schedule!r} peaks at {peak:.1e}"
        message = (
            f"{rate}, over half of the {before:.1e} {whose}: the model soon forgets much of what the run has learnt"
        )
        hint = f"try training.learning_rate={_GOOD_RATE_SHARE * before:.0e}"
        hint += " training.schedule=cosine" if config.training.schedule == "noam" else ""
        yield Finding("warning", "fine_tuning_rate_high", message, hint)


def segmentation_findings(
    vocabularies: Sequence[VocabularyReport], config: Config, tokenizers: Tokenizers
) -> Iterator[Finding]:
    """A vocabulary that splits words into many more subwords than in the run's own validation corpus."""
    assert config.training.initialize_from is not None
    run, own = shown_path(config.training.initialize_from), _own_subwords(config, tokenizers)
    for vocabulary in vocabularies:
        subwords, usual = vocabulary.subwords_per_word or 0.0, own.get(vocabulary.name)
        if subwords > (MANY_SUBWORDS if usual is None else _MORE_SUBWORDS * usual):
            than = "" if usual is None else f", and {usual:.1f} in the run's own validation corpus"
            message = f"the {vocabulary.name} vocabulary of {run} has {subwords:.1f} subwords per word here{than}"
            message += ": sentences become longer, and words are spelt in parts that carry little meaning"
            hint = "add frequent terms with tokenizer.add_pieces, or train a new model with its own vocabulary"
            yield Finding("warning", "vocabulary_of_other_text", message, hint)


def _base(config: Config) -> Config:
    assert config.training.initialize_from is not None
    return read_resolved_config(RunDirectory(config.training.initialize_from).config)


def _own_subwords(config: Config, tokenizers: Tokenizers) -> dict[str, float | None]:
    """Subwords per word of the run's own validation corpus, by vocabulary; empty: its files do not exist."""
    own = _base(config).data.validation
    if own is None or isinstance(own, HubCorpus):  # which may be a download
        return {}
    try:
        corpus = read_held_out(own, key="data.validation")
    except InputError:
        return {}
    lines, threads = [corpus.sources, corpus.targets], torch.get_num_threads()
    sides = zip((tokenizers.source, tokenizers.target), lines, strict=True)
    ids = [tokenizer.encode_lines(side, num_threads=threads) for tokenizer, side in sides]
    reports = examine_vocabularies(tokenizers, ids, lines, share=1.0)
    return {report.name: report.subwords_per_word for report in reports}
