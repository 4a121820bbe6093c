"""Rules for the arguments of a base config that depend on the data: classes, label values, files.

`RULES` has one entry for each name of an argument; all other arguments stay as they are in the
base. `NEEDS` lists what `mmflatten init` does not read, by the class that needs it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mmflatten.custom_data.config_source import PythonSource, field_name
from mmflatten.custom_data.reading import DataError
from mmflatten.datasets.used import IGNORED_LABEL

KEEP = object()
COUNT = PythonSource('len(classes)')
THINGS = PythonSource('len(thing_classes)')
STUFF = PythonSource('len(stuff_classes)')
NAMES = PythonSource('classes')


class UnsuitedBase(DataError):
    """A field of the base config that does not fit the data. The message begins with the field."""


@dataclass(frozen=True)
class Facts:
    """Facts of the data that the rules use.

    Attributes:
        classes: number of classes.
        masks: every object has a mask.
        score: name of the main score of the default metric.
        new_metric: the base's metric is replaced.
        panoptic: the data have things and stuff.
    """

    classes: int
    masks: bool = False
    score: str = 'auto'
    new_metric: bool = False
    panoptic: bool = False


@dataclass(frozen=True)
class Argument:
    """An argument somewhere in the base config.

    Attributes:
        place: keys and indices on the way to it.
        owner: dictionary that has it.
        classes: number of classes of `owner`, or of the closest dictionary around it that has one.
        notes: collects lines for the user.
    """

    place: tuple[str | int, ...]
    value: Any
    owner: Mapping[str, Any]
    classes: int | None
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return field_name(self.place)


Rule = Callable[[Argument, Facts], Any]


def class_count(argument: Argument, facts: Facts) -> Any:
    """Set the number of classes, where it is that of the data."""
    is_count = isinstance(argument.value, int) and argument.value > 0
    if not is_count or _is_class_agnostic(argument.place):
        return KEEP
    return THINGS if facts.panoptic else COUNT


def _is_class_agnostic(place: Sequence[str | int]) -> bool:
    """Return True for parts with classes of their own: objects or none in the proposals of a
    detector, entries of a codebook in self-supervised training, features of a neck.
    """
    return any(str(part).endswith(('rpn_head', 'neck', 'target_generator')) for part in place)


def no_stuff_classes(argument: Argument, facts: Facts) -> Any:
    if facts.panoptic:
        return STUFF
    if argument.value:
        raise UnsuitedBase(
            f'{argument.name}: expected 0, got {argument.value}; panoptic segmentation needs maps'
            ' of things and stuff'
        )
    return KEEP


def out_channels(argument: Argument, facts: Facts) -> Any:
    """Set the outputs of a segmentation head, which may have a single one for two classes.

    Other values are widths of features.
    """
    count = argument.owner.get('num_classes')
    if count is None or argument.value not in (1, count):
        return KEEP
    if argument.value == count:
        return COUNT
    if facts.classes == 2:
        return KEEP
    raise UnsuitedBase(
        f'{argument.name}: one output, with a threshold, is for two classes, and the data have'
        f' {facts.classes}'
    )


def class_weight(argument: Argument, facts: Facts) -> Any:
    """Adapt the weights of the classes, possibly followed by that of the background.

    Different weights are those of the base's classes, and are left out.
    """
    if argument.value is None or isinstance(argument.value, (int, float)):
        return KEEP
    if isinstance(argument.value, str):  # a file
        argument.notes.append(f'{argument.name} of the base is left out: {argument.value}')
        return None
    weights = list(argument.value)
    count = argument.classes or len(weights)
    of_classes, background = weights[:count], weights[count:]
    if len(set(of_classes)) == 1:
        text = f'[{of_classes[0]!r}] * len(classes)'
        return PythonSource(f'{text} + {background!r}' if background else text)
    argument.notes.append(
        f'{argument.name} of the base is left out: weights of its {len(of_classes)} classes'
    )
    return PythonSource(f'[1.0] * len(classes) + {background!r}') if background else None


def top_k(argument: Argument, facts: Facts) -> Any:
    """Leave out top-k accuracies that are always 1."""
    if not isinstance(argument.value, (list, tuple)) or not argument.value:
        return KEEP
    kept = tuple(k for k in argument.value if k < facts.classes) or (1,)
    return KEEP if kept == tuple(argument.value) else kept


def class_names(argument: Argument, facts: Facts) -> Any:
    names = argument.value if isinstance(argument.value, (list, tuple)) else ()
    return NAMES if names and all(isinstance(name, str) for name in names) else KEEP


def class_colours(argument: Argument, facts: Facts) -> Any:
    return PythonSource('palette') if isinstance(argument.value, (list, tuple)) else KEEP


def text_encoder_names(argument: Argument, facts: Facts) -> Any:
    """Replace the data set whose names a text encoder embeds; `vocabulary` has the names."""
    return None if argument.value and 'vocabulary' in argument.owner else KEEP


def vocabulary(argument: Argument, facts: Facts) -> Any:
    names = argument.value or argument.owner.get('dataset_name')
    return PythonSource('list(classes)') if names else KEEP


def as_dataset(argument: Argument, facts: Facts) -> Any:
    """Let a loading step follow the data set's `reduce_zero_label`."""
    return None if argument.value else KEEP


def no_label_pairs(argument: Argument, facts: Facts) -> Any:
    """Leave out labels that a flip exchanges, such as left and right arms."""
    if argument.value:
        argument.notes.append(f'{argument.name} of the base is left out: {argument.value}')
        return None
    return KEEP


