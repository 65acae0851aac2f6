"""The benchmark kit: datasets/ → run → metrics → report. It drives the calls a user has; no private path."""
