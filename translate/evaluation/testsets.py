"""The test sets of a run: chosen, translated, scored, and the result kept in the run directory."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from translate.config import Config, Corpus, EvaluationConfig, TextCorpus
from translate.data.corpora import read_corpus
from translate.decoding import Translation, Translator
from translate.errors import InputError
from translate.evaluation.evaluate import Evaluation, evaluate
from translate.evaluation.report import write_report
from translate.runs import RunDirectory

VALIDATION = "validation"


class ReferenceSet(NamedTuple):
    """Sentences and their references."""

    name: str
    sources: list[str]
    references: list[str]


def choose_test_sets(
    config: Config, *, source: Path | None, reference: Path | None, name: str | None
) -> list[ReferenceSet]:
    """The test sets to evaluate: two files, or one of the config's by name, or all of its.

    Raises:
        InputError: No such set, or its files cannot be used.
    """
    if source is not None and reference is not None:
        return [_read(source.name, TextCorpus(source=source, target=reference), key="--source and --reference")]
    corpora = {name: (f"data.test.{name}", corpus) for name, corpus in config.data.test.items()}
    if name is None:
        if not corpora:
            raise InputError("the run's config names no data.test: give --source and --reference, or --set validation")
        return [_read(each, corpus, key=key) for each, (key, corpus) in corpora.items()]
    if config.data.validation is not None:
        corpora.setdefault(VALIDATION, ("data.validation", config.data.validation))
    if name not in corpora:
        raise InputError(f"--set {name}: the run's sets are {', '.join(corpora) or 'none'}")
    key, corpus = corpora[name]
    return [_read(name, corpus, key=key)]


def evaluate_test_set(
    translator: Translator,
    test_set: ReferenceSet,
    config: EvaluationConfig,
    *,
    run: RunDirectory,
    step: int,
    watch: Callable[[Iterable[Translation]], Iterable[Translation]] = iter,
) -> Evaluation:
    """Translate and score a test set, and keep the hypotheses and the report in the run's `evaluation/NAME`.

    Raises:
        RunError: They cannot be written.
    """
    evaluation = evaluate(translator, test_set.sources, test_set.references, config, watch=watch)
    write_report(
        run.evaluation / test_set.name,
        evaluation,
        name=test_set.name,
        step=step,
        settings=translator.config.model_dump(mode="json"),
    )
    return evaluation


def _read(name: str, corpus: Corpus, *, key: str) -> ReferenceSet:
    pairs = read_corpus(corpus, key=key)
    return ReferenceSet(name, list(pairs.sources), list(pairs.targets))
