"""The JSON files of a published model: the type and the bounds of each field that is used."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError, model_validator
from pydantic_core import ErrorDetails

from mmflatten.text import clip, printable

FORMAT = 2
FACTS, CONFIG, WEIGHTS, CARD = 'mmflatten.json', 'config.json', 'model.safetensors', 'README.md'
ONNX = 'model.onnx'  # optional
LIMITS = {FACTS: 2**24, CONFIG: 2**20}  # bytes
MAX_BYTES = 2**40  # of the other files

_MAX_VALUE = 80  # characters of a value in a message
_FIELD = re.compile(r'[A-Za-z_]\w*', re.ASCII)

Switch = Annotated[bool, Strict()]
Side = Annotated[int, Strict(), Field(ge=1, le=4096)]  # pixels; our configs resize to at most 2560
# pixels; our configs pad to multiples of at most 32
Divisor = Annotated[int, Strict(), Field(ge=1, le=256)]
MAX_LEVEL = 1000  # of a channel, where 255 is white
Level = Annotated[float, Strict(), Field(ge=-MAX_LEVEL, le=MAX_LEVEL)]
# of a band, which may be a height, a temperature or a count
Reading = Annotated[float, Strict(), Field(ge=-1e9, le=1e9)]
ReadingSpread = Annotated[float, Strict(), Field(gt=0, le=1e9)]
MAX_BANDS = 64
BandIndex = Annotated[int, Strict(), Field(ge=0, lt=MAX_BANDS)]
Colour = Annotated[int, Strict(), Field(ge=0, le=255)]
ClassName = Annotated[str, Strict(), Field(max_length=1000)]
FileName = Annotated[str, Strict(), Field(pattern=r'^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$')]


class HubError(ValueError):
    """A published model is missing, damaged or not accepted, or cannot be written."""


class _Part(BaseModel):
    """A part of a file. Unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra='forbid', allow_inf_nan=False)


class _File(BaseModel):
    """A file, of which only the fields that a prediction uses are read."""

    model_config = ConfigDict(frozen=True, extra='ignore', allow_inf_nan=False)


class FileFacts(_Part):
    """Size and SHA-256 of a file."""

    bytes: Annotated[int, Strict(), Field(ge=0, le=MAX_BYTES)]
    sha256: Annotated[str, Strict(), Field(pattern='^[0-9a-f]{64}$')]


class Facts(_File):
    """Content of `mmflatten.json`.

    Attributes:
        classes: names in the order of the labels, none for stereo.
        palette: red, green and blue of each class.
        files: facts by the name of the file.
    """

    format: Literal[2]
    task: Annotated[str, Strict(), Field(max_length=100)]
    classes: Annotated[list[ClassName], Field(max_length=100_000)]
    palette: Annotated[list[tuple[Colour, Colour, Colour]], Field(max_length=100_000)] | None
    files: Annotated[dict[FileName, FileFacts], Field(max_length=1000)]

    @model_validator(mode='after')
    def _check_sizes(self) -> Facts:
        for name, limit in LIMITS.items():
            if name in self.files and self.files[name].bytes > limit:
                raise ValueError(
                    f'files.{name}.bytes: expected at most {limit}, got {self.files[name].bytes}'
                )
        return self


class _Resize(_Part):
    """Arguments that all transforms which resize have in common."""

    backend: Literal['cv2', 'pillow'] | None = None
    interpolation: Literal['area', 'bicubic', 'bilinear', 'lanczos', 'nearest'] | None = None


class Resize(_Resize):
    """Arguments of `Resize`: `scale` is (width, height), or one side for both."""

    scale: Side | tuple[Side, Side]
    keep_ratio: Switch | None = None


class ResizeEdge(_Resize):
    """Arguments of `ResizeEdge`: the edge that gets the length `scale`."""

    scale: Side
    edge: Literal['short', 'long', 'width', 'height'] | None = None


class Crop(_Part):
    """Arguments of `CenterCrop`: `crop_size` is (width, height), or one side for both."""

    crop_size: Side | tuple[Side, Side]


class Multiple(_Part):
    """Arguments of `ResizeToMultiple`."""

    size_divisor: Divisor


class EvaluationPadding(_Part):
    """`test_cfg` of mmseg's data preprocessor: sides become multiples of `size_divisor`."""

    size_divisor: Divisor | None = None


