"""`python -m wherein` is the command `wherein`."""

from wherein.cli import main

main()
