"""What an evaluation leaves behind: the hypotheses as text, one a line, and the scores as JSON."""

from collections.abc import Sequence
from pathlib import Path

from translate.atomic import write_error, write_text
from translate.decoding import count_conditions
from translate.evaluation.evaluate import Evaluation
from translate.runs.safety import require_kind
from translate.runs.seal import file_digest, write_sealed_json
from translate.versions import package_versions


def write_report(directory: Path, evaluation: Evaluation, *, name: str, step: int, settings: dict[str, object]) -> None:
    """Write `hypotheses.txt` and `report.json` into a directory, which is made if need be.

    Args:
        name: Of the test set.
        step: Of the checkpoint.
        settings: What the search was told.

    Raises:
        RunError: They cannot be written, or the directory is a link out of the run.
    """
    require_kind(directory, "folder", within=directory.parent)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(directory, error) from error
    translations = evaluation.translations
    hypotheses = directory / "hypotheses.txt"
    write_text(hypotheses, "".join(f"{translation.text}\n" for translation in translations))
    report = {
        "name": name,
        "step": step,
        "hypotheses": file_digest(hypotheses),
        **{f"num_{condition}": count for condition, count in vars(count_conditions(translations)).items()},
        "metrics": [metric._asdict() for metric in evaluation.metrics],
        "decoding": settings,
        "versions": package_versions(),
    }
    write_sealed_json(directory / "report.json", report)


def spread_samples(total: int, wanted: int) -> Sequence[int]:
    """Indices of at most `wanted` lines, evenly spaced over `total`."""
    wanted = min(wanted, total)
    return [number * total // wanted for number in range(wanted)]
