"""Export a checkpoint to ONNX, OpenVINO, PyTorch's pt2 or TorchScript, and compare the file with PyTorch."""
import sys
from collections.abc import Sequence

from mmflatten.engine.cli import command_line, quiet_libraries, tool_parser


@command_line
def main(argv: Sequence[str]) -> None:
    # Imported here, so that a missing library ends with one line that says how to install it.
    from mmflatten.export.command import add_arguments, run

    parser = tool_parser(__doc__)
    add_arguments(parser)
    args = parser.parse_args(argv)
    with quiet_libraries():
        report = run(args)
    print(report)


if __name__ == '__main__':
    sys.exit(main())
