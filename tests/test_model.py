"""`Model`: images of any kind in, the same representation out; a folder comes back as it was, or says why not."""

import itertools
import json
import pickle
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor, nn

from andornot import Representation
from andornot.data import BrokenImageError, decode, open_images
from andornot.data.converting import ORIENTATION, square, to_tensor
from andornot.gallery.scanning import scan_all
from andornot.model import DESCRIPTION, WEIGHTS, Model, ModelError, new_backbone, new_network
from andornot.ssl.backbones import build_backbone, wrap_backbone
from andornot.ssl.recipe import Recipe, load_recipe, make_recipe
from andornot.ssl.training import CHECKPOINT

TINY = {
    "backbone": "conv5",
    "backbone_options": {"width": 8},
    "num_features": 3,
    "num_values": 4,
    "predictor_hidden": 8,
}
CALIBRATED = {"regime": "calibrated", "backbone": "conv5", "backbone_options": {"width": 8}, "num_values": 5}


def tiny(**changes: object) -> Recipe:
    return make_recipe({**TINY, **changes})


def trained(channels: int = 3, **changes: object) -> Model:
    """As a training leaves it: norms that have seen something, weights that are not those of any seed."""
    recipe = tiny(**changes)
    network = new_network(recipe, channels).train()
    with torch.no_grad():
        for _ in range(3):
            network(torch.rand(8, channels, recipe.size or 28, recipe.size or 28))
    return Model.from_network(network, recipe)


def calibrated(channels: int = 3, **changes: object) -> Model:
    recipe = make_recipe({**CALIBRATED, **changes})
    backbone = new_network(recipe, channels).backbone
    return Model.calibrated(backbone, torch.rand(40, 8, generator=torch.Generator().manual_seed(3)), recipe)


def pixels(seed: int, size: int = 28) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8)


def equal(one: Representation, other: Representation) -> bool:
    return torch.equal(one.probs, other.probs)


