"""Steps: what is done with a ranking once it is made. One step is one file that declares itself.

A step says which options may follow it, which layers it reads and how many candidates it wants to see; called with the
context of a search and its ranking, it gives the new one. To add one, write a file like `zoom.py` and one line in
`wherein.plugins` (or an entry point of the group `wherein.steps`).
"""

from __future__ import annotations

from wherein.values.method import Method, Option


class SearchStep:
    """What every step has unless it says otherwise."""

    name = ""
    summary = ""
    options: tuple[Option, ...] = ()
    layers: tuple[str, ...] = ()
    uses_place = False
    depth = 0

    def needs_local(self, method: Method) -> bool:  # noqa: ARG002 — steps with options need it
        """Whether it reads local features."""
        return False
