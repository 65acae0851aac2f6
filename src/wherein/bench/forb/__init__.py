"""FORB: flat objects in the wild."""
