"""Writing first, one channel: everything that has to hold before an intent is written.

In this order, in one transaction: the account is granted, the person consents, the provider's
window is open, the limits have room, an answer would come back to the one that writes. Then the
claim, the intent and the reservation are written together, or nothing is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import ceil

from threadline.core import claims
from threadline.core.auditing import audit
from threadline.core.consenting import forbidden, granted
from threadline.core.deliveries import Delivery, DeliveryState
from threadline.core.draft import Draft
from threadline.core.errors import (
    ConsentRequired,
    LimitReached,
    NotFound,
    ReplyRouteConflict,
    Unauthorized,
    WindowClosed,
)
from threadline.core.ids import public
from threadline.core.intents import remember, said_already
from threadline.core.joining import recipient
from threadline.core.lanes import registration_of
from threadline.core.meeting import contact_of
from threadline.core.model import (
    About,
    Actor,
    Attachment,
    Claim,
    Conversation,
    ConversationRef,
    Event,
    InboundMessage,
    Kind,
    Origin,
    Party,
    Session,
)
from threadline.core.moving import notice
from threadline.core.places import create, learned
from threadline.core.ports import (
    ADAPTER,
    CONTACT,
    KNOWN,
    MEMBER,
    QUOTA,
    RECORD,
    SEND,
    SETTING,
    fetch,
)
from threadline.core.publishing import right_of
from threadline.core.rules import allowance, delivery, speaking
from threadline.core.rules.limits import Limits
from threadline.core.rules.pacing import Pace
from threadline.core.rules.splitting import Clusters
from threadline.core.saying import say
from threadline.core.seating import heir, numbers_of
from threadline.core.sends import Channel, FirstSaid, Send, SendState, Tried
from threadline.core.threads import parent_of
from threadline.core.voices import scene_of, speaker_of, stage

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LIMITS = "limits"


@dataclass(frozen=True, slots=True)
class Written:
    """A send and, where it became one, its delivery with the conversation it stands in."""

    send: Send
    delivery: Delivery | None = None
    conversation: Conversation | None = None


def write_first(
    draft: Draft,
    session: Session,
    send: Send,
    channel: Channel,
    ref: ConversationRef,
    now: datetime,
    *,
    by: str,
    origin: Origin | None,
    limits: Limits,
    pace: Pace,
    clusters: Clusters,
    copies: Mapping[str, Attachment] | None = None,
) -> Written:
    """Write the intent of a send through one channel, to the place its opening answered.

    Raises `Unauthorized`, `ConsentRequired`, `WindowClosed`, `LimitReached`, `ReplyRouteConflict`,
    `NotFound`, and what `core.saying.say` does; then nothing is written.
    """
    if not granted(draft, session, channel.provider, channel.account_id):
        raise not_granted(session, channel.provider, channel.account_id)
    conversation = _place(draft, ref, channel, now)
    person = _person(draft, conversation, channel)
    if reason := forbidden(draft, conversation, session, person):
        raise ConsentRequired(reason, conversation=public(conversation.id))
    if first := said_already(draft, conversation, send, person, now):
        return _suppressed(draft, conversation, send, first, channel, now, by)
    _in_window(draft, conversation, channel, send, now)
    names = _reserve(draft, session, conversation, channel, send, person, now)
    right, handle = _right(draft, conversation, session, now)
    sent = say(
        draft,
        conversation,
        session,
        right or delivery.GRANTED,
        send.words,
        now,
        origin=origin,
        replied=None,
        key=None,
        asked=conversation,
        limits=limits,
        pace=pace,
        clusters=clusters,
        copies=copies,
        send=send.id,
    )
    there = draft.taken(conversation.id) or conversation
    if right == delivery.CLAIM:
        there = claims.make(draft, there, session.id, sent.id, handle)
    send = replace(
        send,
        state=SendState.OPEN,
        due_at=None,
        step=send.step + 1,
        reserved=names,
        person=send.person if person is None else person,
        tried=(
            *send.tried,
            Tried(
                channel=channel,
                outcome=DeliveryState.PENDING.value,
                at=now,
                conversation=conversation.id,
                delivery=sent.id,
            ),
        ),
    )
    draft.put(SEND, send.id, send)
    remember(draft, conversation, send, person, session, now)
    audit(
        draft,
        send.scope_id,
        by,
        "send",
        now,
        subject=public(send.id),
        session=session.name,
        to=send.to,
        channel=f"{channel.provider}/{channel.account_id}",
        conversation=public(conversation.id),
        person="" if person is None else public(person),
        right=right or delivery.GRANTED,
    )
    # A place of ours settles at once; so does what can never be said.
    claims.settle(draft, None, sent, now)
    return Written(draft.get(SEND, send.id) or send, sent, draft.taken(conversation.id))


def not_granted(session: Session, provider: str, account_id: str = "") -> Unauthorized:
    """What a session is told about accounts that are not its own, whether they exist or not."""
    account = f"{provider}/{account_id}" if account_id else provider
    return Unauthorized(
        f"{session.name!r} may not start conversations through {account}. A controller grants "
        "accounts to sessions.",
        session_id=session.name,
        account=account,
    )


def _place(draft: Draft, ref: ConversationRef, channel: Channel, now: datetime) -> Conversation:
    """The conversation, made where it is a platform's and not known yet."""
    found = draft.taken(ref.text)
    if found is not None and found.about.moved_to is not None:
        found = draft.taken(found.about.moved_to) or found
    if found is None:
        if ref.provider in delivery.LOCAL:
            raise NotFound("there is no such conversation.")
        found = create(draft, ref, now, root=_root(draft, ref))
    guessed = found.about.kind_guessed or _untouched(draft, found)
    if channel.address and ref.kind is Kind.DM and guessed:
        # Somebody named the place, or the account heard of it, before it was known whose it is.
        found = learned(draft, found, Kind.DM)
    if channel.address and found.about.party is None and found.kind is Kind.DM:
        party = Party(channel.realm, channel.address)
        found = replace(found, about=replace(found.about, party=party))
        draft.save(found)
    return found