def close(one: Representation, other: Representation) -> None:
    torch.testing.assert_close(one.probs, other.probs, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def model() -> Model:
    return trained()


@pytest.fixture(params=[trained, calibrated])
def any_model(request) -> Model:
    return request.param()


@pytest.fixture
def folder(tmp_path) -> Path:
    """Of images: 28 x 28 PNGs."""
    for number in range(4):
        Image.fromarray(pixels(number)).save(tmp_path / f"{number}.png")
    return tmp_path


# --- what may be encoded --------------------------------------------------------------------------------------------


def batch_tensor(_: Path | None = None) -> Tensor:
    """What is in the folder."""
    return torch.stack([torch.from_numpy(pixels(number)).permute(2, 0, 1) for number in range(4)])


def paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.png"))


def opened(path: Path) -> Image.Image:
    image = Image.open(path)
    image.load()
    return image


SEVERAL = {
    "paths": paths,
    "texts": lambda folder: [str(path) for path in paths(folder)],
    "a generator of paths": lambda folder: (path for path in paths(folder)),
    "a tuple of the bytes of files": lambda folder: tuple(path.read_bytes() for path in paths(folder)),
    "PIL": lambda folder: [opened(path) for path in paths(folder)],
    "read-only arrays": lambda folder: [np.asarray(opened(path)) for path in paths(folder)],
    "mirrored arrays": lambda _: [pixels(number)[:, ::-1].copy()[:, ::-1] for number in range(4)],
    "an array (B, H, W, C)": lambda _: np.stack([pixels(number) for number in range(4)]),
    "a tensor of bytes": batch_tensor,
    "a tensor of floats": lambda folder: batch_tensor(folder) / 255,
    "a tensor of doubles": lambda folder: batch_tensor(folder).double() / 255,
    "tensors": lambda folder: list(batch_tensor(folder)),
    "ResizedImages": lambda folder: open_images(str(folder)).resized(28),
    "a mixture": lambda folder: [paths(folder)[0], pixels(1), Image.fromarray(pixels(2)), batch_tensor(folder)[3]],
}


@pytest.mark.parametrize("kind", SEVERAL)
def test_images_of_any_kind_are_encoded_alike(kind, model, folder):
    result = model.encode(SEVERAL[kind](folder))
    assert result.batch_shape == (4,)
    close(result, model.encode(batch_tensor(folder)))


@pytest.mark.parametrize("kind", [kind for kind in SEVERAL if kind not in ("ResizedImages", "a generator of paths")])
def test_one_image_is_a_representation_without_a_batch(kind, model, folder):
    result = model.encode(SEVERAL[kind](folder)[2])
    assert result.probs.shape == (3, 4)
    close(result, model.encode(batch_tensor(folder))[2])


@pytest.mark.parametrize("fit", ["crop", "squash"])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_way_from_an_image_to_pixels_is_the_same_to_the_bit(fit, channels, tmp_path):
    model = trained(channels, fit=fit)
    image = Image.fromarray(pixels(0, 90)).resize((120, 50))
    image.save(tmp_path / "wide.png")
    plain = image if channels == 3 else image.convert("L")
    expected = to_tensor(square(plain, 28, fit))
    array = np.asarray(plain)
    (scanned,) = scan_all([str(tmp_path / "wide.png")], model, lambda _: False)
    ways = {
        "path": model.preprocess(tmp_path / "wide.png"),
        "bytes": model.preprocess((tmp_path / "wide.png").read_bytes()),
        "PIL": model.preprocess(image),
        "array": model.preprocess(array),
        "tensor": model.preprocess(to_tensor(plain)),
        "floats": model.preprocess(to_tensor(plain) / 255),
        "what is preprocessed": model.preprocess(expected),
        "gallery": scanned.pixels,
    }
    if channels == 3:
        ways["data set"] = open_images(tmp_path).resized(28, fit)[0]
        ways["transform"] = open_images(tmp_path, transform=model.preprocess)[0][0]
    for way, result in ways.items():
        assert result.dtype == torch.uint8, way
        assert torch.equal(result, expected), way
    assert equal(model.encode(expected), model.encode(tmp_path / "wide.png"))


def test_floats_of_the_right_shape_are_not_rounded(model):
    floats = torch.rand(3, 28, 28)
    assert torch.equal(model.preprocess(floats), floats)


def test_what_was_turned_upright_is_not_turned_again(model, tmp_path):
    image = Image.fromarray(pixels(0, 60)).resize((80, 40))
    notes = Image.Exif()
    notes[ORIENTATION] = 6
    image.save(tmp_path / "turned.png", exif=notes)
    expected = model.preprocess(tmp_path / "turned.png")
    assert torch.equal(expected, model.preprocess(image.transpose(Image.Transpose.ROTATE_270)))
    for upright in (decode(tmp_path / "turned.png"), open_images(tmp_path).read(0)):
        assert torch.equal(model.preprocess(upright), expected)


def test_images_of_other_sizes_are_resized_alike(model, tmp_path):
    Image.fromarray(pixels(0, 90)).resize((120, 50)).save(tmp_path / "wide.png")
    image = Image.open(tmp_path / "wide.png")
    tensor = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    for same in (image, np.asarray(image), tensor, tensor / 255):
        close(model.encode(same), model.encode(tmp_path / "wide.png"))
    close(model.encode(open_images(str(tmp_path)).resized(28))[0], model.encode(image))


def test_images_kept_at_another_size_are_resized(model, folder):
    assert model.encode(open_images(str(folder)).resized(40)).batch_shape == (4,)
    close(model.encode(open_images(str(folder)).resized(40)[1]), model.encode(open_images(str(folder)).resized(40))[1])


def test_whole_images_keep_their_aspect_ratio_and_their_order():
    recipe = load_recipe("photos")
    backbone = new_backbone(recipe, channels=3)
    model = Model(backbone, nn.Identity(), recipe)
    shapes = [(60, 80), (80, 60), (60, 80), (40, 120), (70, 70), (60, 80)]
    images = [
        Image.fromarray(np.random.default_rng(n).integers(0, 256, (*shape, 3), dtype=np.uint8))
        for n, shape in enumerate(shapes)
    ]
    sizes = [model.preprocess(image).shape[1:] for image in images]
    assert sizes == [(192, 256), (256, 192), (192, 256), (128, 384), (224, 224), (192, 256)]
    assert [model.input_size(image.width, image.height)[::-1] for image in images] == sizes
    together = model.activations(images, batch_size=4, progress=False)
    with torch.no_grad():
        alone = [backbone(model.preprocess(image)[None].float() / 255)[0] for image in images]
    assert torch.allclose(together, torch.stack(alone), atol=1e-4)
    maps = [one for batch in model.iter_feature_maps(images, batch_size=4) for one in batch]
    assert [one.shape[1:] for one in maps] == [(h // 32, w // 32) for h, w in sizes]
    assert all(torch.allclose(one.mean((1, 2)), wanted, atol=1e-4) for one, wanted in zip(maps, alone, strict=True))
    detailed = Model(backbone, nn.Identity(), load_recipe("photos", size=336))
    assert detailed.preprocess(images[0]).shape == (3, 288, 384)


def test_a_backbone_of_one_size_takes_the_center_of_whole_images():
    assert not trained(fit="whole").sees_all
    assert trained(fit="whole").preprocess(pixels(1, 60)).shape == (3, 28, 28)


def test_images_are_cropped_or_squashed_as_the_recipe_says():
    wide = Image.fromarray(np.hstack([pixels(0), pixels(1), pixels(2)]))
    cropped, squashed = trained(fit="crop"), trained(fit="squash")
    close(cropped.encode(wide), cropped.encode(pixels(1)))
    close(squashed.encode(wide), squashed.encode(wide.resize((28, 28), Image.Resampling.BILINEAR, reducing_gap=None)))


GREY = np.arange(28 * 28, dtype=np.int64).reshape(28, 28).astype(np.uint8)


@pytest.mark.parametrize(
    "grey",
    [GREY, GREY[..., None], Image.fromarray(GREY), torch.from_numpy(GREY), torch.from_numpy(GREY)[None] / 255],
    ids=["array", "array with a channel", "PIL", "tensor", "tensor of floats"],
)
def test_a_grey_image_is_a_colour_image_without_colour(grey, model):
    close(model.encode(grey), model.encode(np.stack([GREY] * 3, -1)))
    close(model.encode([grey, pixels(0)])[0], model.encode(grey))


def test_a_grey_model_sees_colour_images_in_grey(folder):
    model = trained(channels=1)
    grey = Image.open(folder / "0.png").convert("L")
    for colour in (folder / "0.png", Image.open(folder / "0.png"), pixels(0), batch_tensor(folder)[0]):
        close(model.encode(colour), model.encode(grey))
    close(model.encode(open_images(str(folder)).resized(28))[0], model.encode(grey))


def test_pil_and_file_agree_on_transparent_deep_and_turned_images(model, tmp_path):
    clear = Image.fromarray(np.dstack([pixels(0), GREY]))
    deep = Image.fromarray(GREY.astype(np.uint16) * 257)
    turned, note = Image.fromarray(pixels(1)), Image.Exif()
    note[0x0112] = 6
    for name, image, options in (("clear", clear, {}), ("deep", deep, {}), ("turned", turned, {"exif": note})):
        image.save(tmp_path / f"{name}.png", **options)
        close(model.encode(Image.open(tmp_path / f"{name}.png")), model.encode(tmp_path / f"{name}.png"))


def test_no_images_are_an_empty_batch(any_model):
    for nothing in ([], torch.zeros(0, 3, 28, 28), np.zeros((0, 28, 28, 3), np.uint8)):
        assert any_model.encode(nothing).probs.shape == (0, any_model.num_features, any_model.num_values)
        assert any_model.activations(nothing).shape == (0, 8)


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_the_size_of_batches_does_not_matter(batch_size, any_model, folder):
    close(any_model.encode(paths(folder), batch_size=batch_size), any_model.encode(paths(folder)))


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (3, TypeError, "expected a path, a PIL image, an array or a tensor, got int"),
        (None, TypeError, "got NoneType"),
        ([pixels(0), 3], TypeError, "got int"),
        (torch.zeros(5), TypeError, r"got Tensor of shape \(5,\)"),
        (np.zeros((2, 2, 2, 2, 3)), TypeError, r"got ndarray of shape \(2, 2, 2, 2, 3\)"),
        (
            torch.zeros(3, 28, 28, dtype=torch.int64),
            TypeError,
            "bytes from 0 to 255 or floats from 0 to 1, got torch.int64",
        ),
        (np.zeros((28, 28), bool), TypeError, "got torch.bool"),
        (torch.full((3, 28, 28), 200.0), ValueError, "must lie between 0 and 1, these go from 200 to 200"),
        (torch.full((3, 28, 28), torch.nan), ValueError, "must lie between 0 and 1"),
        (torch.zeros(4, 28, 28), ValueError, r"\(1, H, W\) or \(3, H, W\), got \(4, 28, 28\)"),
        (np.zeros((5, 5, 2), np.uint8), ValueError, r"an array \(H, W\) or \(H, W, 3\), got \(5, 5, 2\)"),
        (torch.zeros(3, 0, 5), ValueError, r"got \(3, 0, 5\)"),
    ],
)
def test_what_is_no_image_is_an_error_that_says_what_would_be(wrong, error, message, model):
    with pytest.raises(error, match=message):
        model.encode(wrong)


def test_a_file_that_cannot_be_read_is_named(model, folder):
    (folder / "no.png").write_text("no image")
    for name in ("no.png", "none.png"):
        with pytest.raises(BrokenImageError, match=name):
            model.encode([folder / "0.png", folder / name])


@pytest.mark.parametrize("batch_size", [0, -1])
def test_a_batch_has_at_least_one_image(batch_size, model):
    with pytest.raises(ValueError, match=f"batch_size must be at least 1, got {batch_size}"):
        model.encode([pixels(0)], batch_size=batch_size)


# --- what comes out -------------------------------------------------------------------------------------------------


def test_a_trained_model_gives_the_softmax_of_the_prediction(folder):
    model = trained(prediction_temperature=0.2)
    outputs = model.head.network(batch_tensor(folder) / 255)
    expected = torch.softmax(outputs.p / 0.2, -1)
    torch.testing.assert_close(model.encode(batch_tensor(folder)).probs, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model.activations(batch_tensor(folder)), outputs.activations, rtol=1e-4, atol=1e-5)


def test_a_calibrated_model_has_a_feature_for_each_channel(folder):
    model = calibrated()
    expected = model.head(model.backbone(batch_tensor(folder) / 255))
    assert (model.num_features, model.num_values) == (8, 5)
    torch.testing.assert_close(model.encode(batch_tensor(folder)).probs, expected, rtol=1e-3, atol=1e-4)


def test_activations_have_the_width_of_the_backbone(any_model, folder):
    assert any_model.activations(paths(folder)).shape == (4, 8)
    assert any_model.activations(paths(folder)[0]).shape == (8,)


def test_encoding_needs_no_gradient_and_changes_nothing(any_model, folder):
    before = any_model.id
    result = any_model.encode(paths(folder))
    assert not result.probs.requires_grad
    assert torch.is_grad_enabled()
    assert any_model.id == before
    Representation(result.probs)  # validated: each feature's probabilities have the sum 1


def test_a_model_moves_to_a_device_and_goes_on(any_model, folder):
    before = any_model.encode(paths(folder))
    assert any_model.to("cpu") is any_model
    assert any_model.device == torch.device("cpu")
    assert equal(any_model.encode(paths(folder)), before)


def test_the_text_of_a_model_says_what_it_is():
    assert repr(trained()) == "Model(conv5, scratch, N=3, M=4, size=28, channels=3)"
    assert repr(calibrated(1)) == "Model(conv5, calibrated, N=8, M=5, size=28, channels=1)"


# --- saved and loaded -----------------------------------------------------------------------------------------------


def test_a_loaded_model_encodes_bit_by_bit_as_the_saved_one(any_model, folder, tmp_path):
    any_model.save(tmp_path / "deep" / "model")
    again = Model.load(tmp_path / "deep" / "model")
    assert equal(again.encode(paths(folder)), any_model.encode(paths(folder)))
    assert torch.equal(again.activations(paths(folder)), any_model.activations(paths(folder)))
    assert again.recipe == any_model.recipe
    assert (again.id, repr(again)) == (any_model.id, repr(any_model))


def test_a_model_is_two_files_without_pickle(any_model, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("unpickled")

    any_model.save(tmp_path / "model")
    for name in ("load", "loads", "Unpickler", "_Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == ["model.json", "model.safetensors"]
    Model.load(tmp_path / "model")


def test_saving_again_gives_the_same_files(any_model, tmp_path):
    any_model.save(tmp_path / "one")
    Model.load(tmp_path / "one").save(tmp_path / "other")
    any_model.save(tmp_path / "one")
    for name in (DESCRIPTION, WEIGHTS):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_the_description_says_what_the_design_asks(model, tmp_path):
    model.save(tmp_path)
    description = json.loads((tmp_path / DESCRIPTION).read_text())
    assert description["format"] == 1
    assert description["backbone"] == {"name": "conv5", "channels": 3, "pretrained": False, "width": 8}
    assert (description["num_features"], description["num_values"], description["size"]) == (3, 4, 28)
    assert description["temperatures"] == [0.1, 0.04]
    assert description["versions"].keys() == {"andornot", "torch", "python"}


def test_ids_differ_between_models_that_encode_differently():
    models = [
        trained(),
        trained(seed=1),
        trained(prediction_temperature=0.2),
        trained(fit="squash"),
        trained(size=32),
        calibrated(),
        calibrated(num_values=6),
        calibrated(calibration={"power": 2}),
    ]
    assert len({model.id for model in models}) == len(models)


def test_ids_do_not_depend_on_how_it_was_made():
    torch.manual_seed(5)
    one = trained()
    twin = Model.from_network(one.head.network, tiny(epochs=7, checkpoint_seconds=1))
    assert one.id == twin.id


@pytest.mark.parametrize("changes", [{"num_features": 512}, {"num_values": 5}, {"predictor_hidden": 9}])
def test_a_network_with_the_recipe_of_another_is_an_error(changes):
    with pytest.raises(ModelError, match=f"the recipe .*{next(iter(changes.items()))[1]}.*the network's own recipe"):
        Model.from_network(new_network(tiny(), 3), tiny(**changes))


def own_network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU())


def test_loading_draws_no_random_weights(any_model, tmp_path):
    """They would be replaced, and take longer than all else."""
    any_model.save(tmp_path)
    before = torch.random.get_rng_state()
    Model.load(tmp_path)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_network_of_ones_own_is_given_again_when_loading(tmp_path):
    recipe = make_recipe({"regime": "calibrated", "size": 16})
    model = Model.calibrated(wrap_backbone(own_network(), size=16), torch.rand(30, 6), recipe)
    model.save(tmp_path)
    with pytest.raises(ModelError, match=r"network of your own in it: Model.load\(folder, backbone=…\) needs it"):
        Model.load(tmp_path)
    again = Model.load(tmp_path, backbone=wrap_backbone(own_network(), size=16))
    assert equal(again.encode(pixels(0)), model.encode(pixels(0)))
    with pytest.raises(ModelError, match="does not hold a model that can be read"):
        Model.load(tmp_path, backbone=wrap_backbone(nn.Conv2d(3, 7, 3), size=16))


def test_a_network_without_parameters_is_a_backbone_too():
    recipe = make_recipe({"regime": "calibrated", "size": 16})
    model = Model.calibrated(wrap_backbone(nn.AvgPool2d(4), width=3, size=16), torch.rand(30, 3), recipe)
    assert model.encode(pixels(0)).probs.shape == (3, 8)


# --- folders that hold no model -------------------------------------------------------------------------------------


@pytest.fixture
def saved(model, tmp_path) -> Path:
    model.save(tmp_path / "model")
    return tmp_path / "model"


def described(folder: Path, **changes: object) -> None:
    description = json.loads((folder / DESCRIPTION).read_text())
    (folder / DESCRIPTION).write_text(json.dumps({**description, **changes}))


def truncate_weights(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-100])


def change_a_bit(folder: Path) -> None:
    content = bytearray((folder / WEIGHTS).read_bytes())
    content[-50] ^= 1
    (folder / WEIGHTS).write_bytes(content)


def swap_weights(folder: Path) -> None:
    trained(seed=4).save(folder.parent / "other")
    shutil.copy(folder.parent / "other" / WEIGHTS, folder / WEIGHTS)


def unfinished(folder: Path) -> None:
    (folder / DESCRIPTION).unlink()
    (folder / CHECKPOINT).write_bytes(b"")


WRONG = {
    "truncated weights": (truncate_weights, "model.safetensors is damaged or of another model"),
    "a flipped bit": (change_a_bit, "model.safetensors is damaged or of another model"),
    "swapped weights": (swap_weights, "model.safetensors is damaged or of another model"),
    "empty weights": (lambda f: (f / WEIGHTS).write_bytes(b""), "model.safetensors is damaged or of another model"),
    "no weights": (lambda f: (f / WEIGHTS).unlink(), "has a model.json but no model.safetensors"),
    "no description": (lambda f: (f / DESCRIPTION).unlink(), "it has no model.json in it; andornot pretrain makes one"),
    "an unfinished training": (unfinished, "is not finished: andornot pretrain --resume continues"),
    "no folder": (shutil.rmtree, "is no model: it is not a folder"),
    "truncated JSON": (lambda f: (f / DESCRIPTION).write_text('{"format": 1, '), "model.json cannot be read"),
    "no text": (lambda f: (f / DESCRIPTION).write_bytes(b"\xff\xfe"), "model.json cannot be read"),
    "foreign JSON": (lambda f: (f / DESCRIPTION).write_text('{"name": "x"}'), "is of something else than andornot"),
    "a list": (lambda f: (f / DESCRIPTION).write_text("[1]"), "is of something else than andornot"),
    "only a format": (
        lambda f: (f / DESCRIPTION).write_text('{"format": 1}'),
        "does not hold a model that can be read",
    ),
    "a newer format": (
        lambda f: described(f, format=2, versions={"andornot": "9.1"}),
        "was made by andornot 9.1, and this is .*: update andornot",
    ),
    "a newer format of unknown make": (lambda f: described(f, format=2, versions=[]), "was made by a newer andornot"),
    "an unknown backbone": (lambda f: described(f, backbone={"name": "conv6"}), 'unknown backbone "conv6"'),
    "a backbone without a name": (lambda f: described(f, backbone={}), "does not hold a model that can be read"),
    "a backbone with a null name": (
        lambda f: described(f, backbone={"name": None}),
        "its name must be a text, got None",
    ),
    "a backbone that is none": (lambda f: described(f, backbone=[1]), "does not hold a model that can be read"),
    "an unknown setting": (lambda f: described(f, recipe={"epohcs": 3}), 'unknown key "epohcs"'),
    "another architecture": (lambda f: described(f, recipe={**TINY, "num_features": 9}), "does not hold a model"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_folder_that_holds_no_whole_model_says_why_in_one_line(case, saved):
    spoil, message = WRONG[case]
    spoil(saved)
    with pytest.raises(ModelError, match=message) as error:
        Model.load(saved)
    assert "\n" not in str(error.value)
    assert str(saved) in str(error.value)


def test_no_value_in_a_description_ends_in_a_traceback(saved):
    """Every value in turn is replaced by what no andornot writes: it loads, or says why not."""
    description = json.loads((saved / DESCRIPTION).read_text())
    keys = [(outer, None) for outer in description]
    keys += [(outer, inner) for outer, values in description.items() if isinstance(values, dict) for inner in values]
    for (outer, inner), value in itertools.product(keys, [None, [], {}, "x", -1, 2.5, 10**30, [None]]):
        changed = value if inner is None else {**description[outer], inner: value}
        (saved / DESCRIPTION).write_text(json.dumps({**description, outer: changed}))
        with suppress(ModelError):
            Model.load(saved)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_model_that_could_not_be_saved_whole_is_none(model, saved):
    """The description goes first and comes last: no moment has a new half beside an old one."""
    (saved / f"{WEIGHTS}.partial").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        model.save(saved)
    with pytest.raises(ModelError, match=r"it has no model\.json"):
        Model.load(saved)


# --- exports --------------------------------------------------------------------------------------------------------


def test_weights_are_exported_by_the_names_of_torchvision(tmp_path):
    recipe = make_recipe({"backbone": "resnet18", "num_features": 4, "num_values": 4, "predictor_hidden": 8})
    model = Model.from_network(new_network(recipe, 3), recipe)
    model.export_weights(tmp_path / "resnet18.safetensors")
    weights = load_file(tmp_path / "resnet18.safetensors")
    assert {"conv1.weight", "bn1.running_var", "layer2.0.downsample.0.weight", "layer4.1.bn2.bias"} <= weights.keys()
    assert len(weights) == 122 - 2, "torchvision's own, without fc.weight and fc.bias"
    again = build_backbone("resnet18", weights=tmp_path / "resnet18.safetensors").eval()
    images = torch.rand(2, 3, 64, 64)
    assert torch.equal(again(images), model.backbone(images))


def onnx_probs(path: Path, images: Tensor) -> Tensor:
    runtime = pytest.importorskip("onnxruntime")
    (probs,) = runtime.InferenceSession(str(path)).run(["probs"], {"images": images.numpy()})
    return torch.from_numpy(probs)


@pytest.mark.parametrize("count", [1, 4])
def test_onnxruntime_gives_the_same_numbers(count, any_model, folder):
    pytest.importorskip("onnx")
    any_model.export_onnx(folder / "model.onnx")
    images = batch_tensor(folder)[:count] / 255
    expected = any_model.encode(images).probs
    torch.testing.assert_close(onnx_probs(folder / "model.onnx", images), expected, rtol=0, atol=1e-5)


def test_an_export_leaves_the_model_and_the_folder_alone(any_model, folder):
    pytest.importorskip("onnx")
    before = any_model.id
    any_model.export_onnx(folder / "deep.onnx")
    assert any_model.id == before
    assert [path.name for path in folder.iterdir() if path.suffix != ".png"] == ["deep.onnx"]


def test_an_export_without_onnx_says_what_to_install(model, tmp_path, install):
    install("onnx", None)
    with pytest.raises(ModelError, match="pip install onnx"):
        model.export_onnx(tmp_path / "model.onnx")


# --- new networks ---------------------------------------------------------------------------------------------------


def test_a_new_network_is_the_seeds():
    states = [new_network(tiny(seed=seed), 1).state_dict() for seed in (0, 0, 1)]
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    assert not torch.equal(states[0]["projector.0.weight"], states[2]["projector.0.weight"])


@pytest.mark.parametrize(("regime", "learns"), [("scratch", True), ("frozen", False)])
def test_only_a_network_from_scratch_trains_its_backbone(regime, learns):
    network = new_network(tiny(regime=regime), 1)
    assert {parameter.requires_grad for parameter in network.backbone.parameters()} == {learns}
    assert all(parameter.requires_grad for parameter in network.predictor.parameters())


def test_a_model_of_grey_images_has_one_channel_unless_its_backbone_needs_colour():
    assert new_network(tiny(), 1).backbone.channels == 1
    assert build_backbone("conv5", channels=3).channels == 3
    lite = make_recipe(
        {"regime": "calibrated", "backbone": "efficientnet-lite0", "backbone_options": {"pretrained": False}}
    )
    assert new_network(lite, 1).backbone.channels == 3


def test_representing_features_is_encoding_without_the_backbone():
    model = trained()
    images = torch.rand(5, model.channels, model.size, model.size)
    features = model.activations(images)
    assert model.encode_activations(features) == model.encode(images)
    assert model.encode_activations(features[0]) == model.encode_activations(features[:1])[0]


@pytest.mark.parametrize("device", ["cuda:99", "nonsense"])
def test_a_device_that_is_not_there_is_one_clear_line(model, device):
    with pytest.raises(ModelError, match=rf'^the device "{device}" cannot be used: [^\n]+$'):
        model.to(device)
    assert model.device.type == "cpu"


def test_the_pretrained_model_encodes_photos_out_of_the_box(tmp_path):
    model = Model.pretrained()
    assert (model.num_features, model.num_values, model.size) == (1280, 8, 224)
    scenes = open_images("scenes?count=4&classes=dog+car")
    encoded = model.encode(scenes.images)
    Representation(encoded.probs)  # validated
    assert 0.1 < encoded.degrees.mean() < 0.4
    assert encoded.degrees.std(0).mean() > 0.01
    model.save(tmp_path)
    assert Model.load(tmp_path).encode(scenes.images[0]) == encoded[0]
