from io import BytesIO

import pytest
import torch

from andornot.demo import FEATURES, example
from andornot.evaluate.report.figures import (
    BarRow,
    BoxPanel,
    SearchRow,
    TopImagesRow,
    draw_bars,
    draw_boxes,
    draw_features,
    draw_search,
    draw_top_images,
)

IMAGE = torch.zeros(3, 4, 4, dtype=torch.uint8)
ODD = "$_$ costs 5$"


def test_bars_are_the_probabilities_and_the_label_is_the_degree():
    columns = example()
    figure = draw_features(columns, FEATURES)
    assert len(figure.axes) == len(columns) * len(FEATURES)
    for axes, (column, row) in zip(figure.axes, [(c, r) for r in range(3) for c in columns], strict=True):
        heights = [bar.get_height() for bar in axes.patches]
        assert heights == columns[column].probs[row].tolist()
        assert axes.texts[0].get_text() == f"{columns[column].degrees[row]:.2f}"


@pytest.mark.parametrize(
    "figure",
    [
        draw_features(dict(zip(("a", ODD), list(example().values())[:2], strict=True)), [ODD, "b", "c"]),
        draw_search([SearchRow(ODD, [IMAGE], [IMAGE])]),
        draw_top_images([TopImagesRow(ODD, [IMAGE], [0.5])]),
        draw_boxes([BoxPanel(ODD, {ODD: [0.1, 0.2], "others": [0.3, 0.4]})]),
        draw_bars([BarRow([ODD], [IMAGE], {ODD: [0.5]})]),
    ],
    ids=["features", "search", "sheet", "boxes", "bars"],
)
def test_a_name_with_dollars_is_no_mathematics(figure):
    figure.savefig(BytesIO(), format="png", dpi=20)
    shown = {text.get_text() for axes in figure.axes for text in (*axes.texts, axes.title, *axes.get_xticklabels())}
    shown |= {axes.get_ylabel() for axes in figure.axes}
    assert ODD.replace("$", r"\$") in shown