def _untouched(draft: Draft, conversation: Conversation) -> bool:
    """Whether nothing happened in a room but that we ourselves came in."""
    if conversation.kind is not Kind.ROOM or conversation.head > 3:
        return False
    keys = [(conversation.id, one) for one in range(1, conversation.head + 1)]
    records = fetch(draft, RECORD, keys)
    return all(
        one is not None and one.event is Event.MEMBER and one.actor.is_self for one in records
    )


def _root(draft: Draft, ref: ConversationRef) -> str | None:
    """The message a thread hangs on, where the room has one of the thread's name: most platforms
    name it so, and nobody may have answered there yet."""
    room = None if ref.parent is None else draft.peeked(ref.parent.text)
    if room is None:
        return None
    known = draft.get(KNOWN, (room.id, draft.id_key("", ref.conversation_id)))
    return None if known is None else ref.conversation_id


def _person(draft: Draft, conversation: Conversation, channel: Channel) -> int | None:
    """Who is written to, whether by an address or in the place where they are known."""
    found = contact_of(draft, conversation)
    if found is None and channel.address:
        key = (conversation.ref.scope_id, channel.provider, channel.realm, channel.address)
        found = draft.get(CONTACT, key)
    return None if found is None else found.person


def _in_window(
    draft: Draft, conversation: Conversation, channel: Channel, send: Send, now: datetime
) -> None:
    """Raise `WindowClosed` where only a template would be taken, and this is none (H8)."""
    there = registration_of(draft, conversation.ref)
    window = None if there is None else there.capabilities.window
    if window is None or conversation.kind is not Kind.DM or "template" in send.metadata:
        return
    contact = contact_of(draft, conversation)
    heard = None if contact is None or contact.account != channel.account_id else contact.heard_at
    if heard is None or now - heard >= window:
        hours = int(window.total_seconds() // 3600)
        last = "never wrote here" if heard is None else f"wrote last at {heard:%Y-%m-%d %H:%M}Z"
        raise WindowClosed(
            f"this person {last}, and {channel.provider} takes free words for {hours} hours after "
            "that. Name a template in the metadata.",
            last_heard_at=None if heard is None else heard.isoformat(),
        )


def _reserve(
    draft: Draft,
    session: Session,
    conversation: Conversation,
    channel: Channel,
    send: Send,
    person: int | None,
    now: datetime,
) -> tuple[str, ...]:
    """Count one more against every limit, or raise `LimitReached` (H7)."""
    names = {
        "recipient": recipient(conversation.id if person is None else person),
        "session": f"session:{public(session.id)}",
        "account": f"{claims.ACCOUNT}{channel.provider}/{channel.account_id}",
    }
    stored = draft.get(SETTING, (send.scope_id, LIMITS))
    allowed = allowance.STANDARD if stored is None else allowance.read(stored.value)
    for subject, name in names.items():
        quota = draft.get(QUOTA, (send.scope_id, name)) or allowance.Quota()
        full = allowance.over(quota, allowed.of(subject), now, EPOCH)
        if full is not None:
            raise LimitReached(
                f"{full.name} is {full.limit}; the next may leave at "
                f"{full.frees_at:%Y-%m-%d %H:%M:%S}Z.",
                limit=full.name,
                number=full.limit,
                frees_at=full.frees_at.isoformat(),
                retry_after=max(1, ceil((full.frees_at - now).total_seconds())),
            )
        draft.put(QUOTA, (send.scope_id, name), allowance.reserve(quota, send.id, now, EPOCH))
    return tuple(names.values())


def _right(
    draft: Draft, conversation: Conversation, session: Session, now: datetime
) -> tuple[str | None, str | None]:
    """By which right it speaks: one it has, a claim, or (None) its account alone.

    Raises `ReplyRouteConflict` where a person's untargeted answer would reach somebody else (H4).
    """
    right = right_of(draft, conversation, session, now)
    there = draft.get(
        ADAPTER,
        (conversation.ref.scope_id, conversation.ref.provider, conversation.ref.account_id),
    )
    threads = there is not None and there.capabilities.opens_threads
    if conversation.kind is Kind.ROOM and threads:
        _answered_by(draft, _thread_below(conversation), session, now, root=True)
        return right, None
    claim = conversation.about.claim
    holds = None if claim is None else heir(draft, claim.session)
    if claim is not None and holds is not None and claim.session not in numbers_of(session):
        # That of a retired one holds nobody off: no answer reaches it.
        _conflict(draft, claim.session)
    handle = _handle(draft, conversation, session, now)
    claimed = replace(
        conversation, about=replace(conversation.about, claim=Claim(session.id, 0, handle))
    )
    holder = conversation.about.binding
    if handle is None and holder is not None and right is None:
        # A claim never takes what is another's: the binding stands.
        claimed = conversation
    _answered_by(draft, claimed, session, now)
    if right is not None and right.startswith("binding:"):
        return right, None
    return delivery.CLAIM, handle


def _thread_below(room: Conversation) -> Conversation:
    """The thread that a top-level post opens, before anybody knows its name."""
    about = About(created_at=room.about.created_at, parent=room.id)
    return Conversation(0, room.ref, Kind.THREAD, about)


def _handle(
    draft: Draft, conversation: Conversation, session: Session, now: datetime
) -> str | None:
    """The handle a session speaks under where a group decides, None where none does."""
    room = parent_of(draft, conversation) if conversation.kind is Kind.THREAD else None
    owner, _ = stage(conversation, room, now)
    if owner is None:
        return None
    for number in numbers_of(session):
        member = draft.get(MEMBER, (owner.id, number))
        if member is not None and member.closed_at is None and member.handles:
            return speaking.fold(member.handles[0])
    return ""


def _answered_by(
    draft: Draft, conversation: Conversation, session: Session, now: datetime, *, root: bool = False
) -> None:
    """One test: `route` of an untargeted human answer, were the send already recorded."""
    room = parent_of(draft, conversation) if conversation.kind is Kind.THREAD else None
    owner, holder = stage(conversation, room, now)
    bound = None if owner is not None else speaker_of(holder, now)
    answer = InboundMessage(conversation=conversation.ref, text="yes", actor=Actor("-"))
    scene = scene_of(draft, conversation, answer, owner, bound)
    if root:
        scene = replace(scene, root_said_by=session.id)
    choice = speaking.route(scene)
    found = heir(draft, choice.session)
    if found is None or found.id != session.id:
        _conflict(draft, choice.session)


def _conflict(draft: Draft, other: int | None) -> None:
    found = heir(draft, other)
    who = "nobody" if found is None else f"{found.name!r}"
    raise ReplyRouteConflict(
        f"an answer here would be given to {who}. Bind the conversation to the session that "
        "writes, or make it a participant that is spoken to.",
        session_id=None if found is None else found.name,
    )


# --- the same thing, said once ---------------------------------------------------------------


def _suppressed(
    draft: Draft,
    conversation: Conversation,
    send: Send,
    first: FirstSaid,
    channel: Channel,
    now: datetime,
    by: str,
) -> Written:
    """Not said again; the transcript and the caller are told who said it first, and when."""
    told = (
        f"Not said again: {first.session} said this ({send.intent}) at "
        f"{first.at:%Y-%m-%d %H:%M:%S}Z."
    )
    tried = Tried(channel=channel, outcome=SendState.SUPPRESSED.value, at=now, reason=told)
    send = replace(
        send,
        state=SendState.SUPPRESSED,
        reason=told,
        first=first,
        due_at=None,
        step=send.step + 1,
        tried=(*send.tried, tried),
    )
    draft.put(SEND, send.id, send)
    if conversation.head or conversation.about.members:
        conversation = notice(draft, conversation, told, now, intent=send.intent)
    audit(
        draft,
        send.scope_id,
        by,
        "send.suppressed",
        now,
        subject=public(send.id),
        first=public(first.send),
    )
    return Written(send, None, conversation)
