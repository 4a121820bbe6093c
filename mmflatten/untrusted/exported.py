"""The metadata of an exported file: the type and the bounds of each field that is used."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict, model_validator

from mmflatten.untrusted.published import (
    MAX_BANDS,
    Bands,
    ClassName,
    Colour,
    Input,
    Reading,
    ReadingSpread,
    Side,
)

Name = Annotated[str, Strict(), Field(max_length=100)]
Batch = Annotated[int, Strict(), Field(ge=1, le=2**16)]


class ExportedFacts(BaseModel):
    """Fields of the metadata that a prediction uses. docs/export.md describes them.

    Attributes:
        batch, sides: smallest and largest values, None if the batch is 1 and the size is `size`.
        mean, std: norms of each channel, in the graph.
        bands: how the bands of an image are read; None for RGB.
        transforms: preparation of an image; None if it cannot be written as numbers.
    """

    model_config = ConfigDict(frozen=True, extra='ignore', allow_inf_nan=False)

    task: Name
    classes: Annotated[list[ClassName], Field(max_length=100_000)]
    palette: Annotated[list[tuple[Colour, Colour, Colour]], Field(max_length=100_000)] | None
    inputs: Annotated[list[Name], Field(min_length=1, max_length=2)]
    outputs: Annotated[list[Name], Field(min_length=1, max_length=100)]
    precision: Literal['float32', 'bfloat16', 'int8']
    batch: tuple[Batch, Batch] | None
    size: tuple[Side, Side]
    sides: tuple[Side, Side] | None
    mean: Annotated[list[Reading], Field(min_length=1, max_length=MAX_BANDS)]
    std: Annotated[list[ReadingSpread], Field(min_length=1, max_length=MAX_BANDS)]
    bands: Bands | None = None
    transforms: Input | None

    @model_validator(mode='after')
    def _check_channels(self) -> ExportedFacts:
        number = len(self.mean) if self.bands is not None else 3
        if len(self.mean) != number or len(self.std) != number:
            raise ValueError(
                f'mean, std: expected {number} numbers each, got {len(self.mean)} and'
                f' {len(self.std)}'
            )
        return self
