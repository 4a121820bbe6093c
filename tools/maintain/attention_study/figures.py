"""The papers' pictures of attention, of models and images of one's own."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
from attention_study import drawings as draw
from attention_study.basis import basis_of_image, draw_basis_masks, find_attention, most_used
from attention_study.focal_levels import is_focal, level_shares, pooled_biases
from attention_study.measures import SHARES, concentration, distribution, focusing, has_focus, ranks
from attention_study.study import Options, Study, save, shrink
from mmengine.registry import DefaultScope

from mmflatten.explain.attention import AttentionLayer
from mmflatten.explain.attention.statistics import THRESHOLD
from mmflatten.explain.drawings import attention_figure, receptive_field_figure
from mmflatten.explain.layer_maps import stages
from mmflatten.explain.receptive_field import receptive_field
from mmflatten.models.attention import FactorizedAttention


def parts(layer: AttentionLayer) -> dict[str, str]:
    """What is drawn of a layer: mark behind the model's label, and part."""
    return {'': 'attention', draw.LOCAL: 'both'} if layer.local else {'': 'attention'}


def of_distribution(studies: list[Study], options: Options) -> dict:
    found = {study.label: study.measure(distribution) for study in studies}
    count = max(map(len, found.values()))
    curves = {f'layer {number}': {label: records[number]['held'] for label, records in found.items()
                                  if number < len(records)} for number in range(count)}
    save(options, 'distribution', draw.distribution_figure(curves, SHARES))
    return dict(shares_of_keys=SHARES, models=found)


def of_focusing(studies: list[Study], options: Options) -> dict:
    found = {study.label: study.measure(focusing, has_focus) for study in studies}
    curves = {f'{label}, layer {record["number"]}':
              (record['powers'], [value / record['uniform_entropy'] for value in record['entropy']])
              for label, records in found.items() for record in records}
    save(options, 'focusing', draw.focusing_figure(curves))
    return found


def of_matrices(studies: list[Study], options: Options) -> dict:
    layers = {study.label: study.at(options.layer) for study in studies}
    matrices = {label + mark: layer.matrix(part=part).mean(0).cpu().numpy() for label, layer in layers.items()
                for mark, part in parts(layer).items()}
    save(options, 'matrices', draw.matrices_figure(matrices, f'Matrices of layer {options.layer}, mean over the heads'))
    return {label: dict(layer=options.layer, shape=list(matrix.shape), largest=float(matrix.max()),
                        smallest=float(matrix.min())) for label, matrix in matrices.items()}


def of_rank(studies: list[Study], options: Options) -> dict:
    found = {study.label: study.measure(ranks) for study in studies}
    curves = {key: {label + mark: [record.get(part, {}).get(key) for record in records]
                    for label, records in found.items() for mark, part in (('', 'attention'), (draw.LOCAL, 'both'))
                    if any(part in record for record in records)} for key in ('rank', 'effective_rank')}
    labels = f'singular values > {THRESHOLD} of the largest', 'effective rank'
    save(options, 'rank', draw.by_layer(curves, labels, 'Rank of the attention matrix, mean over heads and images'))
    return dict(threshold=THRESHOLD, models=found)


