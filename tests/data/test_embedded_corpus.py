"""The embedded corpus is frozen."""

from pathlib import Path

import pytest

from translate.fingerprint import fingerprint

DATA = Path(__file__).resolve().parents[2] / "data"
SHA256 = {
    "train.de": "557bc1049fe79f09ae30ac5042b16848ed2bef49b6aec7f12132362b13c78a43",
    "train.en": "29529ef9d04b07fbbfe969296f9dc1ed79cee22b6eac538e668a79e40cbb11eb",
    "validation.de": "102c9dcfcfefa228509d8c411999dc46d5e175ff6ffc9250c7da1a20f7939953",
    "validation.en": "e983c5444f062a82279801ee0da412d57515f75bec3e8fceb174c1b8e74ae1f9",
    "test.de": "6d2f59e4df11fc6066f425e61ea9444b4400e71b99265b885d1b163dbe3e0f2b",
    "test.en": "7bf4539a87cd00024bae9f6b21ab9aa80f8877e7d5ef2d36754e7c5179fdb8ec",
}


@pytest.mark.parametrize("name", SHA256)
def test_file_is_intact(name: str) -> None:
    """The scores in the documentation, and the tests that decode this text, belong to exactly these bytes."""
    assert fingerprint(DATA / name) == SHA256[name]
