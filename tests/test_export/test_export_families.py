"""Graphs whose height and width are open, of every family, in ONNX Runtime and OpenVINO."""
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.model import BaseModel

from mmflatten.export.engines import load_engine
from mmflatten.export.export import TOLERANCE, difference, random_images, write
from mmflatten.export.formats import METADATA, SUFFIXES, side_range, trace
from mmflatten.export.wrappers import Features
from mmflatten.registry import MODELS

PYRAMID = dict(embed_dims=16, depths=(1, 2, 1, 1), num_heads=(1, 2, 2, 4), mlp_ratio=2.)
PVT = dict(embed_dims=(8, 16, 16, 32), depths=(1, 1, 1, 1), num_heads=(1, 2, 2, 4), mlp_ratios=(2., 2., 2., 2.))
FAMILIES = {
    'FLattenDeiT': dict(arch=dict(embed_dims=16, depth=2, num_heads=2), attn_types='LS', img_size=64,
                        out_type='featmap'),
    'FLattenSwin': dict(arch=PYRAMID, img_size=64, softmax_window=4, attn_types='LSSS'),
    'FLattenPVT': dict(arch=PVT, img_size=64, attn_types='LLSS'),
    'FLattenPVTv2': dict(arch=PVT, img_size=64, attn_types='LLSS'),
    'FLattenCSwin': dict(arch=PYRAMID, img_size=64),
    'L2ViT': dict(arch=PYRAMID, img_size=64),
    'FocalTransformer': dict(arch=PYRAMID, img_size=224),
}
QUICK = ('FLattenDeiT', 'FLattenSwin')
SIZES = [(64, 64), (97, 131), (160, 96)]  # the second is odd


class Images(BaseModel):
    """A backbone with a data preprocessor, as the models of the libraries have."""

    def __init__(self, backbone) -> None:
        super().__init__()
        self.backbone = backbone
        self.data_preprocessor.to_rgb = True

    def extract_feat(self, image):
        return self.backbone(image / 100)

    def forward(self, image):
        return self.extract_feat(image)


def build(name, **changes):
    torch.manual_seed(0)
    backbone = MODELS.build({'type': name, **FAMILIES[name], **changes})
    for parameter in backbone.parameters():  # initial zeros would hide tables and scales
        torch.nn.init.normal_(parameter, std=.1)
    return Features(Images(backbone)).eval()


def metadata_of(module, size=(64, 64), dynamic=True):
    return dict(task=module.task, outputs=list(module.outputs), size=list(size),
                sides=list(side_range(module)) if dynamic else None)


@pytest.mark.parametrize('name', [
    name if name in QUICK else pytest.param(name, marks=pytest.mark.full) for name in FAMILIES])
def test_open_sizes_agree_with_pytorch_in_onnxruntime_and_openvino(tmp_path, name):
    module, file = build(name), tmp_path / 'model.onnx'
    write(module, file, 'onnx', metadata_of(module))
    onnx = load_engine(file, threads=1)
    (tmp_path / 'vino.xml.json').write_text(json.dumps(onnx.metadata))
    import openvino
    openvino.save_model(openvino.Core().read_model(file), tmp_path / 'vino.xml', compress_to_fp16=False)
    for engine in (onnx, load_engine(tmp_path / 'vino.xml', threads=1)):
        for size in SIZES:
            assert difference(module, engine, random_images(module, size)) < TOLERANCE, size


def test_shifted_windows_stay_right_where_one_window_covers_the_map():
    """Whether a map is shifted depends on its size; one graph has to do both."""
    module = build('FLattenSwin')
    program = trace(module, (torch.rand(1, 3, 64, 64),), dynamic=True).module()
    for size in [(33, 33), (33, 200), (200, 200)]:  # 2, 7 and 1 rows of windows in the shifted block of stage 2
        image = torch.rand(1, 3, *size, generator=torch.Generator().manual_seed(0)) * 255
        with torch.no_grad():
            for expected, found in zip(module(image), program(image), strict=True):
                torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('format', SUFFIXES)
def test_every_format_agrees_at_a_fixed_size_and_refuses_another(tmp_path, format):
    module = build('FLattenDeiT')
    file = tmp_path / f'model{SUFFIXES[format]}'
    write(module, file, format, metadata_of(module, (48, 80), dynamic=False))
    engine = load_engine(file, threads=1)
    assert difference(module, engine, random_images(module, (48, 80))) < TOLERANCE
    with pytest.raises(ValueError, match='64x64'):
        engine(*random_images(module, (64, 64)))


def test_an_operator_without_onnx_form_is_named(tmp_path):
    module = build('FLattenDeiT')
    module.forward = lambda image: (torch.linalg.eigvalsh(image @ image.mT),)
    with pytest.raises(ValueError, match='eigvalsh|linalg_eigh'):
        write(module, tmp_path / 'model.onnx', 'onnx', metadata_of(module, dynamic=False))


@pytest.mark.parametrize('attention, words', [
    (dict(type='CirculantAttention'), 'Fourier.*--dynamic'),
    pytest.param(dict(type='AgentAttention', num_agents=4), '', marks=pytest.mark.full)])
def test_open_sizes_of_newer_attentions_run_or_are_refused(tmp_path, attention, words):
    module, file = build('FLattenSwin', arch=dict(embed_dims=8, depths=(1,), num_heads=(2,)), attn_types='L',
                         out_indices=(0,), linear_attention=attention), tmp_path / 'model.onnx'
    if words:
        with pytest.raises(ValueError, match=words):
            write(module, file, 'onnx', metadata_of(module))
        return
    write(module, file, 'onnx', metadata_of(module))
    for size in ((64, 64), (41, 53)):
        assert difference(module, load_engine(file, threads=1), random_images(module, size)) < TOLERANCE


def test_metadata_travel_in_the_onnx_file(tmp_path):
    module = build('FLattenDeiT')
    notes = dict(metadata_of(module, dynamic=False), classes=['cat', 'dög'])
    write(module, tmp_path / 'model.onnx', 'onnx', notes)
    assert load_engine(Path(tmp_path) / 'model.onnx').metadata == notes
    import onnx
    entries = {entry.key: entry.value for entry in onnx.load(tmp_path / 'model.onnx').metadata_props}
    assert json.loads(entries[METADATA]) == notes


def test_an_image_beyond_the_open_range_is_refused(tmp_path):
    module = build('FLattenDeiT')
    write(module, tmp_path / 'model.pt2', 'pt2', metadata_of(module))
    least = side_range(module)[0]
    engine = load_engine(tmp_path / 'model.pt2')
    assert engine(*random_images(module, (least, 64)))['map0'].shape[-2] == 2
    with pytest.raises(ValueError, match=f'{least - 1}x64'):
        engine(np.zeros((1, 3, least - 1, 64), np.float32))
