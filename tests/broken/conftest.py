"""The platforms."""

from tests.slack.conftest import platform as platform
from tests.slack.conftest import slack as slack