def of_maps(studies: list[Study], options: Options) -> dict:
    found = {}
    for number, image in enumerate(options.images):
        picture = studies[0].pictures[number]
        query = options.query or (picture.shape[1] // 2, picture.shape[0] // 2)
        maps = {}
        for study in studies:
            layer = study.at(options.layer, number)
            token = layer.token_at(*query, study.pictures[number].shape[:2])
            for mark, part in parts(layer).items():
                row = layer.row(token, part=part).mean(0)[layer.prefix:]
                maps[study.label + mark] = row.unflatten(0, layer.kv_hw).cpu().numpy()
        title = f'Weights of layer {options.layer} for the query at {query[0]},{query[1]}, mean over the heads'
        save(options, f'maps_{number}', attention_figure(picture, maps, query, title))
        found[f'maps_{number}'] = dict(image=str(image), query=list(query), layer=options.layer, largest={
            label: float(np.abs(weights).max()) for label, weights in maps.items()})
    return found


def of_concentration(studies: list[Study], options: Options) -> dict:
    found = {study.label: study.measure(concentration) for study in studies}
    curves = {key: {label: [record[key] / record[f'uniform_{key}'] if record[f'uniform_{key}'] else None
                            for record in records] for label, records in found.items()}
              for key in ('entropy', 'distance')}
    save(options, 'concentration', draw.by_layer(curves, ('entropy / ln M', 'mean distance / that of equal weights'),
                                              'Concentration of the weights, mean over heads and images'))
    return found


def of_receptive_field(studies: list[Study], options: Options) -> dict:
    found, drawn = {}, {}
    for study in studies:
        model = study.predictor.model
        inputs = [study.predictor.prepare(image)['inputs'][0] for image in options.images]
        field = receptive_field(model, inputs, options.stage)
        drawn[f'{study.label}, radius {field.radius:.1f}'] = field.values
        found[study.label] = [dict(stage=stage, **receptive_field(model, inputs, stage).figures())
                              for stage in range(len(stages(model)))]
    title = f'Effective receptive field of stage {options.stage}, mean over images'
    save(options, 'receptive-field', receptive_field_figure(drawn, title))
    return found


def of_levels(studies: list[Study], options: Options) -> dict:
    found = {study.label: study.measure(
        lambda layer: dict(shares={level: share.mean().item() for level, share in level_shares(layer).items()}),
        is_focal) for study in studies}
    drawn = {label: {level: [record['shares'].get(level, 0.) for record in records]
                     for level in dict.fromkeys(level for record in records for level in record['shares'])}
             for label, records in found.items()}
    save(options, 'levels', draw.levels_figure(drawn))
    return found


def of_biases(studies: list[Study], options: Options) -> dict:
    found = {}
    for study in studies:
        biases = {f'layer {number}, level {level}, head {head}': bias.cpu().numpy()
                  for number, layer in enumerate(study.layers) if is_focal(layer)
                  for level, heads in enumerate(pooled_biases(layer), 1) for head, bias in enumerate(heads)}
        drawn = {name: bias for name, bias in biases.items() if bias.size > 1} or biases
        save(options, f'biases_{study.label}', draw.biases_figure(drawn, f'{study.label}: biases of pooled tokens'))
        found[study.label] = {name: bias.tolist() for name, bias in biases.items()}
    return found


def of_basis(studies: list[Study], options: Options) -> dict:
    found = {}
    for study in studies:
        cfg, model = study.predictor.cfg, study.predictor.model
        name, attention = find_attention(model)
        with DefaultScope.overwrite_default_scope(study.predictor.scope):
            results = [basis_of_image(model, attention, cfg.test_dataloader.dataset.pipeline, image)
                       for image in options.images]
        masks = most_used(results, 6)
        path = options.out / f'basis_{study.label}.png'
        draw_basis_masks(results, masks, path)
        shrink(path)
        found[study.label] = dict(module=name, masks=masks, shares=[
            [float(result.shares[mask]) for mask in masks] for result in results])
    return found


def is_factorized(layer: AttentionLayer) -> bool:
    return isinstance(layer.module, FactorizedAttention)


def has_pools(layer: AttentionLayer) -> bool:
    return is_focal(layer) and len(layer.module.pools) > 0


# What draws a figure, which layers it is about, and what these have.
FIGURES: dict[str, tuple[Callable, Callable | None, str]] = {
    'distribution': (of_distribution, None, ''),
    'focusing': (of_focusing, has_focus, 'a focused function'),
    'matrices': (of_matrices, None, ''),
    'rank': (of_rank, None, ''),
    'maps': (of_maps, None, ''),
    'concentration': (of_concentration, None, ''),
    'receptive-field': (of_receptive_field, None, ''),
    'levels': (of_levels, is_focal, 'FocalAttention'),
    'biases': (of_biases, has_pools, 'FocalAttention with pooled tokens'),
    'basis': (of_basis, is_factorized, 'FactorizedAttention'),
}


def make_figures(models: dict[str, tuple[str, str]], options: Options, names: list[str] | None = None) -> dict:
    """Draw figures into `options.out`.

    Args:
        models: label to config and checkpoint.
        options: what they are of.
        names: of `FIGURES`; None for all that a model suits.

    Returns:
        The numbers, by figure.

    Raises:
        PredictionError: an image cannot be read.
        ValueError: no model has what a figure in `names` is about, or the layer or query that is asked for.
    """
    studies = [Study.of(label, *files, options) for label, files in models.items()]
    options.out.mkdir(parents=True, exist_ok=True)
    found = {}
    for name in names or FIGURES:
        figure, about, words = FIGURES[name]
        suited = [study for study in studies if about is None or any(map(about, study.layers))]
        if not suited and names:
            raise ValueError(f'figure ({name}) needs {words}, which none of the models has: {", ".join(models)}')
        if suited:
            found[name] = figure(suited, options)
    return found
