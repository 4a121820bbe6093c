"""Models for the training of a student by its teacher: alignment of blocks, and distillation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from mmengine.model import BaseModel
from torch import Tensor, nn

from mmflatten.checkpoints.loading import load_weights, read_checkpoint
from mmflatten.registry import MODELS
from mmflatten_lab.linearize.swap import blocks_of

# tokens before a block, shape of their map, tokens after it
Call = tuple[Tensor, tuple[int, int], Tensor]


class DistillationStep(BaseModel):
    """Base of the two steps: a trained teacher, and a student, which makes the predictions.

    Args:
        teacher, student: configs of both models, with their data preprocessors.
        teacher_weights, student_weights: checkpoints of both models, whose keys must all match.
    """

    def __init__(
        self, teacher: dict, student: dict, teacher_weights: str, student_weights: str
    ) -> None:
        super().__init__()
        self.teacher, self.student = MODELS.build(teacher), MODELS.build(student)
        self.data_preprocessor = self.student.data_preprocessor
        self.weights = ((self.teacher, teacher_weights), (self.student, student_weights))
        self.teacher.requires_grad_(False)

    def init_weights(self) -> None:
        for model, path in self.weights:
            load_weights(model, read_checkpoint(path), path)

    def train(self, mode: bool = True) -> DistillationStep:
        super().train(mode)
        self.teacher.eval()
        return self

    def forward(self, inputs: Any, data_samples: list | None = None, mode: str = 'tensor') -> Any:
        if mode == 'loss':
            return self.loss(inputs, data_samples)
        return self.student(inputs, data_samples, mode=mode)

    def loss(self, inputs: Any, data_samples: list | None) -> dict[str, Tensor]:
        raise NotImplementedError


@MODELS.register_module()
class BlockAlignment(DistillationStep):
    """Train some blocks separately to reproduce the teacher's output for the teacher's input.

    The loss of a block is the squared error of its output, relative to the change that the
    teacher's block makes to its input. Only the attention and its norm are trained.

    Args:
        blocks: names of the blocks in the backbone.
        kwargs: as in `DistillationStep`.
    """

    def __init__(self, blocks: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.names = list(blocks)
        self.student.requires_grad_(False)
        for name in self.names:
            self.student.backbone.get_submodule(name).attn.requires_grad_(True)

    def train(self, mode: bool = True) -> BlockAlignment:
        """Put only attentions into training mode, because a dropped path would have no target."""
        super().train(mode)
        self.student.eval()
        for name in self.names:
            self.student.backbone.get_submodule(name).attn.fn.train(mode)
        return self

    def loss(self, inputs: Tensor, data_samples: list | None) -> dict[str, Tensor]:
        losses = {}
        for name, (x_BNC, hw_shape, y_BNC) in calls(self.teacher, inputs, self.names).items():
            student_BNC = self.student.backbone.get_submodule(name)(x_BNC, hw_shape)
            losses[f'loss_{name}'] = relative_error(student_BNC, y_BNC, y_BNC - x_BNC)
        return losses


@MODELS.register_module()
class Distillation(DistillationStep):
    """Train the whole student on the teacher's outputs.

    The losses of a classifier are the Kullback-Leibler divergence from the teacher's probabilities
    and, for images with labels, the loss of the head, with equal weights. In other models only the
    backbone is trained, on the teacher's maps: the loss of a map is its squared error relative to
    the map.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not is_classifier(self.student):
            self.student.requires_grad_(False)
            self.student.backbone.requires_grad_(True)

    def loss(self, inputs: Tensor, data_samples: list | None) -> dict[str, Tensor]:
        if not is_classifier(self.student):
            with torch.no_grad():
                targets = self.teacher.backbone(inputs)
            losses = {}
            for level, (ours, theirs) in enumerate(zip(self.student.backbone(inputs), targets)):
                losses[f'loss_map_{level}'] = relative_error(ours, theirs, theirs)
            return losses
        with torch.no_grad():
            target = self.teacher(inputs, mode='tensor').float().log_softmax(-1)
        feats = self.student.extract_feat(inputs)
        scores = self.student.head(feats).float().log_softmax(-1)
        losses = dict(loss_teacher=F.kl_div(scores, target, reduction='batchmean', log_target=True))
        if data_samples and all('gt_label' in sample for sample in data_samples):
            losses.update(self.student.head.loss(feats, data_samples))
        return losses


def is_classifier(model: nn.Module) -> bool:
    # By name, because mmpretrain is installed only for classification.
    names = [kind.__name__ for kind in type(model).__mro__]
    return 'ImageClassifier' in names and model.with_head


def relative_error(ours: Tensor, theirs: Tensor, scale: Tensor) -> Tensor:
    """Squared error of a batch, relative to the squares of `scale`."""
    error = (ours.float() - theirs.float()).square().sum()
    return error / scale.float().square().sum().clamp(min=1e-12)


@torch.no_grad()
def calls(model: nn.Module, inputs: Tensor, names: Sequence[str]) -> dict[str, Call]:
    """Run the backbone and return the inputs and outputs of these blocks."""
    blocks = blocks_of(model)
    with _watched({name: blocks[name] for name in names}) as seen:
        model.backbone(inputs)
    return seen


@contextmanager
def _watched(blocks: dict[str, nn.Module]) -> Iterator[dict[str, Call]]:
    seen: dict[str, Call] = {}

    def keep(name: str) -> Any:
        def hook(block: nn.Module, inputs: tuple, output: Tensor) -> None:
            seen[name] = (*inputs[:2], output)

        return hook

    handles = [block.register_forward_hook(keep(name)) for name, block in blocks.items()]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
