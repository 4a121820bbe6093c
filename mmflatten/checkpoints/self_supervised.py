"""Backbones in the checkpoints of self-supervised trainings: DINO, DINOv2, DINOv3, and those that
wrap them, such as Lightning.
"""

import re
from collections.abc import Mapping
from typing import TypeVar

Value = TypeVar('Value')

# A plain vision transformer has both of these names, behind the same prefix.
_ANCHORS = (
    ('cls_token', 'patch_embed.proj.weight'),
    ('embeddings.cls_token', 'embeddings.patch_embeddings.projection.weight'),
)
# Order of preference. The teacher, an average of the student, is the model that DINO publishes.
_NETWORKS = ('teacher', 'model_ema', 'ema', 'student')
# Parts beside the backbone that only the training uses.
_TRAINING_PARTS = re.compile(
    r'(.*\.)?(dino_head|ibot_head|head\.(mlp|last_layer)|dino_loss|ibot_patch_loss|gram_\w+)\..*'
)
_SHARDED = re.compile(r'(?:_fsdp_wrapped_module|_checkpoint_wrapped_module)\.')
_CHUNKED = re.compile(r'blocks\.(\d+)\.(\d+)\.(.*)')


def backbone_weights(weights: Mapping[str, Value]) -> tuple[dict[str, Value], list[str]]:
    """Return the weights of the plain backbone by its own names, and notes about what was left out.

    Prefixes such as `teacher.backbone.` and the heads of the training are removed, and the blocks
    of DINOv2, which `block_chunks` numbers twice, are numbered once. Other weights stay as they
    are.
    """
    named = {_SHARDED.sub('', name): value for name, value in weights.items()}
    prefix = _prefix_of(named)
    notes = []
    if prefix:
        inside = {
            name.removeprefix(prefix): value
            for name, value in named.items()
            if name.startswith(prefix)
        }
        left_out = len(named) - len(inside)
        named = inside
        notes.append(f'read the backbone {prefix!r}; {left_out} other weights are left out')
    joined = _without_chunks(named)
    if joined is not None:
        named = joined
        notes.append('numbered the blocks, which block_chunks divides, once')
    return named, notes


def _prefix_of(weights: Mapping[str, Value]) -> str:
    """Return the prefix of the backbone to read; '' if the names have none or are those of another
    kind of model.
    """
    prefixes = set()
    for first, second in _ANCHORS:
        for name in weights:
            prefix = name.removesuffix(first)
            is_whole_word = name.endswith(first) and (not prefix or prefix.endswith('.'))
            if is_whole_word and prefix + second in weights:
                prefixes.add(prefix)
    if not prefixes or '' in prefixes:
        return ''
    for network in _NETWORKS:
        found = [prefix for prefix in prefixes if _has_word(prefix, network)]
        if found:
            return min(found)
    prefix = min(prefixes)
    others = [name for name in weights if not name.startswith(prefix)]
    # A detector or segmentor keeps its other parts.
    is_alone = all(_TRAINING_PARTS.fullmatch(name) for name in others)
    return prefix if len(prefixes) == 1 and is_alone else ''


def _has_word(prefix: str, word: str) -> bool:
    """Return True for `teacher.backbone.` and `teacher_backbone.`, if the word is teacher."""
    return any(part == word or part.startswith(f'{word}_') for part in prefix.split('.'))


def _without_chunks(weights: Mapping[str, Value]) -> dict[str, Value] | None:
    """Number blocks in chunks, `blocks.CHUNK.BLOCK`, by the block; None if there are no chunks.

    DINOv2 counts the blocks of all chunks in one sequence.
    """
    if 'cls_token' not in weights:
        return None
    chunks: dict[str, set[str]] = {}  # of each block
    renamed = {}
    for name, value in weights.items():
        match = _CHUNKED.fullmatch(name)
        if name.startswith('blocks.') and match is None:
            return None
        if match is not None:
            chunks.setdefault(match[2], set()).add(match[1])
            name = f'blocks.{match[2]}.{match[3]}'
        renamed[name] = value
    is_one_sequence = {int(block) for block in chunks} == set(range(len(chunks)))
    in_one_chunk = all(len(numbers) == 1 for numbers in chunks.values())
    return renamed if chunks and is_one_sequence and in_one_chunk else None
