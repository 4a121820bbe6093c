"""Draw what an exported detector finds: python detect.py model.onnx photo.jpg drawing.png"""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageDraw

SCORE = 0.5


def detect(model, photo):
    """Return boxes (n, 4) in pixels of the photo, scores, labels and masks; and class names."""
    session = onnxruntime.InferenceSession(model)
    facts = json.loads(session.get_modelmeta().custom_metadata_map['mmflatten'])
    scale = facts['transforms']['resize']['scale']
    factor = min(max(scale) / max(photo.size), min(scale) / min(photo.size))
    resized = photo.resize([int(side * factor + 0.5) for side in photo.size], Image.BILINEAR)
    image = np.asarray(resized, np.float32).transpose(2, 0, 1)[None]
    found = dict(zip(facts['outputs'], session.run(None, {'image': image})))
    certain = found['scores'][0] >= SCORE  # padding has the score 0
    found = {name: value[0][certain] for name, value in found.items()}
    found['boxes'] *= np.tile(np.divide(photo.size, resized.size), 2)
    return found, facts['classes']


def draw(photo, found, classes):
    """Return the photo with a frame, a tint and a name for each instance."""
    for number, box in enumerate(found['boxes']):
        colour = f'hsl({137 * number % 360}, 90%, 55%)'
        if 'masks' in found:
            mask = Image.fromarray(found['masks'][number] * np.uint8(110)).resize(photo.size)
            photo.paste(colour, (0, 0), mask)
        pen = ImageDraw.Draw(photo)
        pen.rectangle(box.tolist(), outline=colour)
        name = f'{classes[found["labels"][number]]} {found["scores"][number]:.2f}'
        pen.text(box[:2].tolist(), name, fill=colour)
    return photo


if __name__ == '__main__':
    photo = Image.open(sys.argv[2]).convert('RGB')
    draw(photo, *detect(sys.argv[1], photo)).save(sys.argv[3])
