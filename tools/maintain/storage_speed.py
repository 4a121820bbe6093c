"""Compare reading the images of a batch from an S3 server at the same time and one by one.

    npx s3rver@3.7.1 --directory /tmp/s3 --port 9000 --configure-bucket images
    python tools/maintain/storage_speed.py http://127.0.0.1:9000 --bucket images

Needs `pip install s3fs`. Shards of synthetic JPEGs of 250 x 187 pixels are put into the bucket. A proxy in front of the
server waits before it hands on a request. Both ways of reading are timed in turn, in this process and with one thread.
docs/data_at_scale.md has the results.
"""
import argparse
import asyncio
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import cv2
import fsspec
import numpy as np
import torch
from loader_speed import make_images

from mmflatten.cli.common import positive, tool_parser
from mmflatten.cli.data import main as data_command
from mmflatten.console import command_line
from mmflatten.datasets.indexed_images import IndexedImages

BATCH = 128


class SlowProxy:
    """A proxy on the loopback that waits before each piece of a request; a request to read is one piece."""

    def __init__(self, target: str, seconds: float) -> None:
        self.address, self.seconds = urlsplit(target), seconds
        self.port: int | None = None
        ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._serve(ready)), daemon=True).start()
        ready.wait()

    async def _serve(self, ready: threading.Event) -> None:
        server = await asyncio.start_server(self._connect, '127.0.0.1', 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await server.serve_forever()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(self.address.hostname, self.address.port)
        await asyncio.gather(self._hand_on(reader, back, self.seconds), self._hand_on(there, writer, 0))

    @staticmethod
    async def _hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
        while piece := await reader.read(2**16):
            await asyncio.sleep(seconds)
            writer.write(piece)
            await writer.drain()
        writer.close()


def store(endpoint: str, args: argparse.Namespace) -> fsspec.AbstractFileSystem:
    """Make the endpoint that of all `s3://` addresses."""
    fsspec.config.conf['s3'] = dict(endpoint_url=endpoint, key=args.key, secret=args.secret)
    return fsspec.filesystem('s3', skip_instance_cache=True)


@command_line
def main(argv: Sequence[str]) -> None:
    parser = tool_parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('endpoint', help='address of the server')
    parser.add_argument('--bucket', required=True, help='an existing bucket; writes mmflatten-speed/ in it')
    parser.add_argument('--key', default='S3RVER', help='access key (default: %(default)s)')
    parser.add_argument('--secret', default='S3RVER', help='secret key (default: %(default)s)')
    parser.add_argument('--delay', type=positive, default=50, metavar='MS', help='added to requests (default: 50)')
    parser.add_argument('--rounds', type=positive, default=15, help='batches read in each way (default: 15)')
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    cv2.setNumThreads(0)
    with tempfile.TemporaryDirectory() as folder:
        root, number = Path(folder), 8 * BATCH
        size = make_images(root / 'folders', number, (187, 250))
        data_command(['shards', f'{root}/folders', '--out', f'{root}/tar', '--no-check'])
        address = f'{args.bucket}/mmflatten-speed'
        store(args.endpoint, args).put([str(path) for path in (root / 'tar').rglob('*.tar')], f'{address}/')
        store(f'http://127.0.0.1:{SlowProxy(args.endpoint, args.delay / 1000).port}', args)
        images = IndexedImages(f's3://{address}', ann_file=f'{root}/tar/train.index',
                               pipeline=[dict(type='mmpretrain.LoadImageFromFile')])
        ways = {'at the same time': images.__getitems__, 'one by one': lambda batch: [images[i] for i in batch]}
        speeds: dict[str, list[float]] = {name: [] for name in ways}
        for seed in range(args.rounds + 1):
            batch = np.random.default_rng(seed).permutation(number)[:BATCH].tolist()
            for name, read in ways.items():
                start = time.perf_counter()
                read(batch)
                if seed:  # the first round opens connections
                    speeds[name].append(BATCH / (time.perf_counter() - start))
    ratios = [a / b for a, b in zip(*speeds.values())]
    print(f'{BATCH} of {number} images of {size:.0f} KB, {args.delay} ms, {args.rounds} rounds')
    for name, values in speeds.items():
        print(f'{name:<18}{statistics.median(values):>7.1f} images per second')
    print(f'ratio {statistics.median(ratios):.1f} in the median, {min(ratios):.1f} to {max(ratios):.1f}')


if __name__ == '__main__':
    sys.exit(main())
