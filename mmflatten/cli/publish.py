"""Write a folder that shares a trained model: weights, config as data, classes, metrics and a card.

    mmflatten publish work_dirs/NAME/epoch_15.pth --out published
    mmflatten predict published photo.jpg --out results
    hf upload user/model published

The config is the one in the folder of the checkpoint. See docs/hub.md.
"""

from argparse import ArgumentParser, Namespace

from mmflatten.cli.common import command, output_folder


def options(parser: ArgumentParser) -> None:
    parser.add_argument('checkpoint', help='checkpoint of a training')
    parser.add_argument(
        '--config', help='config of the training (default: the newest one beside the checkpoint)'
    )
    parser.add_argument(
        '--out', required=True, type=output_folder, metavar='DIR', help='new or empty folder'
    )
    parser.add_argument(
        '--onnx',
        metavar='FILE',
        help='file of `mmflatten export` of this checkpoint, for the folder',
    )
    parser.add_argument('--name', help='name on the card (default: the name of DIR)')


@command('publish', __doc__, options)
def main(args: Namespace) -> None:
    from mmflatten.console import quiet_libraries
    from mmflatten.hub.publish import publish

    with quiet_libraries():
        notes = publish(args.checkpoint, args.out, args.config, name=args.name, onnx=args.onnx)
    for note in notes:
        print(note)
    print(f'Published: {args.out}\n  mmflatten predict {args.out} IMAGE --out results')
