from __future__ import annotations

from tests.files.conftest import PICTURE
from tests.files.test_sending import LOBBY
from tests.files.test_sending import line as line
from tests.http.conftest import running
from tests.http.guests import came_in, link
from threadline import Threadline
from threadline.core.model import WindowMode
from threadline.testing.clock import StillClock


async def test_a_file_said_during_an_import_stays(line: Threadline, clock: StillClock) -> None:
    async with running(line) as site:
        boss = await site.controller()
        room = (await line.conversations.show(LOBBY)).id
        ann = await came_in(site, (await link(boss, room))["url_path"], "Ann")
        made = (await ann.client.post("/chat/files", content=PICTURE)).json()
        window = await line.hydration.begin(LOBBY, owner="me", mode=WindowMode.GATED)
        assert window.token
        body = {"text": "look", "client_id": "one", "files": [made["id"]]}
        first = await ann.client.post("/chat/messages", json=body)
        print(first.status_code, first.text)
        again = await ann.client.post("/chat/messages", json=body)
        print(again.status_code, again.text)
        await line.hydration.complete(LOBBY, window.token)
        [record] = (await line.conversations.transcript(LOBBY)).records
        assert await line.files.read(LOBBY, record.sequence) == PICTURE
        clock.move(days=2)
        print(await line.uploads.tidy())
        assert await line.files.read(LOBBY, record.sequence) == PICTURE
        assert again.status_code == first.status_code, again.text
