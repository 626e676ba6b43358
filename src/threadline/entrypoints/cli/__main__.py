"""`python -m threadline.entrypoints.cli`."""

from threadline.entrypoints.cli.program import main

main()
