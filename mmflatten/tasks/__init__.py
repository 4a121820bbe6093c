"""Tasks: classification, detection, segmentation and stereo matching."""
