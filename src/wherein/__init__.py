"""wherein: visual search that answers which image, and where in it."""
