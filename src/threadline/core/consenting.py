"""Whether a session may write in a conversation at all, as the people in it decided.

Asked when something is written down and again just before it leaves.
"""

from __future__ import annotations

from datetime import datetime

from threadline.core.draft import Draft
from threadline.core.ids import public
from threadline.core.meeting import contact_of, is_direct
from threadline.core.model import Conversation, Direction, Kind, Session
from threadline.core.people import EVERYTHING, Consent, ConsentState, about_session
from threadline.core.ports import CONSENT, GRANTED, RECORD, fetch
from threadline.core.rules import binding, delivery
from threadline.core.rules.consent import Wish, refusal, wish
from threadline.core.seating import numbers_of

Consents = dict[str, Consent | None]


def consents_of(
    draft: Draft, conversation: Conversation, session: Session, person: int | None = None
) -> Consents:
    """What was decided about writing here: by the person of a direct conversation, else by the
    room's switch. Empty where nobody is known who could have decided."""
    subject: int | None = conversation.id
    provider = ""
    if is_direct(draft, conversation):
        contact = contact_of(draft, conversation)
        subject = person if contact is None else contact.person
        provider = conversation.ref.provider
    elif conversation.kind is Kind.THREAD and conversation.about.parent is not None:
        above = draft.peeked(conversation.about.parent)
        subject = conversation.id if above is None else above.id
    if subject is None:
        return {}
    abouts = [EVERYTHING, *([provider] if provider else [])]
    abouts += [about_session(public(one)) for one in numbers_of(session)]
    rows = fetch(draft, CONSENT, [(subject, about) for about in abouts])
    return dict(zip(abouts, rows, strict=True))


def forbidden(
    draft: Draft, conversation: Conversation, session: Session, person: int | None = None
) -> str:
    """Why a session may not write here on its own initiative, empty where it may."""
    return refusal(consents_of(draft, conversation, session, person))


def stopped(draft: Draft, person: int) -> str:
    """Why nothing may be planned for a person who turned everything off, empty where it may.

    What was merely not allowed yet may be when its time comes.
    """
    row = draft.get(CONSENT, (person, EVERYTHING))
    off = row is not None and row.state is ConsentState.OFF
    return refusal({EVERYTHING: row}) if off else ""


def silenced(
    draft: Draft, conversation: Conversation, session: Session, answers: int | None
) -> str:
    """Why even a bound session may not speak to a person who said stop, empty where it may.

    What that person wrote after it may be answered; `answers` is the sequence of what is.
    """
    if contact_of(draft, conversation) is None:
        return ""
    rows = consents_of(draft, conversation, session)
    off = [one for one in rows.values() if one is not None and one.state is ConsentState.OFF]
    if not off:
        return ""
    record = None if answers is None else draft.get(RECORD, (conversation.id, answers))
    own = record is not None and record.direction is Direction.INBOUND
    # One batch has one time, so what came with the word "stop" counts, the word itself never.
    if record is not None and own and wish(record.text) is not Wish.STOP:
        newer = all(record.recorded_at >= one.at for one in off)
        return "" if newer else refusal(rows)
    return f"{refusal(rows)} Only what was written since may be answered: reply to that."


def granted(draft: Draft, session: Session, provider: str, account_id: str) -> bool:
    """Whether a session may start conversations through an account."""
    keys = [(one, provider, account_id) for one in numbers_of(session)]
    return any(one is not None for one in fetch(draft, GRANTED, keys))


def withdrawn(
    draft: Draft, conversation: Conversation, session: Session, right: str, now: datetime
) -> str:
    """Why what a session wrote on its own initiative may not leave any more, empty where it may."""
    ref = conversation.ref
    if not granted(draft, session, ref.provider, ref.account_id):
        return f"{ref.provider}/{ref.account_id} is not granted to {session.name!r} any more."
    claim, bound = conversation.about.claim, binding.current(conversation.about, now)
    mine = numbers_of(session)
    if right == delivery.CLAIM:
        claimed = claim is not None and claim.session in mine
        if not claimed and (bound is None or bound.session not in mine):
            return "the conversation was given to another session meanwhile."
    return forbidden(draft, conversation, session)
