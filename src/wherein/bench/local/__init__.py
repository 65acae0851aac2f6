"""The development sets, each a small look-alike of a benchmark."""