def ignored_label(argument: Argument, facts: Facts) -> Any:
    """Set the ignored label of maps; negative ones are those of labels without maps."""
    is_label = isinstance(argument.value, int) and argument.value >= 0
    return IGNORED_LABEL if is_label and argument.value != IGNORED_LABEL else KEEP


def needs_masks(argument: Argument, facts: Facts) -> Any:
    if argument.value and not facts.masks and not facts.panoptic:
        raise UnsuitedBase(
            f'{argument.name}: the base learns masks, and some annotations have no usable'
            ' segmentation. Add them, or choose a base without masks'
        )
    return KEEP


def no_label_maps(argument: Argument, facts: Facts) -> Any:
    if argument.value and not facts.panoptic:
        raise UnsuitedBase(
            f'{argument.name}: the base learns label maps beside the objects, which --task det'
            ' does not read'
        )
    return KEEP


def file_of_base(argument: Argument, facts: Facts) -> Any:
    if argument.value:
        raise UnsuitedBase(
            f"{argument.name}: belongs to the base's classes, got {str(argument.value):.80}"
        )
    return KEEP


def local_files(argument: Argument, facts: Facts) -> Any:
    """Read the data from the disk, instead of the storage of the base's data."""
    return None if argument.value else KEEP


def with_annotations(argument: Argument, facts: Facts) -> Any:
    """Compute scores, instead of writing files for the server of a benchmark."""
    return False if argument.value else KEEP


def watched_score(argument: Argument, facts: Facts) -> Any:
    """Watch a score of the new metric, or one that `top_k` keeps."""
    is_named = isinstance(argument.value, str) and argument.value not in ('auto', 'loss')
    if not is_named:
        return KEEP
    best = re.fullmatch(r'.*/top(\d+)', argument.value)
    is_left_out = best is not None and int(best[1]) >= facts.classes
    return facts.score if facts.new_metric or is_left_out else KEEP


def known_class(argument: Argument, facts: Facts) -> Any:
    name = type_name(argument.value)
    if name in NEEDS and not (facts.panoptic and NEEDS[name] == PANOPTIC):
        raise UnsuitedBase(
            f'{argument.name}: {name} needs {NEEDS[name]}, which mmflatten init does not read'
        )
    return REPLACED.get(str(argument.value).removeprefix('mmdet.'), KEEP)


def type_name(kind: Any) -> str:
    """Return the name of a class in a config, without its scope."""
    return kind.rpartition('.')[2] if isinstance(kind, str) else getattr(kind, '__name__', '')


RULES: dict[str, Rule] = {
    # numbers of classes, and lists with an entry for each class
    'num_classes': class_count,
    'num_things_classes': class_count,
    'num_stuff_classes': no_stuff_classes,
    'out_channels': out_channels,
    'class_weight': class_weight,
    'topk': top_k,
    # names and colours of classes
    'classes': class_names,
    'palette': class_colours,
    'dataset_name': text_encoder_names,
    'vocabulary': vocabulary,
    # values of labels
    'reduce_zero_label': as_dataset,
    'ignore_index': ignored_label,
    'ignore_label': ignored_label,
    'swap_seg_labels': no_label_pairs,
    'swap_label_pairs': no_label_pairs,
    # what the annotations must have
    'with_mask': needs_masks,
    'with_seg': no_label_maps,
    'type': known_class,
    # files of the base's data, and weights for its classes
    'backend_args': local_files,
    'class_embed_path': file_of_base,
    'label_map_file': file_of_base,
    'prototype': file_of_base,
    'teacher_ckpt': file_of_base,
    'zs_weight_path': file_of_base,
    # scores
    'format_only': with_annotations,
    'save_best': watched_score,
    'monitor': watched_score,
}
# Arguments with a default that depends on the classes too: they are set if they are missing.
DEFAULTS = ('num_classes', 'num_things_classes', 'vocabulary')

# Classes of mmdet that need a package without a release, and our own of the same arguments.
REPLACED = {'LoadPanopticAnnotations': 'mmflatten.LoadPanopticAnnotations'}

DEPTH = 'depth maps'
PANOPTIC = 'panoptic maps'
PAIRS = 'pairs of images'
SEVERAL_LABELS = 'several labels per image'
TEXT = 'captions or phrases'
UNLABELLED = 'images without labels beside those with labels'
VIDEO = 'videos with tracks'
VOLUMES = 'volumes'
NEEDS = {
    'BaseCDDataset': PAIRS,
    'BaseVideoDataset': VIDEO,
    'BioMedical3DRandomCrop': VOLUMES,
    'CocoPanopticDataset': PANOPTIC,
    'CSRAClsHead': SEVERAL_LABELS,
    'CULaneDataset': 'lanes',
    'DepthMetric': DEPTH,
    'GroupMultiSourceSampler': UNLABELLED,
    'LinearReIDHead': 'identities of persons',
    'LoadBiomedicalImageFromFile': VOLUMES,
    'LoadDepthAnnotation': DEPTH,
    'LoadMultipleRSImageFromFile': PAIRS,
    'LoadPanopticAnnotations': PANOPTIC,
    'LoadProposals': 'files of proposals',
    'LoadTrackAnnotations': VIDEO,
    'MultiBranch': UNLABELLED,
    'MultiLabelClsHead': SEVERAL_LABELS,
    'MultiLabelLinearClsHead': SEVERAL_LABELS,
    'ODVGDataset': TEXT,
    'RandomSamplingNegPos': TEXT,
    'ReIDDataset': 'identities of persons',
    'SemiBaseDetector': UNLABELLED,
    'SoftTeacher': UNLABELLED,
    'TrackImgSampler': VIDEO,
}
