"""Views of one image, merged to one list of detections."""
import pytest
import torch
from mmdet.structures import DetDataSample
from mmengine.structures import InstanceData

from mmflatten.models.detection.instance_tta import InstanceTTAModel


def test_merged_views_give_one_detection_with_the_box_and_mask_of_the_best():
    def view(x1, x2, score, flip):
        mask = torch.zeros(1, 8, 20, dtype=torch.bool)
        mask[:, 2:6, x1:x2] = True
        sample = DetDataSample(metainfo=dict(ori_shape=(8, 20), flip=flip, flip_direction='horizontal'))
        sample.pred_instances = InstanceData(
            bboxes=torch.tensor([[x1, 2., x2, 6.]]), scores=torch.tensor([score]), labels=torch.tensor([3]), masks=mask)
        return sample

    module = torch.nn.Module()
    module.test_step = lambda data: None
    model = InstanceTTAModel(module=module, iou_threshold=0.5, max_per_img=10)
    # The mirror image of columns 3 to 9 of 20 is 11 to 17; it was found there with the higher score.
    merged, = model.merge_preds([[view(3, 8, 0.6, flip=False), view(11, 17, 0.9, flip=True)]])
    found = merged.pred_instances
    assert found.bboxes.tolist() == [[3, 2, 9, 6]]
    assert found.scores.tolist() == pytest.approx([0.9]) and found.labels.tolist() == [3]
    assert found.masks.sum() == 4 * 6 and found.masks[0, 2:6, 3:9].all()
