"""Draw samples of a config's data after augmentation, with boxes, masks, labels or disparities.

    mmflatten browse CONFIG
    mmflatten browse CONFIG --split val --number 40 --out samples

Writes DIR/NUMBER_NAME.png for each sample and DIR/contact_sheet.png, and prints statistics.
"""
from argparse import ArgumentParser, Namespace
from itertools import islice
from pathlib import Path

from mmflatten.cli.common import add_config_options, add_output, command, positive, seed


def options(parser: ArgumentParser) -> None:
    parser.add_argument('config', help='config file')
    parser.add_argument('--split', choices=['train', 'val', 'test'], default='train',
                        help='data set of the config (default: train)')
    parser.add_argument('--number', type=positive, default=16, metavar='N', help='samples to draw (default: 16)')
    parser.add_argument('--seed', type=seed, default=0, help='seed of sampler and augmentation (default: 0)')
    add_output(parser, 'browse', 'the drawings')
    add_config_options(parser, 'train_dataloader.dataset.data_root=data/mine/')


@command('browse', __doc__, options)
def main(args: Namespace) -> None:
    from mmflatten.config import require_parts
    from mmflatten.datasets.samples import SampleCounts, write_contact_sheet
    from mmflatten.engine.browse import Browser
    from mmflatten.engine.setup import load_config
    cfg = load_config(args.config, args.cfg_options)
    require_parts(cfg, 'model', f'{args.split}_dataloader')
    browser = Browser(cfg, args.split, args.seed)
    counts, files, out = SampleCounts(browser.metainfo.get('classes')), [], args.out
    out.mkdir(parents=True, exist_ok=True)
    for number, item in enumerate(islice(browser, args.number)):
        files.append(out / f'{number:03d}_{Path(item.sample.img_path).stem}.png')
        browser.draw(item, files[-1])
        counts.add(item.images[0].shape[:2], item.sample)
    write_contact_sheet(files, out / 'contact_sheet.png')
    print(f'{counts.render()}\n\n{out / "contact_sheet.png"}')
