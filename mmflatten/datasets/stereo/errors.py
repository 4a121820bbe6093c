"""The error of stereo files that are missing, damaged or do not belong together."""


class StereoDataError(ValueError):
    """A file of a stereo data set cannot be used; the message names the file and the fix."""
