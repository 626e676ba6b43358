"""Threadline: the ledger between AI agents and the places where people talk."""

from threadline.app import Threadline as Threadline
from threadline.core.errors import ThreadlineError as ThreadlineError
from threadline.core.model import Actor as Actor
from threadline.core.model import Attachment as Attachment
from threadline.core.model import BackfillPolicy as BackfillPolicy
from threadline.core.model import ConversationRef as ConversationRef
from threadline.core.model import InboundMessage as InboundMessage
from threadline.core.model import Kind as Kind
from threadline.core.model import TranscriptRecord as TranscriptRecord
from threadline.flows.replay import CaughtUp as CaughtUp
from threadline.flows.replay import Gap as Gap
from threadline.flows.replay import Handed as Handed
