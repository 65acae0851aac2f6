"""What the engine says, as it is spelled on a command line.

Messages of the engine are the same in every door and speak of an example image, a place, a method, or of an option by
its Python name. Here the flag that says so is added, so that a person can type the way out.
"""

from __future__ import annotations

import re
from typing import Final

_SPELLINGS: Final = (
    (r"\ban example image\b", r"\g<0> (--image FILE)"),
    (r"\bname a place\b", r"\g<0> (--where)"),
    (r"\bthe method ([^\s,;]*[^\s,;.])", r"\g<0> (--method \1)"),
    (r"\bthe kind (head|adapter|full)\b", r"\g<0> (--kind \1)"),
    (r"\bmax_pixels\b", "--max-pixels"),
    (r"\bfollow_links\b", "--follow-links"),
    (r"\b(name|into) another collection\b", r"\g<0> (--collection)"),
    (r"\bwithout this index\b", r"\g<0> (leave out --index)"),
    (r"\ballow its code\b", r"\g<0> (--trust-remote-code)"),
)
"""(what the engine says, what the command says instead)"""


def in_flags(message: str) -> str:
    """A message of the engine with the flags of the command."""
    for said, spelled in _SPELLINGS:
        message = re.sub(said, spelled, message)
    return message
