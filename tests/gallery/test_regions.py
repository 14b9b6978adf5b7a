"""Regions and classes of images: stored by the same pass, in full or in a basis, whatever happens to the gallery."""

from pathlib import Path

import numpy as np
import pytest
import torch
from galleries import photos, save_image, seeing_recipe, table_of, tiny_recipe, touch_later

from andornot.concepts import QuantizedClasses, vocabulary_for
from andornot.data.converting import square
from andornot.gallery import Gallery, encoding, indexing, writing
from andornot.gallery.blocks import CodeProjector
from andornot.gallery.encoding import extract
from andornot.gallery.errors import DamagedError
from andornot.gallery.plan import merge_samples
from andornot.gallery.planner import box_in_image
from andornot.gallery.projections import RegionBasis
from andornot.gallery.records import ImageRecord
from andornot.gallery.shard import Shard
from andornot.model import Model
from andornot.similarity import best_region_index
from andornot.ssl.backbones import windows_of

ENOUGH = 16


@pytest.fixture(autouse=True)
def few_are_enough(monkeypatch) -> None:
    monkeypatch.setattr(writing, "ENOUGH_IMAGES", ENOUGH)
    monkeypatch.setattr(indexing, "COMMIT_SECONDS", 0.0)
    monkeypatch.setattr(encoding, "BATCH", 6)


def new_gallery(folder: Path, count: int) -> Gallery:
    gallery = Gallery.create(folder / "g", recipe=seeing_recipe())
    gallery.add(photos(folder / "photos", count))
    return gallery


@pytest.fixture(params=[10, 30], ids=["in full", "in a basis"])
def gallery(request, tmp_path) -> Gallery:
    return new_gallery(tmp_path, request.param)


def looked_at(model: Model, paths: list[str]) -> tuple[torch.Tensor, QuantizedClasses]:
    """An obvious oracle: the activations of the windows of each image, and its classes."""
    (maps,) = model.iter_feature_maps(paths, batch_size=len(paths), progress=False)
    windows = [maps[:, :, w.top : w.bottom, w.left : w.right] for w in windows_of(7, 7)]
    return torch.stack([model.backbone.pool(one) for one in windows], 1), QuantizedClasses.of(
        vocabulary_for(model.backbone).evidence(maps)
    )


def basis_of(gallery: Gallery) -> RegionBasis:
    basis = CodeProjector(table_of(gallery), gallery.model).basis
    assert basis is not None
    return basis


def regions_of(gallery: Gallery) -> torch.Tensor:
    """Return the codes `(n, 9, 64)` of all images, which all have regions."""
    table = table_of(gallery)
    found = merge_samples([Shard(table, gallery.model).sample(table.ids, True)])
    assert found.regions is not None
    assert found.has_regions is not None
    assert found.has_regions.all()
    return found.regions


def check(gallery: Gallery) -> None:
    """Every image has its own regions and classes."""
    windows, kept = looked_at(gallery.model, gallery.paths)
    made = basis_of(gallery).codes(windows.half()).int()
    assert (regions_of(gallery).int() - made).abs().max() <= 3
    table = table_of(gallery)
    classes, valid = table.classes(table.ids)
    assert valid.all()
    assert (classes.evidence() - kept.evidence()).abs().max() < 0.01


# --- indexing -------------------------------------------------------------------------------------------------------


def test_every_image_has_its_regions_and_classes(gallery):
    check(gallery)
    assert bool(table_of(gallery).state.basis) == (len(gallery) > ENOUGH)
    assert regions_of(gallery).shape == (len(gallery), 9, 64)


def test_images_are_looked_at_once(tmp_path, monkeypatch):
    seen = []
    original = Model.iter_placed_maps
    monkeypatch.setattr(
        Model, "iter_placed_maps", lambda *args, **how: (seen.append(len(args[1])), original(*args, **how))[1]
    )
    new_gallery(tmp_path, 30)
    assert sum(seen) == 30


