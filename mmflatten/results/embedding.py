"""Map of a classifier's test images: their features, reduced to two dimensions by scikit-learn."""
import numpy as np
import torch

from mmflatten.predict.predictor import Predictor
from mmflatten.results.analysis import ResultTable
from mmflatten.results.figures import Points
from mmflatten.results.reading import Results, ResultsError


def embed(results: Results, config: str | None, method: str, seed: int = 0,
          most: int = 2000) -> tuple[ResultTable, Points]:
    """Reduce the input of the head's last layer by `method`, 'tsne' or 'pca', to two dimensions.

    More than `most` images are drawn at random by `seed`, which is also that of t-SNE. Raises PredictionError for an
    unreadable image, and ResultsError for another task, fewer than 3 images, or an unknown checkpoint. A config is a
    program, so that it is the one that the user names, never one that the results name.
    """
    number, checkpoint = len(results.entries), results.origin.get('checkpoint')
    if not {'pred_score', 'img_path'} <= results.entries[0].keys() or number < 3:
        raise ResultsError('--embedding: expected the results of a classifier on at least 3 image files, got those of '
                           f'{results.task.name} on {number} images. Omit --embedding.')
    if config is None:
        raise ResultsError('--embedding: requires the config of the tested model, which is a program. Pass --config.')
    if not checkpoint or '://' in checkpoint:
        raise ResultsError(f'--embedding: no checkpoint file in {results.path.with_suffix(".json")}. Run '
                           f'mmflatten test CONFIG CHECKPOINT --out {results.path}.')
    scores, labels = results.task.part('results').read(results)
    chosen = np.sort(np.random.default_rng(seed).permutation(number)[:most])
    true, predicted, names = labels[chosen], scores[chosen].argmax(1), np.array(results.names(scores.shape[1]))
    images = [results.entries[index]['img_path'] for index in chosen]
    predictor = Predictor(config, results.file(checkpoint))
    with torch.no_grad():
        inputs = (predictor.prepare(results.image(image))['inputs'] for image in images)
        features = torch.cat([predictor.model.extract_feat(each, 'pre_logits') for each in inputs]).flatten(1).cpu()
    from sklearn import decomposition, manifold  # which other analyses do not need
    reducer = decomposition.PCA(2) if method == 'pca' else manifold.TSNE(
        init='pca', perplexity=min(30, (len(images) - 1) / 3), random_state=seed)
    points = reducer.fit_transform(features.numpy())
    title = f'{"PCA" if method == "pca" else "t-SNE"} of {len(images)} of {number} images'
    return (ResultTable(title, ('image', 'class', 'predicted', 'x', 'y'),
                        list(zip(images, names[true], names[predicted], *points.T)), printed=False),
            Points(points, true, true != predicted, names, title))
