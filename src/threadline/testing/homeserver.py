"""A real Synapse on this machine, which tests and the demo may stop, kill and start again."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

# `make setup` puts it beside the environment that runs us; a copy of the tree has none.
PLACES = (Path(__file__).parents[3], Path(sys.prefix).parent)
PYTHONS = [place / ".synapse" / "bin" / "python" for place in PLACES]
PYTHON = next((one for one in PYTHONS if one.exists()), PYTHONS[0])
SECONDS = 60.0
SECRET = "only-for-these-tests"
AS_TOKEN, HS_TOKEN = "as-3f9c1be27d", "hs-81d20c44fa"
PUSHED = "pushed"

# The generous limits of a server that measures nothing; one test narrows one user's.
FREE = {"per_second": 10_000, "burst_count": 10_000}


def free_port() -> int:
    """A port of this machine that nobody has at the moment."""
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port: int = chosen.getsockname()[1]
        return port


class Homeserver:
    """Synapse with its data in a folder. `push_port` is where an application service is reached."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.push_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.web = httpx.Client(base_url=self.url, timeout=SECONDS, trust_env=False)
        self._names = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._configure()

    def _configure(self) -> None:
        service = {
            "id": "threadline",
            "url": f"http://127.0.0.1:{self.push_port}/v1/webhooks/matrix/pushed",
            "as_token": AS_TOKEN,
            "hs_token": HS_TOKEN,
            "sender_localpart": PUSHED,
            "rate_limited": False,
            "namespaces": {"users": [], "aliases": [], "rooms": []},
        }
        log = {
            "version": 1,
            "handlers": {"file": {"class": "logging.FileHandler", "filename": self._at("log")}},
            "root": {"level": "WARNING", "handlers": ["file"]},
            "disable_existing_loggers": False,
        }
        config: dict[str, Any] = {
            "server_name": "localhost",
            "pid_file": self._at("pid"),
            "listeners": [
                {
                    "bind_addresses": ["127.0.0.1"],
                    "port": self.port,
                    "tls": False,
                    "type": "http",
                    "resources": [{"names": ["client"]}],
                }
            ],
            "database": {"name": "sqlite3", "args": {"database": self._at("synapse.db")}},
            "log_config": self._at("log.yaml"),
            "media_store_path": self._at("media"),
            "signing_key_path": self._at("signing.key"),
            "registration_shared_secret": SECRET,
            "macaroon_secret_key": SECRET,
            "form_secret": SECRET,
            "report_stats": False,
            "trusted_key_servers": [],
            "federation_domain_whitelist": [],
            "enable_registration": False,
            "presence": {"enabled": False},
            "url_preview_enabled": False,
            "bcrypt_rounds": 4,
            "app_service_config_files": [self._at("service.yaml")],
            "rc_message": FREE,
            "rc_room_creation": FREE,
            "rc_registration": FREE,
            "rc_login": {"address": FREE, "account": FREE, "failed_attempts": FREE},
            "rc_joins": {"local": FREE, "remote": FREE},
            "rc_invites": {"per_room": FREE, "per_user": FREE, "per_issuer": FREE},
        }
        # JSON is YAML.
        for name, value in (("service", service), ("log", log), ("homeserver", config)):
            (self.folder / f"{name}.yaml").write_text(json.dumps(value), "utf-8")
        key = self.folder / "signing.key"
        subprocess.run([PYTHON.with_name("generate_signing_key"), "-o", key], check=True)

    def _at(self, name: str) -> str:
        return str(self.folder / name)

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self.folder / "errors").open("ab") as errors:
            self._process = subprocess.Popen(
                [PYTHON, "-E", "-m", "synapse.app.homeserver", "-c", self._at("homeserver.yaml")],
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        end = time.monotonic() + SECONDS
        while True:
            try:
                self.web.get("/health").raise_for_status()
                return
            except httpx.HTTPError:
                assert self._process.poll() is None, (self.folder / "errors").read_text()
                assert time.monotonic() < end, "Synapse does not come up"
                time.sleep(0.05)

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def close(self) -> None:
        """End it and its connections."""
        self.kill()
        self.web.close()

    def register(self, name: str, *, admin: bool = False) -> tuple[str, str]:
        """A new user with a device: the user's id and an access token."""
        user = f"{name}-{next(self._names)}"
        nonce = self.web.get("/_synapse/admin/v1/register").json()["nonce"]
        words = [nonce, user, "a-password", "admin" if admin else "notadmin"]
        mac = hmac.new(SECRET.encode(), "\0".join(words).encode(), hashlib.sha1).hexdigest()
        body = {"nonce": nonce, "username": user, "password": "a-password", "mac": mac}
        answer = self.web.post("/_synapse/admin/v1/register", json={**body, "admin": admin})
        answer.raise_for_status()
        said = answer.json()
        return said["user_id"], said["access_token"]

    def direct(self, token: str, user: str) -> dict[str, list[str]]:
        """The rooms this user keeps as direct, by person."""
        place = f"/_matrix/client/v3/user/{user}/account_data/m.direct"
        answer = self.web.get(place, headers={"authorization": f"Bearer {token}"})
        answer.raise_for_status()
        found: dict[str, list[str]] = answer.json()
        return found

    def events(self, token: str, room: str) -> list[dict[str, Any]]:
        """All that is in a room, oldest first, as this user sees it: the count of effects."""
        asked: dict[str, str | int] = {"dir": "b", "limit": 500}
        headers = {"authorization": f"Bearer {token}"}
        answer = self.web.get(
            f"/_matrix/client/v3/rooms/{room}/messages", params=asked, headers=headers
        )
        answer.raise_for_status()
        found: list[dict[str, Any]] = answer.json()["chunk"]
        return found[::-1]

    def bodies(self, token: str, room: str) -> list[str]:
        """What was said in a room, oldest first."""
        kind = "m.room.message"
        events = self.events(token, room)
        return [one["content"].get("body", "") for one in events if one["type"] == kind]

    def limit(self, admin: str, user: str, per_second: int, burst: int) -> None:
        """Narrow what one user may send."""
        self.web.post(
            f"/_synapse/admin/v1/users/{user}/override_ratelimit",
            json={"messages_per_second": per_second, "burst_count": burst},
            headers={"authorization": f"Bearer {admin}"},
        ).raise_for_status()
