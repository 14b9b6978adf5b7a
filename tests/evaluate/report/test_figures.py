from andornot.demo import FEATURES, example
from andornot.evaluate.report.figures import draw_features


def test_bars_are_the_probabilities_and_the_label_is_the_degree():
    columns = example()
    figure = draw_features(columns, FEATURES)
    assert len(figure.axes) == len(columns) * len(FEATURES)
    for axes, (column, row) in zip(figure.axes, [(c, r) for r in range(3) for c in columns], strict=True):
        heights = [bar.get_height() for bar in axes.patches]
        assert heights == columns[column].probs[row].tolist()
        assert axes.texts[0].get_text() == f"{columns[column].degrees[row]:.2f}"
