"""Conventions of interface text: keyboard accelerators, such as _File and &File, and how labels end."""

import re
from collections.abc import Iterable, Set

from translate.errors import InputError
from translate.placeholders import have_same_placeholders, replace_placeholders

_APPENDED = re.compile(r"(?<!\s)\s*+[(（]([_&][^\W_])[)）]")  # as in Chinese, Japanese and Korean
_IDEOGRAPHS = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_CONTROLS = re.compile("([\0-\x08\x0e-\x1f\x7f-\x9f\u2028\u2029]) ?")
_SIGNS = re.compile(r"""\{[^{}]*\}?|\}|[%~$] *(?:\S*[^\s.,:;!?)"'»”]|\S)?""")  # of directives, with what follows
_KNOWN = {"c", "objc", "php", "perl", "perl-brace", "python", "python-brace", "qt", "kde", "javascript", "ruby", "sh"}
_ENDS = {"...": "ellipsis", "…": "ellipsis", ":": "colon", "：": "colon", ".": "stop", "。": "stop"}


def finish_label(source: str, translation: str, *, flags: Iterable[str] = (), words: Set[str] = frozenset()) -> str:
    """A translation with the accelerator and the end of its source, and without other control characters.

    Args:
        source: The text with its accelerator.
        translation: The translation of the text without it.
        flags: The flags of gettext, such as c-format: which signs have a meaning for a program.
        words: The words of the program's texts; see `remove_accelerator`.

    Raises:
        InputError: A program would not accept the translation; the message says why.
    """
    formats = {flag.removesuffix("-format") for flag in flags if flag.endswith("-format") and flag[:3] != "no-"}
    plain, accelerator = remove_accelerator(source, words)
    text = add_accelerator(end_like(plain, translation), accelerator)
    text = _CONTROLS.sub(lambda match: match[0] if match[1] in source else "", text)
    signs = [_signs(each, formats) for each in (source, text)]
    problems = {
        "the translation has no words": has_words(plain) != has_words(translation),
        f"the translation has no place for the accelerator {accelerator}": not text and translation.strip(),
        "the translation does not have the placeholders of the source": not have_same_placeholders(source, text),
        f"the signs {' '.join(signs[0])!r} of the source became {' '.join(signs[1])!r}": signs[0] != signs[1],
    }
    if problem := next((problem for problem, is_true in problems.items() if is_true), ""):
        raise InputError(problem)
    return text


def _signs(text: str, formats: Set[str]) -> list[str]:
    """What a program may understand though it is no placeholder; all signs of a format whose directives are others.

    The letters of dates, such as `%p`, may be directives too.
    """
    found = _CONTROLS.findall(text) + re.findall("'", text if "java" in formats else "")
    rest = replace_placeholders(
        text, lambda match: match[0] if match.lastgroup == "other" and match[0][-1].isalpha() else " "
    )
    if formats <= _KNOWN and not (formats and re.search("[%{}$]", rest)):
        return found
    return found + sorted(_SIGNS.findall(text), key=lambda sign: sign if sign[0] in "{$" else "")  # others in order


def has_words(text: str) -> bool:
    """Whether a text has letters or digits outside of placeholders."""
    return bool(re.search(r"\w", replace_placeholders(text, lambda match: " ")))


def remove_accelerator(text: str, words: Set[str] = frozenset()) -> tuple[str, str]:
    """A text without its only accelerator, and that: a mark and a letter, or nothing.

    Marks in placeholders and names are others, as in %(my_file)s, my_file, LC_ALL, R&D and `&amp;`.

    Args:
        words: The words of the program's texts, in small letters. `today` among them tells that `t_oday` is not a name,
            and `quarter` and `note` that `Quarter_note` is one.
    """
    masked = _mask(text)
    if match := _APPENDED.search(masked):
        return text[: match.start()] + text[match.end() :], match[1]
    for mark in "_&":
        match = re.search(rf"{mark}[^\W_]", masked)
        if match and masked.count(mark) == 1:
            before = re.split(r"\W", masked[: match.start()])[-1]
            after = re.split(r"\W", masked[match.start() + 1 :], maxsplit=1)[0]
            is_word = mark == "_" and (before + after).lower() in words
            is_name = mark == "_" and (not before[:1].isupper() or {before.lower(), after.lower()} <= words)
            if not before or is_word or (before.isalpha() and after[0].islower() and not is_name):
                return text[: match.start()] + text[match.start() + 1 :], match[0]
    return text, ""


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
    if mark in (masked := _mask(plain)):  # its only mark is not part of a name
        return plain if re.fullmatch(f"[^{mark}]*{mark}[^\\W_][^{mark}]*", masked) else ""
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
    """A translation with the end of its source: a colon, an ellipsis, a full stop, or none of these.

    It may be written in another way: `Öffnen …` for `Open...`.
    """
    core = target.strip()
    wanted, own = end_of(source), end_of(core)
    if _ENDS.get(wanted) == _ENDS.get(own) or not core or (core[-1] in "!?！？" and wanted in ("", ".")):
        return target
    return target.replace(core, core.removesuffix(own).rstrip() + wanted, 1)


def _mask(text: str) -> str:
    """A text of the same length without the characters of placeholders, `&amp;` and doubled marks."""
    masked = replace_placeholders(text, lambda match: "\0" * len(match[0]))
    return re.sub("&amp;|&&|__", lambda match: "\0" * len(match[0]), masked)
