"""The command line: `threadline`.

It opens the store itself. What starts is only what the words on the screen need; the library and
the drivers are imported by the command that uses them, so `--help` answers at once.
"""

from threadline.entrypoints.cli.program import app as app
from threadline.entrypoints.cli.program import main as main
