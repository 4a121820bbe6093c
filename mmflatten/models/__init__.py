"""Models of mmflatten; importing them registers them."""
from mmflatten.models import attention, backbones, factorized, necks, stereo  # noqa: F401
