"""The official benchmarks as their publishers lay them out on disk: one file each, into frozen values."""
