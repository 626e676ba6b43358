"""What a guest may be called: nothing that looks like somebody who is here.

Two names are one when any of their looks is the same. A look is the name without what nobody sees,
compatibility forms resolved, in one case, spaces left out, and letters of other scripts replaced by
the Latin ones they are drawn like. There are two looks, because the capital `Η` of Greek is drawn
like H and the small `η` like n.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

from threadline.core.errors import InvalidInput

MAX_NAME = 64
_UNSEEN = frozenset({"Cf", "Cc", "Cs", "Co", "Cn", "Zl", "Zp"})
# Drawn as nothing: fillers, and what chooses a variant of the letter before it.
_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U00016fe4\U0001d159").union(
    map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)


def _table(drawn: Mapping[str, str]) -> dict[int, str]:
    return {ord(one): letter for letter, ones in drawn.items() for one in ones}


# What is drawn like a small letter, in any font that has it: of Cyrillic, Greek, Armenian, Coptic,
# of Latin itself, of scripts that are compared in their capitals (Cherokee, Lisu, Canadian
# syllables, Tifinagh), and digits. Most are from Unicode's list of confusables.
_LIKE_SMALL = {
    "a": "аαɑᴀᎪꓮᗅ",
    "b": "вьβʙᏏᏴꓐᑲᖯᗷ",
    "c": "сϲᴄⲥᏟꓚ",
    "d": "ԁđᴅᎠꓓꓒᗞᗪᑯᏧ",
    "e": "еҽεᴇᎬꓰⴹ℮",
    "f": "ꜰꓝᖴϝքƒ",
    "g": "ɡɢցᏀᏳꓖԍ",
    "h": "нһʜհⲏᎻᏂꓧᕼ",
    "i": "іιıɩɪⲓᎥꙇ",
    "j": "јϳᴊᎫꓙᒍ",
    "k": "кκᴋⲕᏦꓗᛕ",
    "l": "ӏł1|ǀʟᏞꓡᒪⳑⵏꓲ۱",
    "m": "мᴍⲙᎷꓟᗰϻ",
    "n": "ηɴոռⲛꓠ",
    "o": "оοø0ᴏᴑօⲟꓳⵔ০ଠ୦०੦૦௦౦೦ഠ൦๐໐ဝ၀ჿዐ〇",
    "p": "рρᴘⲣᏢꓑᑭ",
    "q": "ԛգզⵕ",
    "r": "ʀгᴦⲅᎡᏒꓣᖇ",
    "s": "ѕſꜱᏕᏚꓢ",
    "t": "тτᴛⲧᎢꓔ",
    "u": "υսᴜʋꓴᑌ",
    "v": "νᴠѵᏙꓦᐯⴸ",
    "w": "ԝωᴡɯѡաᏔᎳꓪ",
    "x": "хχⲭꓫⵝᕁᕽ×",
    "y": "уүγʏɣⲩყᎩᎽꓬ",
    "z": "ζᴢᏃꓜ",
}
_LIKE_CAPITAL = {
    "A": "ΑА",
    "B": "ΒВ",
    "C": "ϹС",
    "E": "ΕЕ",
    "F": "Ϝ",
    "G": "Ԍ",
    "H": "ΗНҺⲎ",
    "I": "ΙІⲒ",
    "J": "Ј",
    "K": "ΚК",
    "L": "ӀⳐ",
    "M": "ΜМϺ",
    "N": "Ν",
    "O": "ΟОՕ",
    "P": "ΡР",
    "Q": "Ԛ",
    "S": "ЅՏ",
    "T": "ΤТ",
    "U": "Ս",
    "V": "Ѵ",
    "W": "Ԝ",
    "X": "ΧХ",
    "Y": "ΥУҮ",
    "Z": "Ζ",
}
_SMALL, _CAPITAL = _table(_LIKE_SMALL), _table(_LIKE_CAPITAL)
_PAIRS = (("rn", "m"), ("vv", "w"), ("i", "l"))


def checked(name: object) -> str:
    """A typed name as it will be shown. Raises `InvalidInput` for one with nothing to see."""
    if not isinstance(name, str) or len(name) > 4 * MAX_NAME:
        raise InvalidInput(f"a name has 1 to {MAX_NAME} characters.", field="name")
    if any(unicodedata.category(one) in ("Cc", "Cs") for one in name):
        raise InvalidInput("a name holds no control characters.", field="name")
    shown = " ".join(unicodedata.normalize("NFC", _seen(name)).split())
    if not shown or len(shown) > MAX_NAME or not _bare(shown):
        raise InvalidInput(f"a name has 1 to {MAX_NAME} characters to see.", field="name")
    return shown


def looks(name: str) -> frozenset[str]:
    """What a name looks like; names with a look in common are taken for each other.

    >>> looks("Ada") & looks("АDA") != frozenset(), looks("Ada") & looks("Eda")
    (True, frozenset())
    """
    bare = _bare(name)
    return frozenset({_drawn(bare), _drawn(bare.translate(_CAPITAL))})


def _bare(name: str) -> str:
    """Without what is not seen, compatibility forms resolved, without spaces and the sign before
    a handle; letters and the marks on them apart."""
    plain = unicodedata.normalize("NFKD", _seen(name))
    return "".join(_seen(plain).split()).lstrip("@＠")


def _seen(name: str) -> str:
    return "".join(
        one for one in name if unicodedata.category(one) not in _UNSEEN and one not in _FILLERS
    )


def _drawn(bare: str) -> str:
    """In one case, in Latin letters where they are drawn alike."""
    small = unicodedata.normalize("NFKD", bare.casefold()).translate(_SMALL)
    for pair, single in _PAIRS:
        small = small.replace(pair, single)
    return small
