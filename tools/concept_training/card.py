"""The model card, from the figures that were measured."""
# ruff: noqa: E501

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final

from andornot.concepts import ConceptHeads

from .data import SHARE
from .evaluation import STRONG
from .words import ENOUGH, LEAST_IMAGES, LEAST_PRECISION, choose_words

_WIDTH: Final = 120

CARD: Final = """\
# Model card: named features

`src/andornot/concepts/concepts.safetensors`, version {version}, made on {date} by `make concepts` (seed {seed}).
{size:.1f} MB, half precision, {words} words. *This page is written by `tools/train_concepts.py write`.*

## What it is

A small network on the last feature map of `efficientnet-lite0` (1280 channels, stride 32), which is computed for every
image anyway. For each word it gives the probability that an image shows it, and how much each place of the image speaks
for it. It works offline, and no other backbone can use it.

```python
from andornot.concepts import find_box, find_name, load_heads

heads = load_heads()
probabilities, evidence = heads.both(maps)  # maps: numpy (B, 1280, h, w), as the backbone computes them
column = heads.index(find_name("sofa", heads.names))
probabilities[0, column]  # how likely a couch is
find_box(evidence[0, :, :, column])  # left, top, right, bottom, as fractions of the image
```

Images are resized to `choose_size(width / height)`: nothing is cropped, about the pixels of 224 x 224.

## How it was made

- At each place: 1280 → {hidden} features, ReLU; a linear map of their mean over the image is added, ReLU again; then a
  logit for each word. Places are pooled by `(logsumexp(r l) − log places) / r` with a learned r ({sharpness:.2f}), and a
  linear function of the mean features is added.
- Trained on all {trained:,} images of COCO train2017 (256 x 256 pixels, squashed; each is given the aspect ratio of some
  image of val2017 with an even id) with the 80 kinds of things that COCO labels. 1,021 images without any label count as
  showing none of them. Binary cross-entropy, AdamW 2e-3, one cycle, weight decay 0.01, batches of 64, dropout {dropout},
  {epochs} epochs. The backbone is not trained.
- The words of captions are linear functions of the mean features, fitted on the 2,191 images of val2017 with an even id.
  At least {enough} of five captions mention the word: it is shown; none does: it is not; one does: it counts a quarter in
  training and not at all in figures. Candidates: {candidates}. Shipped are those that at least {least} images show and
  that reach an average precision of {threshold} in five-fold cross-validation.
- Calibration: one line for the 80 kinds and one for the words of captions, on the same images with an even id. A kind
  counts as shown there if its largest box covers at least {share} of the image: COCO labels people of a few pixels. The
  share was chosen on every second image of VOC2007; the 200 images of VOC2012 that we have cannot tell, they were picked
  for showing several things (2.0 each, VOC2007: 1.5).

Data and licence: annotations of [COCO](https://cocodataset.org) (Lin et al., *Microsoft COCO: Common Objects in Context*,
2014), © COCO Consortium, [CC BY 4.0](https://creativecommons.org/licenses/by/4.0/); changed: only which kinds an image
shows is used. The photographs are their authors' on Flickr; none is part of this package. The weights are ours, Apache-2.0.

## Figures

On the {odd_images} images of val2017 with an odd id and on VOC2007 (trainval, {voc_images} images). Nothing was trained or
tuned on either, but for that share. `make concepts` prints them all.

{figures}

*one*: share of right ones among the first hits for one word. *both*: `a and b`, product of probabilities, over pairs of
words that at least {need} images (VOC: {voc_need}) show together. *a and not b*: shows a and no b; *b left*: shows b all
the same; over ordered pairs, where also at least as many images show a without b. First 10 hits on COCO, 20 on VOC. On
VOC things marked as difficult count as not shown here, and not at all for calibration.

### Calibration

Of what is said with a probability in each tenth, how much is there: on COCO as large as said above, on VOC in the half
of the images that the share was not chosen on.

{calibration}

Hits with a truth of at least {strong_from}, and of {strong_from_two} for several words, are called strong. On the half of VOC2007 that the
calibration was chosen on, 80 % of the hits of two words are right from 0.8 on, and 85 % from 0.85 on; 0.85 was taken
after the other half had shown 79.5 % at 0.8, so the figure of two words on VOC is not independent of that choice.
On COCO {strong_one} of them are right for one word and {strong_two}
for two ({strong_all_one} and {strong_all_two} if the smallest things count, too); on VOC {voc_strong_one} and
{voc_strong_two}.

### Boxes

For things that are there and at least 50 % likely ({boxes} on odd ids): the box holds half of a thing in {held}, where a
box of that size anywhere does in {chance}; it overlaps one by half (intersection over union) in {overlap}. The mean box
has {area} of the image. Boxes come from a map of 8 x 6 places: they say where to look, and do not outline.

## Each word

Average precision, share of right ones among the first 10, and images that show it, on odd ids.

{things}

### Words of captions

What people mention, which is less than what is there: a low probability of *sky* does not mean that there is none.

{captions}

Not shipped, with their average precision in cross-validation and the images that show them: {refused}.

## Known failures, and what was never measured

- Small things are missed: {worst} are the worst.
- What usually goes together is said to be there: a fork where a table is laid, a mouse beside a laptop, a baseball bat
  beside a glove.
- The training images are small (256 pixels) and squashed.
- *man*, *woman*, *child* and the like are guesses from captions, which say what the writers assumed. They are not to be used
  for decisions about people. How figures differ with skin colour, age, country or clothing (sunglasses, veils, uniforms)
  was never measured, nor where in the world the photographs are from.
- Drawings, scans, screenshots, night, thermal and fisheye images were never measured.
"""


