"""Check a recipe before it is trained: length, batch, rates, weight decay, checkpoints, and the usual slips.

    mmflatten check configs/flatten_swin/flatten-swin-t_8xb128_in1k.py --gpus 4
    mmflatten check CONFIG --cfg-options train_dataloader.batch_size=64 --dataset-size 50000

Neither data, weights nor a GPU are needed. Exits with status 1 if there is a warning.
"""
import argparse
import logging
from collections.abc import Sequence

from mmflatten.cli.common import positive, tool_parser
from mmflatten.console import command_line, quiet_libraries


def parser() -> argparse.ArgumentParser:
    from mmflatten.config_files import ConfigOptions
    made = tool_parser(__doc__, prog='mmflatten check', formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('config', help='config file')
    made.add_argument('--gpus', type=positive, metavar='N',
                      help='GPUs you train on (default: those that the config is written for)')
    made.add_argument('--dataset-size', type=positive, metavar='N',
                      help='training images (default: counted, or the known size of the data set)')
    made.add_argument('--cfg-options', nargs='+', action=ConfigOptions, metavar='KEY=VALUE',
                      help='replace fields of the config, for example train_dataloader.batch_size=4')
    return made


@command_line
def main(argv: Sequence[str]) -> int:
    arguments = parser().parse_args(argv)
    # Imported here, so that a missing library ends with one line that says how to install it.
    from mmflatten.config_files import read_config, require_parts
    from mmflatten.engine.setup import load_config
    from mmflatten.recipes.checks import warnings_of
    from mmflatten.recipes.recipe import gpus_of
    from mmflatten.recipes.report import render_report
    from mmflatten.recipes.training import Training
    cfg = load_config(arguments.config, arguments.cfg_options)
    require_parts(cfg, 'model', 'train_dataloader', 'train_cfg', 'optim_wrapper')
    with quiet_libraries(logging.ERROR):  # MMEngine warns of each frozen parameter
        gpus = arguments.gpus or gpus_of(read_config(arguments.config))  # before --cfg-options change the batch
        training = Training.of(cfg, gpus, arguments.dataset_size)
        warnings = warnings_of(training)
        print(render_report(training, warnings))
        if arguments.gpus is None:
            print(f'({gpus} GPUs are what the config is written for; give yours with --gpus)')
    return 1 if warnings else 0
