"""The benchmark kit: data → run → metrics → report. It searches by the calls that a user has, and by no others."""
