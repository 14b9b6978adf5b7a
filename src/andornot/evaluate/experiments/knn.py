"""Nearest neighbours as an experiment: how well features and possession degrees agree with labels, without training."""

from ...data import ImageSet
from ...model import Model
from ..errors import EvaluationError
from ..metrics.knn import knn_accuracy
from ..report.outcome import Outcome, Section, Table
from .probing import check_sets, classes_of


def knn_outcome(model: Model, train: ImageSet, test: ImageSet, *, k: int = 20, temperature: float = 0.07) -> Outcome:
    """The accuracy of the vote of k neighbours, for the backbone's features and for the possession degrees."""
    if k < 1 or not temperature > 0:
        raise EvaluationError(f"k must be 1 or more and the temperature above 0, not {k} and {temperature}")
    check_sets(train, test, one_class_each=True)
    known, new = (images.pictures(model.size, model.recipe.fit) for images in (train, test))
    classes, new_classes = classes_of(known, "training"), classes_of(new, "test")
    features, new_features = model.activations(known), model.activations(new)
    compared = {
        "backbone features": (features, new_features),
        "possession degrees": (model.represent(features).degrees, model.represent(new_features).degrees),
    }
    accuracies = {
        name: knn_accuracy(one, classes, other, new_classes, k=k, temperature=temperature)
        for name, (one, other) in compared.items()
    }
    used = min(k, len(known))
    table = Table(
        f"Accuracy of the vote of {used} nearest neighbours by cosine, temperature {temperature:g}.",
        ["neighbours by", "accuracy"],
        [[name, accuracy] for name, accuracy in accuracies.items()],
    )
    return Outcome(
        "Nearest neighbours",
        f"{len(new):,} test pictures take the class of their {used} nearest training pictures: right for "
        + " and ".join(f"{accuracy:.1%} by {name}" for name, accuracy in accuracies.items())
        + ".",
        {name.replace(" ", "_"): accuracy for name, accuracy in accuracies.items()},
        {
            "evaluation": "nearest neighbours",
            "model": model.id,
            "k": used,
            "temperature": temperature,
            "similarity": "cosine",
            "vote": "exp(cosine / temperature)",
            "pictures": {"training": len(known), "test": len(new)},
            "unreadable_pictures_left_out": {"training": len(known.broken), "test": len(new.broken)},
            "view": {"resized_to": model.size, "fit": model.recipe.fit},
        },
        [Section("Accuracy", content=[table])],
    )
