"""Conventions of interface text: keyboard accelerators, such as _File and &File, and how labels end."""

import re

from translate.placeholders import match_placeholders

_APPENDED = re.compile(r"(?<!\s)\s*+[(（][_&][^\W_][)）]")  # as in Chinese, Japanese and Korean
_IDEOGRAPHS = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_ENDS = {"...": "ellipsis", "…": "ellipsis", ":": "colon", "：": "colon", ".": "stop", "。": "stop"}


def find_accelerator(text: str) -> re.Match[str] | None:
    """The mark of a text's only accelerator and its letter, in parentheses if these were added for it.

    Marks in placeholders and names are others, as in %(my_file)s, my_file, LC_ALL, R&D and `&amp;`.
    """
    masked = _mask(text)
    if match := _APPENDED.search(masked):
        return match
    for mark in "_&":
        match = re.search(rf"{mark}[^\W_]", masked)
        if match and masked.count(mark) == 1:
            before, letter = re.search(r"\w*$", masked[: match.start()])[0], match[0][1]  # type: ignore[index]
            is_within = letter.islower() and before.isalpha() and (mark == "&" or before[0].isupper())
            if not before or is_within:
                return match
    return None


def remove_accelerator(text: str) -> tuple[str, str]:
    """A text without its accelerator, and that: a mark and a letter, or nothing."""
    match = find_accelerator(text)
    if match is None:
        return text, ""
    mark, letter = re.findall(r"\w|&", match[0])
    rest = "" if match.re is _APPENDED else letter
    return text[: match.start()] + rest + text[match.end() :], mark + letter


def add_accelerator(text: str, accelerator: str) -> str:
    """A translation with the accelerator of its source, at the same letter if it has that; empty if it cannot have one.

    One that the translation has by itself stays, and goes if the source has none.
    """
    plain, own = remove_accelerator(text)
    if own[:1] == accelerator[:1]:
        return text
    if not accelerator:
        return plain
    mark, letter = accelerator[0], accelerator[1]
    if mark in (masked := _mask(plain)):
        return ""
    if _IDEOGRAPHS.search(masked):
        end = len(plain.rstrip()) - len(end_of(plain))
        return f"{plain[:end]}({mark}{letter.upper()}){plain[end:]}"
    patterns = rf"\b{letter}", letter, r"[^\W\d_]"
    found = next(filter(None, (re.search(pattern, masked, re.IGNORECASE) for pattern in patterns)), None)
    return plain[: found.start()] + mark + plain[found.start() :] if found else ""


def end_of(text: str) -> str:
    """The colon, ellipsis or full stop that a text ends with."""
    return next((end for end in _ENDS if text.rstrip().endswith(end)), "")


def end_like(source: str, target: str) -> str:
    """A translation with the end of its source: a colon, an ellipsis, a full stop, or none of these."""
    core = target.strip()
    wanted, own = end_of(source), end_of(core)
    is_same = _ENDS.get(wanted) == _ENDS.get(own) and wanted not in ("...", "…")
    if is_same or not core or (core[-1] in "!?！？" and wanted in ("", ".")):
        return target
    return target.replace(core, core.removesuffix(own).rstrip() + wanted, 1)


def _mask(text: str) -> str:
    """A text of the same length without the characters of placeholders, `&amp;` and doubled marks."""
    for match in [*match_placeholders(text), *re.finditer("&amp;|&&|__", text)]:
        text = text[: match.start()] + "\0" * len(match[0]) + text[match.end() :]
    return text
