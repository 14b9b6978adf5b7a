"""kNN evaluation: how well activations and possession degrees agree with labels, without training."""

from ...data import ImageSet
from ...model import Model
from ..errors import EvaluationError
from ..metrics.ranking import knn_accuracy
from ..report.outcome import Outcome, Section, Table
from .sets import check_labels, class_labels


def evaluate_knn(model: Model, train: ImageSet, test: ImageSet, *, k: int = 20, temperature: float = 0.07) -> Outcome:
    """Return the kNN accuracy of the backbone's activations and of the possession degrees."""
    if k < 1 or not temperature > 0:
        raise EvaluationError(f"k must be 1 or more and the temperature above 0, not {k} and {temperature}")
    check_labels(train, test, single_class=True)
    train_images, test_images = (images.resized(model.size, model.recipe.fit) for images in (train, test))
    train_classes, test_classes = class_labels(train_images, "training"), class_labels(test_images, "test")
    train_features, test_features = model.activations(train_images), model.activations(test_images)
    compared = {
        "backbone features": (train_features, test_features),
        "possession degrees": (
            model.encode_activations(train_features).degrees,
            model.encode_activations(test_features).degrees,
        ),
    }
    accuracies = {
        name: knn_accuracy(of_train, train_classes, of_test, test_classes, k=k, temperature=temperature)
        for name, (of_train, of_test) in compared.items()
    }
    used = min(k, len(train_images))
    table = Table(
        f"Accuracy of a vote of the {used} nearest neighbours by cosine, temperature {temperature:g}.",
        ["compared by", "accuracy"],
        [[name, accuracy] for name, accuracy in accuracies.items()],
    )
    return Outcome(
        "Nearest neighbours",
        f"{used} nearest neighbours classify {len(test_images):,} test images with an accuracy of "
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
            "images": {"training": len(train_images), "test": len(test_images)},
            "unreadable_images_left_out": {"training": len(train_images.broken), "test": len(test_images.broken)},
            "view": {"resized_to": model.size, "fit": model.recipe.fit},
        },
        [Section("Accuracy", content=[table])],
    )
