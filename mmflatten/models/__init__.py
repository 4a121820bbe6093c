"""Models of mmflatten; importing them registers them."""
from mmflatten.models import attention, backbones, factorized, necks  # noqa: F401
