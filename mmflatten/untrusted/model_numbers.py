"""Numbers that the model of a published config may hold: the bounds of each argument.

The arguments are those of our configs and of the sizes of our backbones, with room above what they
use. `tests/test_configs/test_published_configs.py` compares the table with all of them: nothing is
missing or left over.
"""

MAX_ITEMS = 128  # of a list; our configs have at most 40, a letter for each block

_CHANNELS = (1, 8192)
_LAYERS = (0, 128)
_SIDE = (1, 128)  # of a kernel, a window or a region, in tokens
_PIXELS = (1, 2048)
_STRIDE = (0.5, 256)  # of a map, in pixels
_RATE = (0, 1)
_WEIGHT = (-100, 100)  # of a loss, which predictions do not use

NUMBERS: dict[str, tuple[float, float]] = {
    # Size of a network
    'attention_after': _LAYERS,
    'base_channels': _CHANNELS,
    'base_width': _CHANNELS,
    'basis_channels': _CHANNELS,
    'channels': _CHANNELS,
    'conv_out_channels': _CHANNELS,
    'depth': (1, 256),
    'depths': (1, 128),
    'embed_dims': _CHANNELS,
    'expand_size': _SIDE,
    'fc_out_channels': _CHANNELS,
    'feat_channels': _CHANNELS,
    'feedforward_channels': _CHANNELS,
    'groups': _CHANNELS,
    'in_channels': _CHANNELS,
    'inner_channels': _CHANNELS,
    'last_projection': _CHANNELS,
    'mlp_ratio': (0.25, 16),
    'mlp_ratios': (0.25, 16),
    'num_classes': (1, 2**16),
    'num_cls_fcs': _LAYERS,
    'num_convs': _LAYERS,
    'num_ffn_fcs': (2, 16),
    'num_groups': _CHANNELS,
    'num_heads': (1, 256),
    'num_ins': (1, 16),
    'num_layers': _LAYERS,
    'num_outs': (1, 16),
    'num_reg_fcs': _LAYERS,
    'num_shared_convs': _LAYERS,
    'num_shared_fcs': _LAYERS,
    'num_stages': (1, 16),
    'num_stuff_classes': (1, 999),  # labels and instances share a number
    'num_things_classes': (1, 999),
    'out_channels': _CHANNELS,
    'point_feat_channels': _CHANNELS,
    'proposal_feature_channel': _CHANNELS,
    'stacked_convs': _LAYERS,
    'stem_channels': _CHANNELS,
    # Attention
    'border': (0, 16),
    'cpe_kernel': _SIDE,
    'feature_floor': (0, 100),
    'focal_windows': _SIDE,
    'focusing_factor': (0, 64),
    'kernel_size': _SIDE,
    'layer_scale': _RATE,
    'lcm_kernel': _SIDE,
    'linear_window': _SIDE,
    'min_denominator': (0, 10_000),
    'num_agents': (1, 4096),
    'num_blocks': (1, 256),
    'num_prefix': (0, 16),
    'progressive_norm': (1, 2**40),  # steps of a training
    'registers': (0, 64),
    'rotary': (0, 2**20),
    'softmax_split': _SIDE,
    'softmax_window': _SIDE,
    'window_size': _SIDE,
    # Maps and pixels
    'crop_size': _PIXELS,
    'end_level': (1, 16),
    'feature_strides': _STRIDE,
    'featmap_strides': _STRIDE,
    'fusion_level': (0, 16),
    'img_size': _PIXELS,
    'in_index': (0, 64),
    'max_disp': (1, 512),
    'octave_base_scale': (1, 64),
    'out_indices': (0, 256),
    'patch_size': _SIDE,
    'point_strides': _STRIDE,
    'pool_scales': (1, 64),
    'pool_sizes': (1, 256),
    'ratios': (0.01, 100),
    'scales': (0.01, 64),
    'scales_per_octave': (1, 16),
    'seg_scale_factor': (0.01, 1),
    'start_level': (0, 16),
    'stride': _PIXELS,
    'strides': _STRIDE,
    # Regions and predictions of a detector
    'input_feat_shape': (1, 32),
    'iou_threshold': _RATE,
    'mask_overlap': _RATE,
    'mask_thr_binary': _RATE,
    'max_per_img': (1, 2000),
    'min_bbox_size': (0, 2048),
    'nms_pre': (1, 4000),
    'num_points': (1, 64),
    'num_proposals': (1, 2000),
    'output_size': (1, 32),
    'roi_feat_size': (1, 32),
    'sampling_ratio': (0, 8),
    'score_thr': (0.001, 1),  # below it, every place of a map is a candidate
    'stuff_area_limit': (0, 2**20),  # pixels
    'target_means': _WEIGHT,
    'target_stds': (1e-4, 100),
    # Training: stored, and not used by a prediction
    'alpha': _WEIGHT,
    'beta': _WEIGHT,
    'drop_path_rate': _RATE,
    'dropout': _RATE,
    'dropout_ratio': _RATE,
    'eps': (1e-12, 1),
    'frozen_stages': (-1, 256),
    'gamma': _WEIGHT,
    'gradient_mul': _RATE,
    'ignore_index': (-1000, 1000),
    'loss_weight': _WEIGHT,
    'stage_loss_weights': _WEIGHT,
}
