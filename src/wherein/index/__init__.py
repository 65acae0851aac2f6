"""Nearest-neighbour search over stored rows."""
