"""The test sets of a run, read before torch is imported, to report a wrong name or a missing file at once."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from translate.config.data import Corpus, TextCorpus
from translate.config.languages import Languages
from translate.config.schema import Config
from translate.data.augmentation import read_held_out
from translate.data.corpora import ParallelCorpus, read_corpus
from translate.data.tables import KIND_BY_SUFFIX
from translate.errors import InputError
from translate.files import text_suffix


def choose_test_sets(
    config: Config,
    *,
    source: Path | None = None,
    references: Sequence[Path] = (),
    name: str | None,
    to: str | None = None,
    from_: str | None = None,
) -> dict[str, ParallelCorpus]:
    """Read the test sets to evaluate: given files, the config's set of this name, or all test sets of the config.

    For the names see `DataConfig.keys_by_name`. `validation` names all corpora of `data.validation`, and NAME means
    `validation-NAME` if no other set has this name.

    Args:
        source: A text, which needs `references`; or a file with pairs, such as a catalog, or a table whose columns are
            named by their languages.
        to, from_: The languages of a file with pairs, if the model has several.

    Raises:
        InputError: There is no such set, or its files cannot be used; or the languages are not clear.
    """
    kind = None if source is None or references or name else KIND_BY_SUFFIX.get(text_suffix(source))
    if source is not None and kind:
        codes = Languages(config.data).choose(to, from_, names=("--to", "--from"))
        columns = dict(zip(("source_column", "target_column"), codes, strict=True))
        corpus = TypeAdapter[Corpus](Corpus).validate_python({"kind": kind, "path": source} | columns)
        return {source.name: read_corpus(corpus, key="--source")}
    if (source is None) == bool(references) or (source is not None and name is not None):
        raise InputError("--source and --reference go together, and not with --set")
    if source is not None:
        given = [TextCorpus(source=source, target=reference) for reference in references]
        pairs, *others = (read_corpus(corpus, key="--source and --reference") for corpus in given)
        return {source.name: pairs._replace(more_targets=tuple(other.targets for other in others))}
    data, keys = config.data, config.data.keys_by_name()
    wanted = [keys.get(name or "", keys.get(f"validation-{name}", ""))]
    if name in (None, "validation"):
        wanted = list(data.corpora("validation" if name else "test"))
    chosen = {set_name: key for set_name, key in keys.items() if key in wanted}
    if not chosen and name is None:
        raise InputError("the run's config names no data.test: give --source and --reference, or --set validation")
    if not chosen:
        what = "this needs data.validation" if name == "validation" else f"--set {name}"
        raise InputError(f"{what}: the run's sets are {', '.join(keys) or 'none'}")
    return dict(zip(chosen, read_held_out(config, chosen.values()).values(), strict=True))


def choose_test_set(
    config: Config, *, source: Path | None = None, references: Sequence[Path] = (), name: str | None, **languages: Any
) -> tuple[str, ParallelCorpus]:
    """Choose one test set, and return its name and pairs. The arguments mean the same as for `choose_test_sets`.

    Raises:
        InputError: There is no such set, its files cannot be used, or the config has several and `name` is None.
    """
    test_sets = choose_test_sets(config, source=source, references=references, name=name, **languages)
    if len(test_sets) > 1:
        one = f"--set {[*test_sets][0]}, or test_set={[*test_sets][0]!r} in Python"
        raise InputError(f"the run has the test sets {', '.join(test_sets)}: name one, as {one}")
    (chosen,) = test_sets.items()
    return chosen
