"""Every setting says what it is and who says so."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Shell


@pytest.mark.case("B151")
def test_the_environment_wins_over_the_file_and_the_file_over_the_default(shell: Shell) -> None:
    """B151: one order, and where each value comes from is shown."""
    home = shell.folder / "home"
    home.mkdir()
    (home / "threadline.toml").write_text('port = 9001\nhost = "0.0.0.0"\n')
    shell.settings = {"THREADLINE_PORT": "9002"}

    found = shell.good("config", "--json").json["settings"]
    shown = shell.good("config").out

    assert found["port"] == {"value": 9002, "source": "THREADLINE_PORT"}
    assert found["host"] == {"value": "0.0.0.0", "source": "threadline.toml"}
    assert found["scope"] == {"value": "default", "source": "default"}
    assert "9002" in shown
    assert "THREADLINE_PORT" in shown


@pytest.mark.case("B151")
def test_a_setting_nobody_knows_is_an_error_with_the_nearest_name(shell: Shell) -> None:
    """B151: it is never ignored in silence."""
    home = shell.folder / "home"
    home.mkdir()
    (home / "threadline.toml").write_text("prot = 9001\n")

    for command in (["config"], ["conversations"], ["serve"]):
        refused = shell(*command, "--json")
        assert refused.code == 2
        assert refused.error["code"] == "config_error"
        assert "prot (did you mean port?)" in refused.error["message"]


def test_a_password_in_the_stores_address_is_not_shown(shell: Shell) -> None:
    """Neither in the table nor as JSON."""
    shell.settings = {"THREADLINE_STORE": "postgresql://ledger:hunter2@db.internal/threadline"}

    both = shell.good("config").out + shell.good("config", "--json").out

    assert "hunter2" not in both
    assert "ledger:***@db.internal" in both
