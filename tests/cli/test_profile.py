"""`translate train --profile`."""

from collections.abc import Callable
from pathlib import Path

from typer.testing import Result


def test_train_tells_where_the_time_goes_and_goes_on(translate: Callable[..., Result], corpus: Path) -> None:
    run = corpus / "profiled"
    result = translate(
        "train", corpus / "tiny.yaml", "training.max_steps=21", "data.validation=null", "--run", run, "--profile"
    )
    assert result.exit_code == 0, result.output
    assert "profiling steps 11 to 20, after 10 to warm up" in result.output
    assert f"more in {run / 'profile' / 'time.txt'}; {run / 'profile' / 'trace.json.gz'} is for" in result.output
    assert "ended after 21 steps" in result.output
    assert {path.name for path in (run / "profile").iterdir()} == {"time.txt", "trace.json.gz"}
