"""PROxford and PRParis: ranked images with the pixels of the query object."""
