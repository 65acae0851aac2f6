"""A ranking becomes a table, JSON, a page or an export."""
