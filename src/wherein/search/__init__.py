"""A query becomes a ranking: embed, score, combine, then the steps."""
