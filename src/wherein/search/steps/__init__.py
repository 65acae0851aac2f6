"""What is done with a ranking once it is made: verify, expand, locate, zoom."""
