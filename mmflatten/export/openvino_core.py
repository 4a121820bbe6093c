"""OpenVINO, whose plugins are loaded once in a process."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import openvino


@cache
def openvino_core() -> openvino.Core:
    """Return the core that compiles all models of the process.

    The CPU plugin of a core gives signal handlers a stack of its own. Where several cores end, one
    of them leaves a stack that is freed already, and the next signal that Python handles, such as
    Ctrl+C, ends the process with a segmentation fault.
    """
    import openvino

    return openvino.Core()
