"""Models of the two steps in which a student learns from its teacher."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from mmengine.model import BaseModel
from torch import Tensor, nn

from mmflatten.checkpoints.loading import load_from_local, load_weights
from mmflatten.registry import MODELS
from mmflatten_lab.linearize.swap import blocks_of

Call = tuple[Tensor, tuple[int, int], Tensor]  # tokens before a block, shape of their map, tokens after it


class Lesson(BaseModel):
    """A trained model and one that learns from it. Predictions are the student's.

    Args:
        teacher, student: configs of both models, with their data preprocessors.
        teacher_weights, student_weights: their checkpoints, whose keys must all match.
    """

    def __init__(self, teacher: dict, student: dict, teacher_weights: str, student_weights: str) -> None:
        super().__init__()
        self.teacher, self.student = MODELS.build(teacher), MODELS.build(student)
        self.data_preprocessor = self.student.data_preprocessor
        self.weights = ((self.teacher, teacher_weights), (self.student, student_weights))
        self.teacher.requires_grad_(False)

    def init_weights(self) -> None:
        for model, path in self.weights:
            load_weights(model, load_from_local(path), path)

    def train(self, mode: bool = True) -> Lesson:
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
class BlockAlignment(Lesson):
    """Each of some blocks learns to answer the teacher's input with the teacher's output.

    The loss of a block is the squared error of its output, relative to what the teacher's block adds to its input. The
    attention with its norm learns, the rest of the block does not. No block sees the error of another.

    Args:
        blocks: names of the blocks in the backbone.
        kwargs: as in `Lesson`.
    """

    def __init__(self, blocks: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.names = list(blocks)
        self.student.requires_grad_(False)
        for name in self.names:
            self.student.backbone.get_submodule(name).attn.requires_grad_(True)

    def train(self, mode: bool = True) -> BlockAlignment:
        """Only attentions are in training mode: a dropped path has no teacher."""
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
class Distillation(Lesson):
    """The whole student learns from the teacher's outputs.

    A classifier learns the teacher's probabilities (Kullback-Leibler divergence), and where images have labels also
    these, with equal weight. The backbone of another model learns the teacher's maps, without labels; the loss of a map
    is its squared error relative to the map, and neck and heads stay as they are.
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
            return {f'loss_map_{level}': relative_error(ours, theirs, theirs)
                    for level, (ours, theirs) in enumerate(zip(self.student.backbone(inputs), targets))}
        with torch.no_grad():
            target = self.teacher(inputs, mode='tensor').float().log_softmax(-1)
        feats = self.student.extract_feat(inputs)
        scores = self.student.head(feats).float().log_softmax(-1)
        losses = dict(loss_teacher=F.kl_div(scores, target, reduction='batchmean', log_target=True))
        if data_samples and all('gt_label' in sample for sample in data_samples):
            losses.update(self.student.head.loss(feats, data_samples))
        return losses


def is_classifier(model: nn.Module) -> bool:
    return any(kind.__name__ == 'ImageClassifier' for kind in type(model).__mro__)


def relative_error(ours: Tensor, theirs: Tensor, scale: Tensor) -> Tensor:
    """Squared error of a batch, relative to the squares of `scale`."""
    return (ours.float() - theirs.float()).square().sum() / scale.float().square().sum().clamp(min=1e-12)


@torch.no_grad()
def calls(model: nn.Module, inputs: Tensor, names: Sequence[str]) -> dict[str, Call]:
    """Run the backbone and return what went in and out of these blocks."""
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
