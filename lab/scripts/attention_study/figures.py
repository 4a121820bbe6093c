"""The papers' figures of attention for given models and images. Each `draw_*` writes PNGs and
returns their numbers.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable

import numpy as np
import torch
from attention_study import drawings
from attention_study.basis import basis_of_image, draw_basis_masks, find_attention, most_used
from attention_study.focal_levels import is_focal, level_shares, pooled_biases
from attention_study.layer_maps import stages
from attention_study.measures import (
    SHARE,
    SHARES,
    after_concentration,
    concentration,
    distribution,
    focusing,
    has_focus,
    mean_and_spread,
    ranks,
)
from attention_study.receptive_field import receptive_field
from attention_study.study import Study, save, shrink

from mmflatten.explain.attention import AttentionLayer
from mmflatten.explain.drawings import attention_figure
from mmflatten.models.attention import FactorizedAttention


def drawn_parts(layer: AttentionLayer) -> dict[str, str]:
    """Map a suffix of the model's label to a part of the layer: attention, and both with its
    convolution.
    """
    return {'': 'attention', drawings.LOCAL: 'both'} if layer.local else {'': 'attention'}


def draw_distribution(studies: list[Study], options: Namespace) -> dict:
    models = {study.label: study.measure(distribution) for study in studies}
    curves: dict[str, dict] = {}
    for number in range(max(map(len, models.values()))):
        lines = {}
        for label, records in models.items():
            if number < len(records):
                lines[label] = records[number]['held']
        curves[f'layer {number}'] = lines
    save(options, 'distribution', drawings.distribution_figure(curves, SHARES))
    return dict(shares_of_keys=SHARES, models=models)


def draw_focusing(studies: list[Study], options: Namespace) -> dict:
    models = {study.label: study.measure(focusing, has_focus) for study in studies}
    curves = {}
    for label, records in models.items():
        for record in records:
            relative = [value / record['uniform_entropy'] for value in record['entropy']]
            curves[f'{label}, layer {record["number"]}'] = record['powers'], relative
    save(options, 'focusing', drawings.focusing_figure(curves))
    return models


def draw_matrices(studies: list[Study], options: Namespace) -> dict:
    layers = {study.label: study.at(options.layer) for study in studies}
    matrices = {}
    for label, layer in layers.items():
        for mark, part in drawn_parts(layer).items():
            matrices[label + mark] = layer.matrix(part=part).mean(0).cpu().numpy()
    for study in studies:
        layer = layers[study.label]
        matrix = torch.as_tensor(matrices[study.label], device=layer.x.device)
        behind = after_concentration(study.predictor.model, layer, matrix)
        if behind is not None:
            matrices[f'{study.label}, after local concentration'] = behind.cpu().numpy()
    title = f'Matrices of layer {options.layer}, mean over the heads'
    save(options, 'matrices', drawings.matrices_figure(matrices, title))
    numbers = {}
    for label, matrix in matrices.items():
        numbers[label] = dict(
            layer=options.layer,
            shape=list(matrix.shape),
            largest=float(matrix.max()),
            smallest=float(matrix.min()),
        )
    return numbers


def draw_rank(studies: list[Study], options: Namespace) -> dict:
    models = {study.label: study.measure(ranks, reduce=mean_and_spread) for study in studies}
    spreads = {}
    for label, records in models.items():
        spreads[label] = [record['spread'] for record in records]
    labels = (
        'rank (tolerance of matrix_rank)',
        f'singular values > {SHARE} of the largest',
        'effective rank',
    )
    figure = drawings.by_layer(
        curves=_rank_curves(models),
        labels=labels,
        title=(
            'Rank of the attention matrix, mean over heads; bars: standard deviation over images'
        ),
        spreads=_rank_curves(spreads),
    )
    save(options, 'rank', figure)
    return dict(share=SHARE, models=models)


def _rank_curves(models: dict[str, list[dict]]) -> dict[str, dict[str, list]]:
    """Map each kind of rank to the lines of the models, without and with the convolution."""
    curves: dict[str, dict[str, list]] = {}
    for key in ('rank', 'share_rank', 'effective_rank'):
        lines = curves[key] = {}
        for label, records in models.items():
            for mark, part in (('', 'attention'), (drawings.LOCAL, 'both')):
                if any(part in record for record in records):
                    lines[label + mark] = [record.get(part, {}).get(key) for record in records]
    return curves


def draw_maps(studies: list[Study], options: Namespace) -> dict:
    numbers = {}
    for number, image in enumerate(options.images):
        picture = studies[0].pictures[number]
        query = options.query or (picture.shape[1] // 2, picture.shape[0] // 2)
        maps = {}
        for study in studies:
            layer = study.at(options.layer, number)
            token = layer.token_at(*query, study.pictures[number].shape[:2])
            for mark, part in drawn_parts(layer).items():
                row = layer.row(token, part=part).mean(0)[layer.prefix :]
                maps[study.label + mark] = row.unflatten(0, layer.kv_hw).cpu().numpy()
        title = (
            f'Weights of layer {options.layer} for the query at {query[0]},{query[1]}, mean over'
            ' the heads'
        )
        figure = attention_figure(picture, maps, query, title)
        save(options, f'maps_{number}', figure)
        numbers[f'maps_{number}'] = dict(
            image=str(image),
            query=list(query),
            layer=options.layer,
            largest={label: float(np.abs(weights).max()) for label, weights in maps.items()},
        )
    return numbers


def draw_concentration(studies: list[Study], options: Namespace) -> dict:
    models = {study.label: study.measure(concentration) for study in studies}
    curves: dict[str, dict] = {}
    for key in ('entropy', 'distance'):
        curves[key] = {}
        for label, records in models.items():
            curves[key][label] = [_relative(record, key) for record in records]
    figure = drawings.by_layer(
        curves,
        ('entropy / ln M', 'mean distance / that of equal weights'),
        'Concentration of the weights, mean over heads and images',
    )
    save(options, 'concentration', figure)
    return models


def _relative(record: dict, key: str) -> float | None:
    """Divide a quantity by that of equal weights; None if the latter is zero."""
    uniform = record[f'uniform_{key}']
    return record[key] / uniform if uniform else None


def draw_receptive_field(studies: list[Study], options: Namespace) -> dict:
    numbers = {}
    fields = {}
    for study in studies:
        model = study.predictor.model
        inputs = [study.predictor.prepare(image)['inputs'][0] for image in options.images]
        field = receptive_field(model, inputs, options.stage)
        fields[f'{study.label}, radius {field.radius:.1f}'] = field.values
        numbers[study.label] = []
        for stage in range(len(stages(model))):
            figures = receptive_field(model, inputs, stage).figures()
            numbers[study.label].append(dict(stage=stage, **figures))
    title = f'Effective receptive field of stage {options.stage}, mean over images'
    save(options, 'receptive-field', drawings.receptive_field_figure(fields, title))
    return numbers


def draw_levels(studies: list[Study], options: Namespace) -> dict:
    models = {study.label: study.measure(_mean_level_shares, is_focal) for study in studies}
    bars = {}
    for label, records in models.items():
        levels: dict[str, None] = {}
        for record in records:
            levels.update(dict.fromkeys(record['shares']))
        bars[label] = {}
        for level in levels:
            bars[label][level] = [record['shares'].get(level, 0.0) for record in records]
    save(options, 'levels', drawings.levels_figure(bars))
    return models


def _mean_level_shares(layer: AttentionLayer) -> dict:
    shares = {level: share.mean().item() for level, share in level_shares(layer).items()}
    return dict(shares=shares)


def draw_biases(studies: list[Study], options: Namespace) -> dict:
    numbers = {}
    for study in studies:
        biases = {}
        for number, layer in enumerate(study.layers):
            if is_focal(layer):
                for level, heads in enumerate(pooled_biases(layer), 1):
                    biases[f'layer {number}, level {level}'] = heads.cpu().numpy()
        # A single number is not worth a picture.
        drawn = {name: heads for name, heads in biases.items() if heads[0].size > 1}
        title = f'{study.label}: biases of pooled tokens'
        save(options, f'biases_{study.label}', drawings.biases_figure(drawn or biases, title))
        numbers[study.label] = {}
        for name, heads in biases.items():
            for head, bias in enumerate(heads):
                numbers[study.label][f'{name}, head {head}'] = bias.tolist()
    return numbers


def draw_basis(studies: list[Study], options: Namespace) -> dict:
    numbers = {}
    for study in studies:
        name, attention = find_attention(study.predictor.model, options.module)
        results = [basis_of_image(study.predictor, attention, image) for image in options.images]
        masks = options.masks or most_used(results, 6)
        path = options.out / f'basis_{study.label}.png'
        draw_basis_masks(results, masks, path)
        shrink(path)
        numbers[study.label] = dict(
            module=name,
            masks=masks,
            shares=[result.coefficients[masks].tolist() for result in results],
        )
    return numbers


def is_factorized(layer: AttentionLayer) -> bool:
    return isinstance(layer.module, FactorizedAttention)


def has_pools(layer: AttentionLayer) -> bool:
    return is_focal(layer) and len(layer.module.pools) > 0


# Function that draws the figure, condition on a layer of the model (None: every model), and its
# name in messages.
FIGURES: dict[str, tuple[Callable, Callable | None, str]] = {
    'distribution': (draw_distribution, None, ''),
    'focusing': (draw_focusing, has_focus, 'a focused function'),
    'matrices': (draw_matrices, None, ''),
    'rank': (draw_rank, None, ''),
    'maps': (draw_maps, None, ''),
    'concentration': (draw_concentration, None, ''),
    'receptive-field': (draw_receptive_field, None, ''),
    'levels': (draw_levels, is_focal, 'FocalAttention'),
    'biases': (draw_biases, has_pools, 'FocalAttention with pooled tokens'),
    'basis': (draw_basis, is_factorized, 'FactorizedAttention'),
}


def make_figures(
    models: dict[str, tuple[str, str]], options: Namespace, names: list[str] | None = None
) -> dict:
    """Draw figures into `options.out`.

    Args:
        models: label -> config and checkpoint.
        options: arguments of attention_figures.py.
        names: names of `FIGURES`; None for all that apply to one of the models.

    Returns:
        The numbers of each figure.

    Raises:
        PredictionError: an image cannot be read.
        ValueError: a figure in `names` applies to no model, or a layer, query, module or mask does
            not exist.
    """
    studies = [Study.of(label, *files, options) for label, files in models.items()]
    options.out.mkdir(parents=True, exist_ok=True)
    numbers = {}
    for name in names or FIGURES:
        draw, condition, required = FIGURES[name]
        suitable = studies
        if condition is not None:
            suitable = [study for study in studies if any(map(condition, study.layers))]
        if not suitable and names:
            raise ValueError(
                f'--figure {name}: expected a model with {required}, got {", ".join(models)}.'
            )
        if suitable:
            numbers[name] = draw(suitable, options)
    return numbers
