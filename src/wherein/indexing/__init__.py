"""Folders become rows: what is new, changed, renamed or gone, and how it is embedded."""