def test_regions_follow_what_becomes_of_the_images(gallery, tmp_path):
    folder = tmp_path / "photos"
    save_image(folder / "001.png", 900)
    touch_later(folder / "001.png")
    (folder / "002.png").rename(folder / "moved.png")
    (folder / "003.png").unlink()
    (folder / "copy.png").write_bytes((folder / "004.png").read_bytes())
    save_image(folder / "same 1.png", 901)
    (folder / "same 2.png").write_bytes((folder / "same 1.png").read_bytes())
    assert gallery.update().changed == 1
    check(gallery)
    gallery.remove("005.png")
    check(gallery)


def test_the_basis_comes_with_the_images_and_stays(tmp_path):
    gallery = new_gallery(tmp_path, ENOUGH - 1)
    assert not table_of(gallery).state.basis
    check(gallery)
    gallery.add(photos(tmp_path / "photos", 4, start=100))
    gallery.add(photos(tmp_path / "photos", 4, start=200))
    check(gallery)
    table = table_of(gallery)
    basis = table.state.basis
    assert basis
    stored = table.dataset.to_table(columns=["full_regions", "regions"])
    assert (stored["full_regions"].null_count, stored["regions"].null_count) == (ENOUGH + 7, 0)
    gallery.recalibrate()
    gallery.add(photos(tmp_path / "photos", 9, start=300))
    check(gallery)
    assert table_of(gallery).state.basis == basis


def test_queries_find_the_region_that_they_were_cut_from(gallery):
    windows, _ = looked_at(gallery.model, gallery.paths)
    basis = basis_of(gallery)
    queries = basis.project(basis.represent(windows[4]).degrees)
    assert best_region_index(regions_of(gallery)[4:5], queries).flatten().tolist() == list(range(9))


def test_a_backbone_without_maps_and_classes_keeps_nothing(tmp_path):
    gallery = Gallery.create(tmp_path / "g", recipe=tiny_recipe())
    gallery.add(photos(tmp_path / "photos", 20))
    assert not table_of(gallery).columns & {"regions", "full_regions", "classes"}
    assert not any(hit.boxes for hit in gallery.search("000.png and 001.png"))


def test_a_trained_head_is_the_basis_s_own(tmp_path):
    from andornot.model import new_network

    recipe = seeing_recipe(regime="frozen", num_features=24, predictor_hidden=8)
    model = Model.from_network(new_network(recipe, channels=3), recipe)
    gallery = Gallery.create(tmp_path / "g", model)
    gallery.add(photos(tmp_path / "photos", 30))
    check(gallery)
    assert basis_of(gallery).components.axes.shape == (24, 64)


# --- where ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fit", ["crop", "squash"])
@pytest.mark.parametrize("size", [(70, 70), (140, 70), (70, 210)])
def test_boxes_are_where_the_backbone_looked(fit, size):
    """An image that is white in one region only, as the model sees it, is bright just there in the original."""
    from PIL import Image

    record = ImageRecord(1, "", 1, 1, b"", 1, False, *size)
    for window in windows_of(7, 7):
        box = box_in_image(window.box(7, 7), record, fit)
        left, top, right, bottom = (round(side * length) for side, length in zip(box, (*size, *size), strict=True))
        image = Image.new("L", size)
        image.paste(255, (left, top, right, bottom))
        seen = np.asarray(square(image, 70, fit)).astype(float) / 255
        inside = seen[10 * window.top : 10 * window.bottom, 10 * window.left : 10 * window.right]
        assert inside.mean() > 0.93
        assert seen.sum() - inside.sum() < 60


@pytest.mark.parametrize(("fit", "expected"), [("crop", 0.25), ("squash", 0.0)])
def test_a_hit_says_where_its_terms_are(fit, expected, tmp_path):
    from PIL import Image

    gallery = Gallery.create(tmp_path / "g", recipe=seeing_recipe(fit=fit))
    folder = photos(tmp_path / "photos", 10)
    with Image.open(folder / "000.png") as image:
        image.resize((56, 28)).save(folder / "wide.png")
    gallery.add(folder)
    hits = gallery.search("001.png and 002.png", top=20)
    assert all([place.term for place in hit.boxes] == ["001.png", "002.png"] for hit in hits)
    boxes = [window.box(7, 7) for window in windows_of(7, 7)]
    for hit in hits:
        is_wide = hit.path.endswith("wide.png")
        assert is_wide or all(place.box in boxes for place in hit.boxes)
        if is_wide:
            assert min(place.box[0] for place in hit.boxes) >= expected
            assert max(place.box[2] for place in hit.boxes) <= 1 - expected


