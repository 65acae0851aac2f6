"""Captioned photographs: COCO and Flickr30k by Karpathy's splits, Crossmodal-3600 in 36 languages."""
