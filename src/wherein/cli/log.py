"""What wherein does, told on stderr when somebody asks: `--verbose`, or the variable WHEREIN_LOG."""

from __future__ import annotations

import logging
import os
import sys
from typing import Final

VERBOSE: Final = "--verbose"
VARIABLE: Final = "WHEREIN_LOG"
LEVELS: Final = ("debug", "info", "warning", "error")


def tell_log(*, verbose: bool) -> None:
    """Show the log from `info` on, or from the level that WHEREIN_LOG names; as Python does where neither is given."""
    from wherein.errors import InputError, did_you_mean

    named = os.environ.get(VARIABLE, "").strip().lower()
    if named and named not in LEVELS:
        raise InputError(f"{VARIABLE}={named}: choose from {', '.join(LEVELS)}.{did_you_mean(named, LEVELS)}")
    level = named or ("info" if verbose else "")
    log = logging.getLogger("wherein")
    for handler in [one for one in log.handlers if isinstance(one, _Told)]:
        log.removeHandler(handler)
    if level:
        handler = _Told()
        handler.setFormatter(
            logging.Formatter("%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s", "%H:%M:%S")
        )
        log.addHandler(handler)
    log.setLevel(level.upper() if level else logging.NOTSET)


class _Told(logging.Handler):
    """The handler that the command adds; it writes to whatever stderr is then."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one message of the log as one line on stderr."""
        sys.stderr.write(f"{self.format(record)}\n")