def model_card(
    heads: ConceptHeads,
    results: Mapping[str, Any],
    words: Mapping[str, tuple[float, int]],
    size: int,
    facts: Mapping[str, Any],
) -> str:
    """Return the text of the card."""
    odd, voc = results["coco, odd ids"], results["voc2007"]
    shipped = set(choose_words(words))
    refused = sorted(
        ((_finite(value), count, word) for word, (value, count) in words.items() if word not in shipped), reverse=True
    )
    worst = sorted((row[0], name) for name, row in odd["by word"].items())[:6]
    boxes = odd["boxes"]
    text = CARD.format(
        version=heads.version,
        size=size / 1e6,
        words=len(heads.names),
        hidden=len(heads.weights["hidden.bias"]),
        sharpness=float(heads.weights["sharpness"][0]),
        enough=ENOUGH,
        candidates=len(words),
        least=LEAST_IMAGES,
        threshold=LEAST_PRECISION,
        odd_images=f"{odd['figures']['images']:,.0f}",
        voc_images=f"{voc['figures']['images']:,.0f}",
        need=10,
        voc_need=25,
        figures=figures_table({"COCO, odd ids": odd["figures"], "VOC2007": voc["figures"]}),
        calibration=calibration_table({"COCO, odd ids": odd["calibration"], "VOC2007": voc["calibration"]}),
        strong_from=STRONG[0],
        strong_from_two=STRONG[1],
        strong_one=percent(odd["strong"]["one"]),
        strong_two=percent(odd["strong"]["two"]),
        strong_all_one=percent(odd["strong, all labels"]["one"]),
        strong_all_two=percent(odd["strong, all labels"]["two"]),
        share=f"{100 * SHARE:g} %",
        voc_strong_one=percent(voc["strong"]["one"]),
        voc_strong_two=percent(voc["strong"]["two"]),
        boxes=f"{boxes['boxes']:,.0f}",
        held=percent(boxes["hold half of a thing"]),
        chance=percent(boxes["hold half of a thing, chance"]),
        overlap=percent(boxes["overlap by half"]),
        area=percent(boxes["mean area"]),
        things=word_table(odd["by word"]),
        captions=word_table(odd["caption words"]["by word"]),
        refused=", ".join(f"{word} {value:.2f} ({count})" for value, count, word in refused if count),
        worst=", ".join(f"{name} ({value:.2f})" for value, name in worst),
        **facts,
    )
    return "\n".join(_wrapped(text)) + "\n"


def _wrapped(text: str) -> Iterator[str]:
    """Yield the lines of a page; prose at most 120 characters wide."""
    for line in text.splitlines():
        if line.startswith("|") or len(line) <= _WIDTH:
            yield line
        else:
            indent = "  " if line.startswith(("- ", "  ")) else ""
            yield from textwrap.wrap(
                line, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
            )


def percent(share: float) -> str:
    """Return a share as a percentage."""
    return f"{100 * share:.0f} %"


def figures_table(columns: Mapping[str, Mapping[str, float]]) -> str:
    """Return figures, one row each."""
    names = next(iter(columns.values()))
    rows = [[name, *(_number(figures[name]) for figures in columns.values())] for name in names]
    return _table(["", *columns], rows)


def calibration_table(columns: Mapping[str, list[tuple[int, float, float]]]) -> str:
    """Return the tenths of probability, with what was said and what is there."""
    tenths: dict[int, list[str]] = {}
    for position, rows in enumerate(columns.values()):
        for count, said, there in rows:
            cells = tenths.setdefault(min(int(10 * said), 9), ["", ""])
            cells[position] = f"{percent(said)}: {percent(there)} of {count:,}"
    lines = [[f"{10 * tenth} to {10 * tenth + 10} %", *cells] for tenth, cells in sorted(tenths.items())]
    return _table(["", *columns], lines)


def word_table(words: Mapping[str, tuple[float, float, int]]) -> str:
    """Return the words in columns, the best first."""
    ordered = sorted(words.items(), key=lambda item: -_finite(item[1][0]))
    cells = [f"{name} {_number(row[0])} {_number(row[1])} ({row[2]})" for name, row in ordered]
    width = 4
    rows = [cells[start : start + width] for start in range(0, len(cells), width)]
    return _table([""] * width, [row + [""] * (width - len(row)) for row in rows])


def _finite(value: float) -> float:
    return value if value == value else -1.0


def _number(value: float) -> str:
    return "–" if value != value else f"{value:,.0f}" if value >= 2 else f"{value:.3f}" if value < 1 else f"{value:.2f}"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
