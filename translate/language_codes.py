"""Codes of languages: which of them mean the same language, by BCP 47 and Unicode's CLDR.

`de`, `DE`, `deu` and `deu_Latn` are the same language, and so are `zh-TW` and `zho_Hant`.
"""

import functools
from collections.abc import Collection

_SAME = 1  # the largest distance of codes for one language, such as no and nb; variants have 4 and more
_OTHER = 1000  # the distance of another language


def find_language(code: str, known: Collection[str], *, with_variants: bool = True) -> str | None:
    """The known code that means the same language.

    Args:
        with_variants: Whether the nearest one may be for a variant if none is the same, as de-AT is for de, or the
            other way round. de-AT and de-CH are different.
    """
    if code in known:
        return code
    most = _OTHER if with_variants else _SAME + 1
    distances = {each: distance for each in known if (distance := _distance(code, each)) < most}
    return min(distances, key=lambda each: distances[each], default=None)


def standard_code(code: str) -> str:
    """The code in its standard spelling (BCP 47), such as de for deu_Latn; `_` becomes `-` in a code that has none."""
    import langcodes  # takes 0.1 s

    try:
        return langcodes.standardize_tag(code)
    except ValueError:
        return code.replace("_", "-")


@functools.lru_cache(maxsize=1 << 16)
def _distance(code: str, other: str) -> int:
    """How far apart two codes are by CLDR, if they are for one language or one is for a variant of the other."""
    import langcodes

    if standard_code(code).lower() == standard_code(other).lower():
        return 0
    try:
        distance = langcodes.tag_distance(code, other)
        parts, others = ({*langcodes.standardize_tag(each, macro=True).split("-")} for each in (code, other))
    except ValueError:
        return _OTHER
    return max(distance, _SAME) if distance <= _SAME or parts <= others or parts >= others else _OTHER
