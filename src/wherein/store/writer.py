"""Who is writing to a collection, as the others are told."""

from __future__ import annotations

import getpass
import json
import os
import socket
import sys
from pathlib import Path


def me() -> dict[str, str | int]:
    """What the next one who wants to write is told of this process."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in many containers
        user = f"user {os.getuid()}" if hasattr(os, "getuid") else "someone"
    return {"pid": os.getpid(), "user": user, "host": socket.gethostname(), "command": Path(sys.argv[0]).name}


def who(holder: Path) -> str:
    """Who writes, as the file `holder` tells."""
    try:
        who = json.loads(holder.read_text())
        return f"`{who['command']}` (process {who['pid']} of {who['user']} on {who['host']})"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another process"
