"""Models of mmflatten. Importing this package registers them."""

from mmflatten.models.attention import *  # noqa: F401,F403
from mmflatten.models.backbones import *  # noqa: F401,F403
from mmflatten.models.detection import SimpleFeaturePyramid  # noqa: F401
from mmflatten.models.stereo import *  # noqa: F401,F403
