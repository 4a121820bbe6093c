"""Folds for cross-validation."""
import random
from collections import Counter
from collections.abc import Collection, Hashable, Mapping

from mmflatten.custom_data.reading import DataError


def stratified_folds(labels: Mapping[str, Collection[Hashable]], folds: int, seed: int) -> dict[str, int]:
    """Distribute samples so that each fold has about the same fraction of the samples of each class.

    Iterative stratification (Sechidis et al., ECML PKDD 2011): the samples of the rarest class are distributed first,
    each to the fold that still needs most of this class, or else most samples. With one class per sample, this is
    stratification by class. The result depends on the names, the labels and the seed.

    Args:
        labels: distinct classes of each sample; samples without classes are distributed evenly.

    Raises:
        DataError: there are fewer samples than folds.
    """
    if len(labels) < folds:
        raise DataError(f'--folds: expected at most {len(labels)}, the number of different images, got {folds}.')
    left = sorted(labels)
    random.Random(seed).shuffle(left)
    room = [len(left) / folds] * folds
    counts = Counter(label for names in labels.values() for label in {*names})
    wanted = [{label: count / folds for label, count in counts.items()} for _ in range(folds)]
    chosen: dict[str, int] = {}
    while left:
        open_counts = Counter(label for sample in left for label in {*labels[sample]})
        rarest = min(open_counts, key=lambda label: (open_counts[label], str(label)), default=None)
        for sample in [sample for sample in left if rarest is None or rarest in labels[sample]]:
            fold = max(range(folds), key=lambda number: (wanted[number].get(rarest, 0), room[number], -number))
            chosen[sample] = fold
            room[fold] -= 1
            for label in {*labels[sample]}:
                wanted[fold][label] -= 1
        left = [sample for sample in left if sample not in chosen]
    return chosen
