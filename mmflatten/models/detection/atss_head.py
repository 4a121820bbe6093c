"""Head of ATSS, on mmdet."""

from mmdet.models.dense_heads import ATSSHead as _ATSSHead

from mmflatten.registry import MODELS


@MODELS.register_module()
class ATSSHead(_ATSSHead):
    """mmdet's head, with the same weights. mmdet 3.5 builds its own head with a deprecated
    attribute, and warns.
    """

    @property
    def num_anchors(self) -> int:
        """Number of anchors of each position."""
        return self.num_base_priors
