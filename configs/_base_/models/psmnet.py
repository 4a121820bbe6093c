"""PSMNet with stacked hourglasses for disparities below 192, the official size: 5,224,768
parameters.
"""

default_scope = 'mmflatten'
visualizer = dict(
    type='mmflatten.StereoVisualizer',
    name='visualizer',
    vis_backends=[dict(type='LocalVisBackend')],
)
model = dict(
    type='mmflatten.PSMNet',
    max_disp=192,
    aggregation='stackhourglass',
    data_preprocessor=dict(
        type='mmflatten.StereoDataPreProcessor',
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        bgr_to_rgb=True,
    ),
)
