"""The metadata of an exported file: the type and the bounds of each field that is used."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict

from mmflatten.untrusted.published import ClassName, Colour, Input, Level, Side, Spread

Name = Annotated[str, Strict(), Field(max_length=100)]
Batch = Annotated[int, Strict(), Field(ge=1, le=2**16)]


class ExportedFacts(BaseModel):
    """Fields of the metadata that a prediction uses. docs/export.md describes them.

    Attributes:
        batch, sides: smallest and largest values, None if the batch is 1 and the size is `size`.
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
    mean: tuple[Level, Level, Level]
    std: tuple[Spread, Spread, Spread]
    transforms: Input | None
