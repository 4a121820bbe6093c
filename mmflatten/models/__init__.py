"""Models of mmflatten; importing them registers them.

`mmflatten.models.necks` and `dense_heads` hold what builds on mmdet, which is imported at the first use.
"""
from mmflatten.models import dense_heads, necks  # noqa: F401
from mmflatten.models.attention import *  # noqa: F401,F403
from mmflatten.models.backbones import *  # noqa: F401,F403
from mmflatten.models.factorized import *  # noqa: F401,F403
from mmflatten.models.stereo import *  # noqa: F401,F403
