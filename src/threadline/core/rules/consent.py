"""Whether somebody may be written to first, and the words with which a person decides that.

OFF is sticky: only the person's own word for "start", or a controller that is a human, turns it on
again. Who never wrote and was never asked is not written to.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping

from threadline.core.model import Word
from threadline.core.people import Consent, ConsentState

LONGEST = 40
_HIDDEN = dict.fromkeys([0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2060, 0xFEFF, 0x00AD])


class Wish(Word):
    """What a person's message asks for."""

    STOP = "stop"
    START = "start"


# Words that say nothing else when they stand alone. "Cancel" and "end" are left out: they are
# answers to an agent's questions.
STOP_WORDS: Mapping[str, tuple[str, ...]] = {
    "en": ("stop", "stopall", "stop all", "unsubscribe", "opt out", "optout", "opt-out"),
    "ar": ("توقف", "إيقاف", "ايقاف", "إلغاء الاشتراك"),
    "cs": ("zastavit", "odhlásit"),
    "da": ("stop", "afmeld"),
    "de": ("stopp", "abmelden", "abbestellen"),
    "el": ("σταμάτα", "διακοπή"),
    "es": ("alto", "parar", "baja", "detener"),
    "fa": ("توقف", "لغو"),
    "fi": ("lopeta", "seis"),
    "fr": ("arrêt", "arret", "arrêter", "arreter", "désabonner", "desabonner"),
    "he": ("הסר", "עצור", "הפסק"),
    "hi": ("रोकें", "बंद करो", "बंद"),
    "hu": ("állj", "leiratkozás"),
    "id": ("berhenti",),
    "it": ("ferma", "fermati", "basta", "disiscrivimi"),
    "ja": ("停止", "配信停止", "ストップ"),
    "ko": ("중지", "수신거부", "그만"),
    "nb": ("stopp", "avmeld"),
    "nl": ("stoppen", "afmelden"),
    "pl": ("wypisz", "zatrzymaj"),
    "pt": ("pare", "parar", "sair", "descadastrar"),
    "ro": ("oprește", "opreste", "dezabonare"),
    "ru": ("стоп", "отписаться", "отписка"),
    "sv": ("stopp", "avsluta", "avregistrera"),
    "tr": ("dur", "durdur", "abonelikten çık"),
    "uk": ("стоп", "відписатися"),
    "vi": ("dừng", "dừng lại"),
    "zh": ("停止", "退订", "退訂", "取消订阅"),
}
START_WORDS: Mapping[str, tuple[str, ...]] = {
    "en": ("start", "unstop", "subscribe"),
    "ar": ("ابدأ", "اشتراك"),
    "de": ("anmelden", "starten"),
    "es": ("iniciar", "alta"),
    "fr": ("démarrer", "demarrer", "abonner"),
    "it": ("inizia", "iscrivimi"),
    "ja": ("開始",),
    "ko": ("시작",),
    "nl": ("starten", "aanmelden"),
    "pl": ("zapisz",),
    "pt": ("iniciar", "começar"),
    "ru": ("старт", "подписаться"),
    "tr": ("başla",),
    "uk": ("підписатися",),
    "zh": ("开始", "開始", "订阅"),
}


def plain(text: str) -> str:
    """A text as words are looked for in it: folded, without signs around it.

    >>> plain(" /STOP!! ")
    'stop'
    """
    bare = unicodedata.normalize("NFKC", text.translate(_HIDDEN)).casefold()
    # Capitals of Turkish lose the dot, or keep one too many.
    bare = bare.replace("i\u0307", "i").replace("\u0131", "i")
    start, end = 0, len(bare)
    while start < end and not _is_letter(bare[start]):
        start += 1
    while end > start and not _is_letter(bare[end - 1]):
        end -= 1
    return " ".join(bare[start:end].split())


def _is_letter(one: str) -> bool:
    # Marks are letters' parts in many scripts.
    return unicodedata.category(one)[0] in "LMN"


def _listed(table: Mapping[str, tuple[str, ...]]) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for language, words in table.items():
        for one in words:
            found.setdefault(plain(one), set()).add(language)
    return {word: frozenset(languages) for word, languages in found.items()}


_STOP = _listed(STOP_WORDS)
_START = _listed(START_WORDS)


def wish(text: str, languages: Iterable[str] = ()) -> Wish | None:
    """What a message asks for when it is nothing but such a word.

    `languages` are codes such as `de` or `pt-BR`; English always counts, none means all.

    >>> wish("Stop."), wish("stop it at the station"), wish("стоп", ["de"]), wish("стоп")
    (<Wish.STOP: 'stop'>, None, None, <Wish.STOP: 'stop'>)
    """
    if len(text) > LONGEST:
        return None
    word = plain(text)
    known = {one.partition("-")[0].casefold() for one in languages}
    for table, found in ((_STOP, Wish.STOP), (_START, Wish.START)):
        spoken = table.get(word)
        if spoken and (not known or "en" in spoken or spoken & known):
            return found
    return None


def refusal(rows: Mapping[str, Consent | None]) -> str:
    """Why nothing may be written, empty where it may. `rows` stand under what they are about.

    Any OFF is enough; without one, an ON about everything or about the provider is needed. What is
    about a session only can forbid, or allow for that session.
    """
    known = [(about, row) for about, row in rows.items() if row is not None]
    for about, row in known:
        if row.state is ConsentState.OFF:
            what = f" ({about})" if about else ""
            why = f": {row.why}" if row.why else "."
            return f"turned off{what} by {row.by} on {row.at:%Y-%m-%d %H:%M}Z{why}"
    if not any(row.state is ConsentState.ON for _, row in known):
        return "consent was never given; who writes first gives it, else a human turns it on."
    return ""
