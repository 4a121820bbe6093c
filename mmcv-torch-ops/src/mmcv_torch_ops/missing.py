"""Operators of mmcv's extension that are missing here, each with the class or function that calls
it and who uses that.

None of them is imported by mmdet, mmseg or mmpretrain.
"""

# User, what it calls, and the names of the extension behind that.
_CALLERS = {
    'mmaction2': {'TINShift': ['tin_shift_forward', 'tin_shift_backward']},
    'mmagic, for StyleGAN': {
        'bias_act': ['bias_act'],
        'filtered_lrelu': ['filtered_lrelu', 'filtered_lrelu_act_'],
        'FusedBiasLeakyReLU': ['fused_bias_leakyrelu'],
        'upfirdn2d': ['upfirdn2d'],
    },
    'mmdet3d': {
        'assign_score_withk': ['assign_score_withk_forward', 'assign_score_withk_backward'],
        'ball_query': ['ball_query_forward', 'stack_ball_query_forward'],
        'chamfer_distance': ['chamfer_distance_forward', 'chamfer_distance_backward'],
        'DynamicScatter': ['dynamic_point_to_voxel_forward', 'dynamic_point_to_voxel_backward'],
        'furthest_point_sample': [
            'furthest_point_sampling_forward',
            'furthest_point_sampling_with_dist_forward',
        ],
        'gather_points': ['gather_points_forward', 'gather_points_backward'],
        'GroupAll and QueryAndGroup': [
            'group_points_forward',
            'group_points_backward',
            'stack_group_points_forward',
            'stack_group_points_backward',
        ],
        'boxes_iou3d and nms3d': [
            'iou3d_boxes_overlap_bev_forward',
            'iou3d_nms3d_forward',
            'iou3d_nms3d_normal_forward',
        ],
        'knn': ['knn_forward'],
        'points_in_boxes': [
            'points_in_boxes_part_forward',
            'points_in_boxes_cpu_forward',
            'points_in_boxes_all_forward',
        ],
        'RoIAwarePool3d': ['roiaware_pool3d_forward', 'roiaware_pool3d_backward'],
        'RoIPointPool3d': ['roipoint_pool3d_forward'],
        'sparse convolutions': [
            'get_indice_pairs_2d_forward',
            'get_indice_pairs_3d_forward',
            'get_indice_pairs_4d_forward',
            'get_indice_pairs_2d_backward',
            'get_indice_pairs_3d_backward',
            'indice_conv_forward',
            'indice_conv_backward',
            'fused_indice_conv_forward',
            'indice_maxpool_forward',
            'indice_maxpool_backward',
        ],
        'three_interpolate': ['three_interpolate_forward', 'three_interpolate_backward'],
        'three_nn': ['three_nn_forward'],
        'Voxelization': ['dynamic_voxelize_forward', 'hard_voxelize_forward'],
    },
    'mmflow': {'Correlation': ['correlation_forward', 'correlation_backward']},
    'mmocr': {
        'BezierAlign': ['bezier_align_forward', 'bezier_align_backward'],
        'contour_expand': ['contour_expand'],
        'pixel_group': ['pixel_group'],
    },
    'mmrotate': {
        'ActiveRotatedFilter': ['active_rotated_filter_forward', 'active_rotated_filter_backward'],
        'box_iou_quadri': ['box_iou_quadri'],
        'box_iou_rotated': ['box_iou_rotated'],
        'convex_iou': ['convex_iou', 'convex_giou'],
        'diff_iou_rotated': ['diff_iou_rotated_sort_vertices_forward'],
        'min_area_polygons': ['min_area_polygons'],
        'nms_rotated': ['nms_rotated'],
        'nms_quadri': ['nms_quadri'],
        'points_in_polygons': ['points_in_polygons_forward'],
        'RiRoIAlignRotated': ['riroi_align_rotated_forward', 'riroi_align_rotated_backward'],
        'RoIAlignRotated': ['roi_align_rotated_forward', 'roi_align_rotated_backward'],
        'RotatedFeatureAlign': ['rotated_feature_align_forward', 'rotated_feature_align_backward'],
    },
    'mmtracking': {
        'PrRoIPool': ['prroi_pool_forward', 'prroi_pool_backward', 'prroi_pool_coor_backward']
    },
    'BorderDet': {'BorderAlign': ['border_align_forward', 'border_align_backward']},
    "the norm 'MMSyncBN'; PyTorch's 'SyncBN' serves": {
        'SyncBatchNorm': [
            'sync_bn_forward_mean',
            'sync_bn_forward_var',
            'sync_bn_forward_output',
            'sync_bn_backward_param',
            'sync_bn_backward_data',
        ],
    },
}

MISSING: dict[str, str] = {}
for _user, _callers in _CALLERS.items():
    for _caller, _names in _callers.items():
        for _name in _names:
            MISSING[_name] = f'called by {_caller}, used by {_user}'
