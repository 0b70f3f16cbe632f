"""Fingerprints agree with `sha256sum`, and no two different contents share one."""

import hashlib
import itertools
import json
from pathlib import Path

from translate.atomic import write_text
from translate.fingerprint import fingerprint


def test_a_single_text_or_file_has_the_digest_that_sha256sum_prints(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"gr\xc3\xbc\xc3\x9fe\n")
    expected = hashlib.sha256(b"gr\xc3\xbc\xc3\x9fe\n").hexdigest()
    assert fingerprint(tmp_path / "file") == fingerprint("grüße\n") == fingerprint("grüße\n".encode()) == expected


def test_a_text_with_a_name_that_is_not_utf8_has_the_digest_of_its_file(tmp_path: Path) -> None:
    text = json.dumps({"path": "r\udcff/ü"}, ensure_ascii=False)
    write_text(tmp_path / "file", text)
    assert fingerprint(tmp_path / "file") == fingerprint(text)
    assert json.loads((tmp_path / "file").read_bytes()) == {"path": "r\udcff/ü"}


def test_where_one_part_ends_matters() -> None:
    parts = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("", "abc"), (["ab", "c"],), ({"ab": "c"},), ()]
    for one, other in itertools.combinations(parts, 2):
        assert fingerprint(*one) != fingerprint(*other)


def test_a_mapping_has_no_order_and_a_list_has_one() -> None:
    assert fingerprint({"a": 1, "b": [2, None]}) == fingerprint({"b": [2, None], "a": 1})
    assert fingerprint([1, 2]) != fingerprint([2, 1])
