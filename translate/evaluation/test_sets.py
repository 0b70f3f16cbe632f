"""The test sets of a run, read before torch is imported, so that a wrong name or a missing file is reported at once."""

from pathlib import Path

from translate.config.data import TextCorpus
from translate.config.schema import Config
from translate.data.augmentation import read_held_out
from translate.data.corpora import ParallelCorpus, read_corpus
from translate.errors import InputError


def choose_test_sets(
    config: Config, *, source: Path | None = None, reference: Path | None = None, name: str | None
) -> dict[str, ParallelCorpus]:
    """Read the test sets to evaluate: two given files, the config's set of this name, or all test sets of the config.

    `validation` names all corpora of `data.validation`; one of several is called `validation-NAME`, or just NAME if no
    test set is.

    Raises:
        InputError: There is no such set, or its files cannot be used.
    """
    if (source is None) != (reference is None) or (source is not None and name is not None):
        raise InputError("--source and --reference go together, and not with --set")
    if source is not None and reference is not None:
        corpus = TextCorpus(source=source, target=reference)
        return {source.name: read_corpus(corpus, key="--source and --reference")}
    data = config.data
    keys = {key.rpartition(".")[2]: key for key in data.corpora("test")}
    if name is None and not keys:
        raise InputError("the run's config names no data.test: give --source and --reference, or --set validation")
    if name is not None:
        validation = {key.removeprefix("data.").replace(".", "-"): key for key in data.corpora("validation")}
        keys = {key.rpartition(".")[2]: key for key in data.corpora("validation_also")} | keys
        keys = keys | validation
        if name not in keys and f"validation-{name}" in keys:
            name = f"validation-{name}"
        if name == "validation" and validation:
            keys = validation
        elif name in keys:
            keys = {name: keys[name]}
        else:
            raise InputError(f"--set {name}: the run's sets are {', '.join(keys) or 'none'}")
    return dict(zip(keys, read_held_out(data, keys.values()).values(), strict=True))


def choose_test_set(
    config: Config, *, source: Path | None = None, reference: Path | None = None, name: str | None
) -> tuple[str, ParallelCorpus]:
    """Choose one test set, and return its name and pairs. The arguments mean the same as for `choose_test_sets`.

    Raises:
        InputError: There is no such set, its files cannot be used, or the config has several and `name` is None.
    """
    test_sets = choose_test_sets(config, source=source, reference=reference, name=name)
    if len(test_sets) > 1:
        one = f"--set {[*test_sets][0]}, or test_set={[*test_sets][0]!r} in Python"
        raise InputError(f"the run has the test sets {', '.join(test_sets)}: name one, as {one}")
    (chosen,) = test_sets.items()
    return chosen
