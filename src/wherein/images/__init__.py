"""Files and bytes become images: decoding, videos, finding files, image pyramids, proposals."""
