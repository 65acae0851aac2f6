"""What a search is asked and answers with, as plain values: regions, masks, queries, rankings, records."""
