"""What the package offers to a program: names that are imported when they are first used."""

import subprocess
import sys

import pytest

import translate


def test_every_name_is_there_and_no_other() -> None:
    for name in translate.__all__:
        assert getattr(translate, name).__name__ == name
    assert set(translate.__all__) <= set(dir(translate))
    with pytest.raises(AttributeError, match="^module 'translate' has no attribute 'translator'$"):
        translate.translator  # noqa: B018


def test_the_import_alone_loads_nothing_heavy() -> None:
    code = "import sys, translate; print(*[name for name in ('torch', 'pydantic', 'numpy') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""
