"""`translate export`: a folder for another toolkit."""

from pathlib import Path

import pytest
from harness import run_command as translate


def test_export(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    output = tmp_path / "new" / "ct2"
    result = translate("export", run, output, "--to", "ctranslate2", "--checkpoint", "last")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith(f"{output}: weights of step 3 ")
    assert {"model.bin", "config.json"} <= {file.name for file in output.iterdir()}
