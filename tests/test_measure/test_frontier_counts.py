"""The classifiers of the newer attentions cost what their authors' classes cost, counted on those
classes.
"""

from pathlib import Path

import pytest
from mmengine.config import Config

from mmflatten.measure.flops.meta import build_on_meta

CONFIGS = Path(__file__).parents[2] / 'configs'
# Parameters, and multiply-accumulates in 1e9 where those were counted, at the image size of the
# model.
OFFICIAL = {
    'agent/agent-deit-t_8xb128_in1k': (6_015_640, 1.168),
    'agent/agent-deit-s_8xb128_in1k': (22_647_112, 4.427),
    'agent/agent-deit-b_8xb128_in1k': (87_204_904, 17.53),
    'agent/agent-pvt-t_8xb128_in1k': (11_570_352, 1.986),
    'agent/agent-pvt-s_8xb64_in1k': (20_635_066, 3.955),
    'agent/agent-pvt-m_8xb64_in1k': (35_921_746, 6.999),
    'agent/agent-pvt-l_8xb32_in1k': (48_738_180, 10.34),
    'agent/agent-swin-t_8xb128_in1k': (28_902_964, 4.499),
    'agent/agent-swin-s_8xb128_in1k': (49_666_684, 8.701),
    'agent/agent-swin-b_8xb64_in1k': (88_095_096, 15.40),
    'agent/agent-swin-b_8xb32_in1k-384px': (88_305_016, 46.21),
    'agent/agent-cswin-t_8xb256_in1k': (20_458_672, 4.292),
    'agent/agent-cswin-s_8xb128_in1k': (32_814_100, 6.744),
    'agent/agent-cswin-b_8xb64_in1k': (73_249_696, 14.87),
    'inline/inline-deit-t_8xb128_in1k': (6_477_736, 1.109),
    'inline/inline-deit-s_8xb128_in1k': (16_734_760, 4.966),
    'inline/inline-deit-b_8xb128_in1k': (23_797_096, 17.17),
    'inline/inline-pvt-t_8xb128_in1k': (12_032_232, 1.976),
    'inline/inline-pvt-s_8xb64_in1k': (21_556_136, 3.915),
    'inline/inline-pvt-m_8xb64_in1k': (37_618_856, 6.862),
    'inline/inline-pvt-l_8xb32_in1k': (51_154_280, 10.13),
    'inline/inline-swin-t_8xb128_in1k': (29_223_544, 4.459),
    'inline/inline-swin-s_8xb128_in1k': (49_793_296, 8.719),
    'inline/inline-swin-b_8xb64_in1k': (88_350_120, 15.40),
    'inline/inline-cswin-t_8xb256_in1k': (20_604_520, 4.312),
    # Of these two the multiply-accumulates are those of the README.
    'inline/inline-cswin-s_8xb128_in1k': (33_032_872, 6.8),
    'inline/inline-cswin-b_8xb64_in1k': (73_413_640, 14.9),
    'polaformer/polaformer-swin-t_8xb128_in1k': (29_285_696, 4.659),
    'polaformer/polaformer-swin-s_8xb128_in1k': (50_603_600, 8.910),
    'polaformer/polaformer-swin-b_8xb64_in1k': (89_137_864, 15.71),
    # The official classes have a norm of 2 x 512 behind their last stage that they never call, as
    # FLatten's.
    'polaformer/polaformer-pvt-t_8xb128_in1k': (12_924_648 - 1024, None),
    'polaformer/polaformer-pvt-s_8xb64_in1k': (23_157_224 - 1024, None),
    'polaformer/polaformer-pvt-m_8xb64_in1k': (39_965_672 - 1024, None),
    'polaformer/polaformer-pvt-l_8xb32_in1k': (54_366_568 - 1024, None),
    'slab/slab-swin-t_8xb128_in1k': (29_216_605, None),
    'slab/slab-swin-s_8xb128_in1k': (50_552_965, None),
    'slab/slab-swin-b_8xb64_in1k': (89_029_373, None),
    'ravlt/ravlt-t_8xb128_in1k': (14_897_768, 2.613),
    'ravlt/ravlt-s_8xb128_in1k': (25_591_208, 4.878),
    'ravlt/ravlt-b_8xb128_in1k': (48_241_288, 10.58),
    'ravlt/ravlt-l_8xb128_in1k': (95_242_440, 17.21),
    'ravlt/mavit-t_8xb128_in1k': (16_449_128, 2.639),
    'ravlt/mavit-s_8xb128_in1k': (27_142_568, 4.904),
    'ravlt/mavit-b_8xb128_in1k': (49_792_648, 10.60),
    'ravlt/mavit-l_8xb128_in1k': (97_766_088, 17.26),
    'ravlt/polaformerpp-b2_8xb128_in1k': (16_450_664, 2.718),
    'ravlt/polaformerpp-b3_8xb128_in1k': (27_145_896, 5.049),
    'mila/mila-t_8xb128_in1k': (24_392_200, 4.131),
    'mila/mila-s_8xb64_in1k': (43_015_048, 7.249),
    'mila/mila-b_8xb64_in1k': (95_983_960, 16.11),
    'vittt/vittt-t_8xb128_in1k': (6_149_416, 1.219),
    'vittt/vittt-s_8xb128_in1k': (23_799_400, 4.807),
    'vittt/vittt-b_8xb128_in1k': (90_055_912, 17.94),
    'vittt/h-vittt-t_8xb128_in1k': (28_703_560, 4.903),
    'vittt/h-vittt-s_8xb128_in1k': (54_362_056, 8.732),
    'vittt/h-vittt-b_8xb128_in1k': (94_369_304, 16.68),
    # The official class projects behind the Fourier transform, which has a few more elements than
    # the map.
    'circulant/circulant-deit-t_8xb128_in1k': (6_140_200, None),
    'circulant/circulant-deit-s_8xb128_in1k': (23_780_968, None),
    'circulant/circulant-deit-b_8xb128_in1k': (93_567_208, None),
}
COUNTED = [name for name, (_, gmacs) in OFFICIAL.items() if gmacs]
SMALL = [name for name in COUNTED if '-t_' in name or 'b2_' in name]


@pytest.mark.parametrize('name', [name for name in OFFICIAL if name not in SMALL])
def test_classifier_has_the_parameters_of_the_official_class(name: str) -> None:
    config = Config.fromfile(CONFIGS / f'{name}.py')
    model = build_on_meta(config.model, config.default_scope)
    assert sum(parameter.numel() for parameter in model.parameters()) == OFFICIAL[name][0]


@pytest.mark.parametrize(
    'name',
    [pytest.param(name, marks=[] if name in SMALL else pytest.mark.full) for name in COUNTED],
)
def test_classifier_has_parameters_and_macs_of_the_official_class(
    cost_of_config, name: str
) -> None:
    cost, (params, gmacs) = cost_of_config(f'configs/{name}.py'), OFFICIAL[name]
    assert cost.params == params and not cost.counts.uncounted
    assert cost.counts.macs / 1e9 == pytest.approx(gmacs, rel=5e-3)