def test_regions_are_windows_of_the_whole_image(tmp_path):
    from PIL import Image

    (tmp_path / "photos").mkdir()
    random = np.random.default_rng(1)
    for number, size in enumerate([(640, 320), (320, 320), (640, 320), (320, 640)]):
        small = Image.fromarray(random.integers(0, 256, (8, 8, 3), np.uint8))
        small.resize(size, Image.Resampling.BICUBIC).save(tmp_path / "photos" / f"{number}.png")
    gallery = Gallery.create(tmp_path / "g")
    gallery.add(tmp_path / "photos")
    model = gallery.model
    extracted = extract(model, [model.preprocess(path) for path in gallery.paths], 64)
    grids = [(5, 9), (7, 7), (5, 9), (9, 5)]
    for path, regions, grid in zip(gallery.paths, extracted.regions, grids, strict=True):
        (maps,) = model.iter_feature_maps([path])
        windows = [maps[:, :, w.top : w.bottom, w.left : w.right] for w in windows_of(*grid)]
        expected = torch.cat([model.backbone.pool(window) for window in windows])
        assert torch.allclose(torch.from_numpy(regions).float(), expected, atol=1e-2)
    for hit in gallery.search("0.png and 1.png", include_queries=True):
        grid = grids[int(Path(hit.path).stem)]
        boxes = [window.box(*grid) for window in windows_of(*grid)]
        assert [place.box in boxes for place in hit.boxes] == [True, True]


def test_a_place_is_told_by_the_name_that_was_defined(gallery):
    gallery.define("sunset", "like(000.png, 001.png)")
    hits = gallery.search("003.png and sunset")
    assert {place.term for hit in hits for place in hit.boxes} == {"003.png", "sunset"}


def test_a_lost_basis_is_one_clear_line_and_costs_no_answer_that_needs_no_regions(tmp_path):
    gallery = new_gallery(tmp_path, 30)
    before = gallery.search("000.png", top=50)
    for file in gallery.folder.glob("basis-*"):
        file.unlink()
    again = Gallery.open(gallery.folder)
    assert again.search("000.png", top=50) == before
    with pytest.raises(DamagedError, match=r"basis-\w+\.safetensors is missing or damaged; andornot index --repair"):
        again.search("000.png and 001.png")


# --- crashes --------------------------------------------------------------------------------------------------------


class KilledError(Exception):
    """As if the process ended here."""


@pytest.mark.parametrize("step", range(1, 12))
def test_killed_while_the_basis_is_made_it_goes_on(step, tmp_path, monkeypatch):
    """At each write of that moment; what was committed has its regions afterwards as before."""
    gallery = new_gallery(tmp_path, ENOUGH - 1)
    photos(tmp_path / "photos", 10, start=100)
    calls = []

    def killed(original):
        def call(*arguments, **more):
            calls.append(original)
            if len(calls) == step:
                raise KilledError
            return original(*arguments, **more)

        return call

    with monkeypatch.context() as patched:
        patched.setattr(RegionBasis, "save", killed(RegionBasis.save))
        patched.setattr(writing.Writer, "save_state", killed(writing.Writer.save_state))
        patched.setattr(writing.Writer, "put", killed(writing.Writer.put))
        patched.setattr(writing.Writer, "commit", killed(writing.Writer.commit))
        with pytest.raises(KilledError):
            gallery.update()
    check(Gallery.open(gallery.folder))
    again = Gallery.open(gallery.folder)
    again.update()
    check(again)
    assert len(again) == ENOUGH + 9
    assert len(set(again.ids)) == len(again)
