"""A run directory from elsewhere is data: nothing in the package runs what it reads."""

import re
from pathlib import Path

import translate

UNSAFE = re.compile(
    r"(?<!allow_)pickl|torch\.(save|hub)\b|torch\.load\b(?!\(.*weights_only=True)|joblib|dill\b|marshal|shelve|np\.load\b(?!\(.*allow_pickle=False)|yaml\.(unsafe_|full_)?load(_all)?\("
    r"|\b(?<!\.)(eval|exec)\(|trust_remote_code\s*=\s*True"
)


UNSAFE_LINES = """
state = torch.load(path)
state = torch.load(path, weights_only=False)
import pickle
from cloudpickle import loads
value = eval(text)
exec(code)
yaml.load(text)
yaml.unsafe_load(text)
np.load(path)
np.load(path, allow_pickle=True)
load_dataset(name, trust_remote_code=True)
"""


def test_the_search_finds_what_is_unsafe_alone() -> None:
    assert all(map(UNSAFE.search, UNSAFE_LINES.split("\n")[1:-1]))
    assert not UNSAFE.search("model.eval(); _evaluate(text); yaml.safe_load(text); trust_remote_code=False")


def test_nothing_in_the_package_runs_what_it_reads() -> None:
    package = Path(translate.__file__).parent
    # These say how others load an export, and run nothing.
    told = {"exchange/modeling_translate.py", "cli/export.py"}
    sources = [path for path in package.rglob("*.py") if path.relative_to(package).as_posix() not in told]
    assert len(sources) > 80
    assert [
        f"{path}:{number}: {line.strip()}"
        for path in sources
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if UNSAFE.search(line)
    ] == []
