"""What the package offers to a program: names that are imported when they are first used."""

import pytest

import translate


def test_every_name_is_there_and_no_other() -> None:
    for name in translate.__all__:
        assert getattr(translate, name).__name__ == name
    assert set(translate.__all__) <= set(dir(translate))
    with pytest.raises(AttributeError, match="^module 'translate' has no attribute 'translator'$"):
        translate.translator  # noqa: B018
