"""One file per official benchmark: truth and predictions in, an Evaluation out."""
