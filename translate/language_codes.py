"""Codes of languages: which of them mean the same language, by BCP 47 and Unicode's CLDR.

`de`, `DE`, `deu` and `deu_Latn` are the same language, and so are `zh-TW` and `zho_Hant`.
"""

import functools
import re
from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

CODE = re.compile("(?!id$|ID$)([a-z]{2}|[A-Z]{2})|([a-z]{2,3}|[A-Z]{2,3})[-_][A-Za-z]{2,4}")  # id numbers rows
_NO_LANGUAGE = re.compile(r"\b(?:source|src|target|tgt|trg|text|language)\b|[^\w-]", re.IGNORECASE)
_MANY_SPEAKERS = 5_000_000  # of a language without a code of two letters, such as Cantonese
_LONGEST = 35  # characters of a code (RFC 5646, 4.4.1): what is read is kept


class _Code(NamedTuple):
    standard: str
    parts: frozenset[str]  # language, script, region; the language is the wider one, such as ar for arb
    full: frozenset[str]  # with the script and the region that it has by default


def find_language(code: str, known: Collection[str], *, or_wider: bool = False) -> str | None:
    """The known code that means the same language, or the nearest of its variants, such as de-AT for de.

    Args:
        or_wider: Whether a code for more than was asked for will do too, such as en for en-GB, but not hi for hi-Latn.
    """
    if code in known:
        return code
    if len(code) > _LONGEST:
        return None
    wanted, distances = _read(code), {}
    for each in known:
        found = _read(each)
        is_wider = wanted.parts > found.parts and "Latn" not in wanted.full ^ found.full  # else a romanised text
        if wanted.full == found.full or wanted.parts < found.parts or (or_wider and is_wider):
            narrow = {one.standard.partition("-")[0] for one in (wanted, found)}  # both tw and ak are a part of ak
            distances[each] = (len(wanted.full ^ found.full), len(narrow))
    return min(distances, key=lambda each: distances[each], default=None)


def standard_code(code: str) -> str:
    """The code in its standard spelling (BCP 47), such as de for deu_Latn; `_` becomes `-` in a code that has none."""
    return _read(code).standard


def short_code(code: str) -> str:
    """The standard code without the region of a locale that its language has by default, such as de for de_DE."""
    return standard_code(find_language(code, [re.sub("_[A-Z]{2}$", "", code)]) or code)


def language_name(code: str) -> str:
    """The English name of a language, such as Chinese (Traditional); the code itself if it is not known."""
    import langcodes

    try:
        name = langcodes.Language.get(standard_code(code)).display_name()
    except ValueError:
        return code
    return code if name.startswith("Unknown language") else name


def language_named(name: str) -> str | None:
    """The code that a name is or means, such as de for `deu`, `German`, `Deutsch` or, of a column, `Source (German)`.

    A name of a small language, such as `Mono` or `Even`, may be another word; its code is needed.
    """
    import langcodes

    if CODE.fullmatch(name) and (len(name) > 2 or langcodes.tag_is_valid(name)):
        return name
    base, variant = (" ".join(_NO_LANGUAGE.sub(" ", part).split()) for part in name.partition("(")[::2])
    name = f"{base} {variant}".strip()
    if re.fullmatch("[a-z]{3}|[A-Z]{3}", name) and len(code := standard_code(name)) == 2:
        return code
    with suppress(LookupError):
        if len(name) > 3 or not name.isascii():
            found = langcodes.find(name)
            for kind in ("script", "territory") if base and variant else ():  # such as Brazil
                with suppress(LookupError):
                    found = langcodes.find(base).update(langcodes.Language.find_name(kind, variant))
            wide = langcodes.standardize_tag(found.language or "und", macro=True)
            return found.to_tag() if len(wide) == 2 or found.speaking_population() > _MANY_SPEAKERS else None
    return None


def is_chinese(code: str) -> bool:
    """Whether a language is written in Chinese characters alone, as zh, cmn and yue are, and ja is not."""
    return not {"Hans", "Hant", "Hani"}.isdisjoint(_read(code).full)


@functools.lru_cache(maxsize=10_000)
def _read(code: str) -> _Code:
    import langcodes  # takes 0.1 s

    code = re.sub("[-_]XX$|(?<=^ar)_AR$", "", code)  # mBART's en_XX names no region, and its ar_AR is not Argentina's
    try:
        standard, wide = (langcodes.standardize_tag(code, macro=macro) for macro in (False, True))
        language = langcodes.Language.get({"no": "nb"}.get(wide, wide))  # Norwegian is Bokmål by default
    except ValueError:
        standard = code.replace("_", "-")
        return _Code(standard, frozenset([standard.lower()]), frozenset([standard.lower()]))
    full = language.maximize() if language.language else language
    return _Code(standard, *(frozenset(each.to_tag().split("-")) for each in (language, full)))
