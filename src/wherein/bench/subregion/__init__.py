"""Sub-region search: text and a box find a known frame."""
