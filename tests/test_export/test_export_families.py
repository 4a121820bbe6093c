"""Export of every family of backbones at open sizes, run by ONNX Runtime."""

import numpy as np
import onnxruntime
import pytest
import torch
from mmengine.model import BaseModel

from mmflatten.export.comparison import TOLERANCE, compare, noise_case
from mmflatten.export.onnx_files import (
    OnnxFile,
    batch_range,
    random_images,
    side_range,
    trace,
    write,
)
from mmflatten.export.wrappers import ExportedFeatures
from mmflatten.registry import MODELS

PYRAMID = dict(embed_dims=16, depths=(1, 2, 1, 1), num_heads=(1, 2, 2, 4), mlp_ratio=2.0)
PVT = dict(
    embed_dims=(8, 16, 16, 32),
    depths=(1, 1, 1, 1),
    num_heads=(1, 2, 2, 4),
    mlp_ratios=(2.0, 2.0, 2.0, 2.0),
)
FAMILIES = {
    'FLattenDeiT': dict(
        arch=dict(embed_dims=16, depth=2, num_heads=2),
        attn_types='LS',
        img_size=64,
        out_type='featmap',
    ),
    'FLattenSwin': dict(
        arch=dict(embed_dims=16, depths=(1, 2), num_heads=(1, 2), mlp_ratio=2.0),
        img_size=64,
        softmax_window=4,
        attn_types='LS',
        out_indices=(0, 1),
    ),
    'FLattenPVT': dict(arch=PVT, img_size=64, attn_types='LLSS'),
    'FLattenPVTv2': dict(arch=PVT, img_size=64, attn_types='LLSS'),
    'FLattenCSwin': dict(arch=PYRAMID, img_size=64),
    'L2ViT': dict(arch=PYRAMID, img_size=64),
    'FocalTransformer': dict(arch=PYRAMID, img_size=224),
}
QUICK = ('FLattenDeiT', 'FLattenSwin')
SIZES = [(64, 64), (97, 131)]


class BackboneModel(BaseModel):
    """A backbone with a data preprocessor."""

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
    # the initial zeros would hide errors in tables and scales
    for parameter in backbone.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return ExportedFeatures(BackboneModel(backbone)).eval()


def metadata_of(module, size=(64, 64), dynamic=True):
    return dict(
        task=module.task,
        outputs=list(module.outputs),
        size=list(size),
        classes=['cat', 'dög'],
        sides=list(side_range(module)) if dynamic else None,
        batch=list(batch_range(module)) if dynamic else None,
    )


@pytest.mark.parametrize(
    'name',
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.full) for name in FAMILIES],
)
def test_open_sizes_agree_with_pytorch(tmp_path, name):
    module, file = build(name), tmp_path / 'model.onnx'
    write(module, file, metadata_of(module))
    for size in SIZES:
        case = noise_case(module, size, batch=3)
        assert compare('', module, OnnxFile(file), case) < TOLERANCE, size


def test_shifted_windows_agree_at_open_sizes():
    module = build('FLattenSwin')
    program = trace(module, (64, 64), dynamic=True).module()
    # 2, 7 and 1 rows of windows in the shifted block of stage 2
    for size in [(33, 33), (33, 200), (200, 200)]:
        image = torch.rand(2, 3, *size, generator=torch.Generator().manual_seed(0)) * 255
        with torch.no_grad():
            for expected, output in zip(module(image), program(image), strict=True):
                torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-5)


def test_file_keeps_outputs_and_metadata_at_a_fixed_size(tmp_path):
    module = build('FLattenDeiT')
    file, metadata = tmp_path / 'model.onnx', metadata_of(module, (48, 80), dynamic=False)
    write(module, file, metadata)
    engine = OnnxFile(file)
    assert engine.metadata == metadata
    assert compare('', module, engine, noise_case(module, (48, 80))) < TOLERANCE
    with pytest.raises(Exception, match='invalid dimensions'):
        engine(*random_images(module, (64, 64)))


def test_operator_without_onnx_support_is_named(tmp_path):
    module = build('FLattenDeiT')
    module.forward = lambda image: (torch.linalg.eigvalsh(image @ image.mT),)
    with pytest.raises(ValueError, match='eigvalsh|linalg_eigh'):
        write(module, tmp_path / 'model.onnx', metadata_of(module, dynamic=False))


def one_block(**attention):
    return build(
        'FLattenSwin',
        arch=dict(embed_dims=8, depths=(1,), num_heads=(2,)),
        attn_types='L',
        out_indices=(0,),
        linear_attention=attention,
    )


def test_circulant_attention_is_rejected_by_onnx_at_open_sizes(tmp_path):
    module = one_block(type='CirculantAttention')
    # PyTorch 2.10 refuses in the trace, before the operators are known.
    traced = torch.__version__ >= (2, 11)
    refusal = '--dynamic.*Fourier' if traced else 'torch.export failed with open sizes'
    with pytest.raises(ValueError, match=refusal):
        write(module, tmp_path / 'model.onnx', metadata_of(module))


@pytest.mark.full
def test_agent_attention_agrees_at_open_sizes(tmp_path):
    module, file = one_block(type='AgentAttention', num_agents=4), tmp_path / 'model.onnx'
    write(module, file, metadata_of(module))
    assert compare('', module, OnnxFile(file), noise_case(module, (41, 53))) < TOLERANCE


NEWEST = {
    'ContractBroadcastAttention': dict(num_representatives=4),
    'TokenStatisticsAttention': {},
    'HiddenStateMixer': dict(num_states=5),
    'StateSpaceAttention': dict(num_states=6),
}


@pytest.mark.full
@pytest.mark.parametrize('name', NEWEST)
def test_newest_attention_agrees_at_open_sizes(tmp_path, name):
    module, file = one_block(type=name, **NEWEST[name]), tmp_path / 'model.onnx'
    write(module, file, metadata_of(module))
    assert compare('', module, OnnxFile(file), noise_case(module, (41, 53))) < TOLERANCE


@pytest.mark.full
def test_plain_onnx_export_with_gradients_of_a_learned_scale(tmp_path):
    """As users call it, without `torch.no_grad()`."""
    module = build(
        'L2ViT',
        arch=dict(embed_dims=8, depths=(2,), num_heads=(2,), mlp_ratio=1.0),
        out_indices=(0,),
    )
    assert any(
        name.endswith('temperature') and value.requires_grad
        for name, value in module.named_parameters()
    )
    sides = {
        axis: torch.export.Dim(name, min=33, max=512)
        for axis, name in ((2, 'height'), (3, 'width'))
    }
    program = torch.onnx.export(
        module, (torch.rand(1, 3, 64, 64),), dynamo=True, dynamic_shapes=(sides,), verbose=False
    )
    program.save(str(tmp_path / 'model.onnx'))
    session, image = (
        onnxruntime.InferenceSession(str(tmp_path / 'model.onnx')),
        torch.rand(1, 3, 49, 90) * 255,
    )
    (output,) = session.run(None, {session.get_inputs()[0].name: image.numpy()})
    (expected,) = module(image)
    np.testing.assert_allclose(
        output, expected.detach(), atol=TOLERANCE * float(expected.abs().max())
    )
