"""The cache of token ids: several processes use it at once, and it lies where `datasets` has its files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.system


def test_two_processes_at_once(tmp_path: Path) -> None:
    program = f"""
import logging
from pathlib import Path
from translate.data import cache as module
logging.raiseExceptions = False
cache = module.DataCache(folder=Path({str(tmp_path)!r}))
num_found = 0
for number in range(300):
    name = f"{{number % 7}}.ids"
    content = name.encode() * 10_000
    file = cache.find(name) or cache.make(name, lambda file: file.write(content))
    assert file is None or file.file.read(file.num_bytes) == content
    num_found += file is not None
    if number % 5 == 0:
        (cache.folder / name).unlink(missing_ok=True)  # as the user may at any time
assert num_found > 200
"""
    processes = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert all(path.suffix == ".ids" for path in tmp_path.iterdir())


@pytest.mark.parametrize("environment", [{}, {"HF_HOME": "~/c"}, {"HF_HOME": "e", "HF_DATASETS_CACHE": "f"}], ids=str)
def test_the_folder_is_that_of_datasets(environment: dict[str, str]) -> None:
    program = (
        "import sys; from translate.data.cache import cache_folder; found = cache_folder();"
        "assert 'datasets' not in sys.modules; import datasets;"
        "assert found == datasets.config.HF_DATASETS_CACHE == cache_folder(), found"
    )
    others = {key: value for key, value in os.environ.items() if key not in ("HF_DATASETS_CACHE", "HF_HOME")}
    others.pop("XDG_CACHE_HOME", None)
    subprocess.run([sys.executable, "-c", program], check=True, env={**others, **environment})
