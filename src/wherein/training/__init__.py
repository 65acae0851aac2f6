"""Learning from labels, tags and judgements: heads and adapters over stored embeddings, and fine-tuning with torch."""