class Preprocessor(_Part):
    """Arguments of a task's data preprocessor."""

    mean: Annotated[list[Reading], Field(min_length=1, max_length=MAX_BANDS)] | None = None
    std: Annotated[list[ReadingSpread], Field(min_length=1, max_length=MAX_BANDS)] | None = None
    to_rgb: Switch | None = None
    bgr_to_rgb: Switch | None = None
    pad_size_divisor: Divisor | None = None
    pad_divisor: Divisor | None = None
    pad_value: Level | None = None
    test_cfg: EvaluationPadding | None = None


class Bands(_Part):
    """Arguments of `LoadBands`: norms of the bands, and indices of those that are used."""

    mean: Annotated[list[Reading], Field(min_length=1, max_length=MAX_BANDS)] | None = None
    std: Annotated[list[ReadingSpread], Field(min_length=1, max_length=MAX_BANDS)] | None = None
    bands: Annotated[list[BandIndex], Field(min_length=1, max_length=MAX_BANDS)] | None = None

    @model_validator(mode='after')
    def _check_numbers(self) -> Bands:
        numbers = {len(values) for values in (self.mean, self.std, self.bands) if values}
        if len(numbers) > 1 or (self.mean is None) != (self.std is None):
            raise ValueError(f'bands: expected mean and std of each band, got {self!r:.80}')
        return self

    @property
    def number(self) -> int | None:
        """Number of bands, None if it is that of the file."""
        values = self.mean or self.bands
        return len(values) if values else None


class Input(_Part):
    """Preparation of an image: transforms in this order, and the data preprocessor.

    Attributes:
        bands: how the bands of a file are read; None for the colours of an image.
    """

    bands: Bands | None = None
    resize: Resize | None = None
    resize_edge: ResizeEdge | None = None
    crop: Crop | None = None
    multiple: Multiple | None = None
    preprocessor: Preprocessor = Preprocessor()

    @model_validator(mode='after')
    def _check_norms(self) -> Input:
        for name in ('mean', 'std'):
            values = getattr(self.preprocessor, name)
            if self.bands is None and values is not None:
                _check_colours(values, f'input.preprocessor.{name}')
        return self


def _check_colours(values: list[float], place: str) -> None:
    if len(values) != 3 or max(map(abs, values)) > MAX_LEVEL:
        raise ValueError(
            f'{place}: expected three numbers of at most {MAX_LEVEL} for images of three colours,'
            f' got {values!r:.80}'
        )


class ModelConfig(_File):
    """Content of `config.json`. `mmflatten.untrusted.model_data.read_model` checks `model`."""

    model: dict[str, Any]
    input: Input


_Model = TypeVar('_Model', bound=BaseModel)


PUBLISH_AGAIN = 'Publish the model again with this version of mmflatten, or update mmflatten.'


def checked(kind: type[_Model], content: Any, where: str, fix: str = PUBLISH_AGAIN) -> _Model:
    """Return content as a model of this module.

    Args:
        where: name of the file, or of the field, for messages.
        fix: last sentence of messages.

    Raises:
        HubError: a field is missing, unknown, of another type or out of its bounds. The message
            names one.
    """
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        unknown = [entry for entry in errors if entry['type'] == 'extra_forbidden']
        problem = _problem((unknown or errors)[0])  # an unknown field may explain a missing one
        raise HubError(f'{where}: {problem}. {fix}') from error


def arguments(part: BaseModel) -> dict[str, Any]:
    """Return the fields that a file gives, by name: absent ones have the default of the class that
    gets them.
    """
    return part.model_dump(exclude_unset=True, exclude_none=True)


def _problem(error: ErrorDetails) -> str:
    if error['type'] == 'value_error':  # of a validator above, which names the field
        return error['msg'].removeprefix('Value error, ')
    *outer, last = error['loc'] or ('content',)
    # Between the fields stand names of alternatives, such as `constrained-int`.
    names = [str(part) for part in outer if isinstance(part, int) or _FIELD.fullmatch(part)]
    if error['type'] == 'extra_forbidden' or isinstance(last, int) or _FIELD.fullmatch(last):
        names.append(str(last))
    place = clip(printable('.'.join(names)), _MAX_VALUE)
    if error['type'] == 'missing':
        return f'{place}: expected a value, got none'
    if error['type'] == 'extra_forbidden':
        return f'{place}: expected a known field, got this one'
    value = clip(printable(str(error['input'])), _MAX_VALUE)
    return f'{place}: {error["msg"]}, got {value}'
