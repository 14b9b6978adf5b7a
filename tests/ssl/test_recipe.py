"""Recipes: the paper's settings by default, changed by YAML and key=value, and nothing unknown gets through."""

import math
import re
import shlex
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from andornot.commands.main import make_parser
from andornot.data import SOURCES
from andornot.data.specs import parse_spec
from andornot.pretraining import default_recipe
from andornot.ssl.recipe import Calibration, Recipe, RecipeError, load_recipe, make_recipe, recipe_names
from andornot.ssl.views import Augmentation

PAPER = {
    "num_features": 512,
    "num_values": 8,
    "synthesis": "logic",
    "mixup_lambda": 0.5,
    "alpha": 0.5,
    "beta": 0.6,
    "prediction_temperature": 0.1,
    "target_temperature": 0.04,
    "center_momentum": 0.9,
    "prior": None,
    "learning_rate": 0.027,
    "batch_size": 32,
    "momentum": 0.9,
    "weight_decay": 1e-4,
}


def text_of(name: str) -> str:
    return (resources.files("andornot") / "recipes" / f"{name}.yaml").read_text(encoding="utf-8")


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


# --- what comes with the package ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "value"), PAPER.items())
def test_the_defaults_are_the_papers(key, value):
    assert getattr(Recipe(), key) == value


@pytest.mark.parametrize("synthesis", ["vanilla", "mean", "maximum"])
def test_the_expected_value_loss_is_that_of_logic_alone_unless_somebody_says_otherwise(synthesis):
    assert Recipe(synthesis=synthesis).beta == 0
    assert load_recipe("mnist", [f"synthesis={synthesis}"]).beta == 0
    assert load_recipe("mnist", [f"synthesis={synthesis}", "beta=0.6"]).beta == 0.6
    assert make_recipe(Recipe(synthesis=synthesis, beta=0.3).model_dump()).beta == 0.3


@pytest.mark.parametrize("name", [name for name in recipe_names() if name.endswith("-paper")])
def test_a_paper_recipe_changes_nothing_that_the_paper_says_but_n(name):
    recipe = load_recipe(name)
    assert {key: getattr(recipe, key) for key in PAPER if key != "num_features"} == {
        key: value for key, value in PAPER.items() if key != "num_features"
    }
    assert recipe.num_features == (128 if name == "mnist-paper" else 512)
    assert recipe.regime == "scratch"


def test_the_recipes_of_the_issue_are_there():
    issue = {"digits", "mnist-paper", "cifar10-paper", "imagenet100-paper", "voc-paper", "photos"}
    assert issue <= set(recipe_names())


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_opens_with_what_it_reproduces_a_command_and_a_time(name):
    head = text_of(name).split("\n\n")[0]
    comment = [line.removeprefix("#").strip() for line in head.splitlines() if line.startswith("#")]
    assert head.startswith("# ")
    assert len(comment[0]) > 20, "the first line says what this is"
    assert re.search(r"about (half a|an?|\d+) (minute|hour|day)s?", " ".join(comment))
    command = next(line for line in comment if "andornot pretrain" in line)
    words = shlex.split(re.split(r"\s{2,}", command)[0])
    arguments = words[words.index("andornot") + 1 :]
    options = make_parser(arguments).parse_args(arguments)
    assert (options.recipe or default_recipe(parse_spec(options.source, SOURCES).source)) == name


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_is_the_same_after_a_round_trip_through_yaml(name, tmp_path):
    recipe = load_recipe(name)
    again = write(tmp_path / "recipe.yaml", yaml.safe_dump(recipe.model_dump(mode="json")))
    assert load_recipe(again) == recipe


def test_photos_are_calibrated_and_digits_are_trained_by_default():
    assert load_recipe(default_recipe("folder")).regime == "calibrated"
    assert load_recipe(default_recipe("voc")).regime == "calibrated"
    assert load_recipe(default_recipe(None)).regime == "calibrated"
    assert load_recipe(default_recipe("digits")).regime == "scratch"
    assert load_recipe(default_recipe("digits")) == load_recipe(default_recipe("mnist"))


# --- changes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "key", "value"),
    [
        ("epochs=20", "epochs", 20),
        ("learning_rate=1e-3", "learning_rate", 1e-3),
        ("prior=null", "prior", None),
        ("prior=0.6", "prior", 0.6),
        ("synthesis=mean", "synthesis", "mean"),
        ("backbone=timm:resnet10t", "backbone", "timm:resnet10t"),
        ("backbone_options={stem: cifar}", "backbone_options", {"stem": "cifar"}),
        ("backbone_options.width=64", "backbone_options", {"width": 64}),
        ("calibration.power=2", "calibration", Calibration(power=2)),
        ("views={flip: 0}", "views", Augmentation(flip=0)),
        (" size =32", "size", 32),
    ],
)
def test_a_change_has_a_key_and_a_typed_value(change, key, value):
    assert getattr(load_recipe("digits", [change]), key) == value


def test_a_change_inside_keeps_what_is_beside_it():
    before, after = load_recipe("digits"), load_recipe("digits", ["views.crop_scale=[0.8, 1]", "views.blur=0.1"])
    assert after.views == replace(before.views, crop_scale=(0.8, 1), blur=0.1)
    assert after.view_settings(28).crop_scale == (0.8, 1.0)


def test_the_last_change_counts():
    assert load_recipe("digits", ["epochs=3", "epochs=4"]).epochs == 4


def test_a_change_of_one_recipe_leaves_the_next_alone():
    load_recipe("digits", ["views.flip=1", "backbone_options.width=8"])
    assert load_recipe("digits").views.flip == 0
    assert make_recipe({}).backbone_options == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("epoch=3", 'unknown key "epoch"; did you mean "epochs"?'),
        ("lerning_rate=3", 'unknown key "lerning_rate"; did you mean "learning_rate"?'),
        ("calibration.pover=3", 'unknown key "calibration.pover"; did you mean "calibration.power"?'),
        ("views.flipp=1", 'unknown key "views.flipp"; did you mean "views.flip"?'),
        ("zzz=1", 'unknown key "zzz" (choose from regime, backbone, '),
        ("epochs", '"epochs" is not of the form key=value, for example epochs=20'),
        ("=3", '"=3" is not of the form key=value'),
        ("epochs=[", 'the value in "epochs=[" cannot be read'),
        ("epochs=2024-13-45", 'the value in "epochs=2024-13-45" cannot be read'),
        ("epochs=many", "epochs: Input should be a valid integer"),
        ("epochs=0", "epochs: Input should be greater than or equal to 1, got 0"),
        ("epochs=1.5", "epochs: "),
        ("epochs.a=1", '"epochs" in "epochs.a=1" has no keys inside'),
        ("regime=magic", "regime: Input should be 'scratch', 'frozen' or 'calibrated', got 'magic'"),
        ("synthesis=xor", 'unknown synthesis "xor" (choose from vanilla, mean, maximum, logic)'),
        ("views.crop_scale=2", "views.crop_scale: Input should be a valid tuple, got 2"),
        (
            "views.flip=often",
            "views.flip: Input should be a valid number, unable to parse string as a number, got 'often'",
        ),
        ("views.flip=2", "views.flip: Input should be less than or equal to 1, got 2"),
        ("views.size=32", 'unknown key "views.size"'),
        ("learning_rate=.inf", "learning_rate: Input should be a finite number"),
        ("prior=.nan", "prior: Input should be a finite number"),
    ],
)
def test_a_wrong_change_is_one_line_that_says_what_is_right(change, message):
    with pytest.raises(RecipeError) as error:
        load_recipe("digits", [change])
    assert message in str(error.value)
    assert "\n" not in str(error.value)


KEYS = [*Recipe.model_fields, *(f"calibration.{key}" for key in Calibration.model_fields), "views.flip", "views.size"]
KEYS += ["views.crop_scale", "backbone_options.width"]


@given(
    st.sampled_from(KEYS) | st.text(max_size=8),
    st.text(max_size=12) | st.floats().map(str) | st.integers().map(str) | st.sampled_from(["null", "[]", "{}", "yes"]),
)
def test_any_change_gives_a_recipe_or_a_recipe_error(key, value):
    try:
        recipe = load_recipe("photos", [f"{key}={value}"])
    except RecipeError:
        return
    assert make_recipe(recipe.model_dump(mode="json")) == recipe


@given(st.floats(0, 1), st.integers(1, 10**6), st.floats(1e-9, 1e3))
def test_numbers_arrive_as_they_were_written(alpha, epochs, rate):
    recipe = load_recipe("photos", [f"alpha={alpha!r}", f"epochs={epochs}", f"learning_rate={rate!r}"])
    assert (recipe.alpha, recipe.epochs, recipe.learning_rate) == (alpha, epochs, rate)


def test_the_learning_rate_is_scaled_with_the_batch_on_request():
    assert load_recipe("imagenet100-paper", ["batch_size=256"]).peak_learning_rate == 0.027
    scaled = load_recipe("imagenet100-paper", ["batch_size=256", "lr_reference_batch=32"])
    assert math.isclose(scaled.peak_learning_rate, 0.027 * 8)


# --- files ----------------------------------------------------------------------------------------------------------


def test_a_file_of_ones_own_is_a_recipe(tmp_path):
    recipe = load_recipe(write(tmp_path / "mine.yaml", "backbone: conv5\nepochs: 3\n"), ["seed=7"])
    assert (recipe.backbone, recipe.epochs, recipe.seed, recipe.num_features) == ("conv5", 3, 7, 512)


def test_a_path_is_a_file_whatever_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "digits", "epochs: 3\n")
    assert load_recipe(Path("digits")).epochs == 3
    assert load_recipe("digits").epochs == 20


def test_what_views_say_is_written_as_it_was_in_0_1():
    views = {"crop_scale": [0.5, 1.0], "flip": 0, "blur": 0}
    recipe = make_recipe({"views": views})
    assert recipe.model_dump(mode="json")["views"] == views
    assert make_recipe({"views": {}}).model_dump(mode="json")["views"] == {}


def test_an_empty_file_is_the_papers_recipe(tmp_path):
    assert load_recipe(write(tmp_path / "empty.yaml", "# nothing\n")) == Recipe()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [", "is not YAML: "),
        ("- 1\n- 2\n", "must have lines `key: value`, got a list"),
        ("just words", "must have lines `key: value`, got a str"),
        ("epohcs: 3", 'unknown key "epohcs"; did you mean "epochs"?'),
        ("when: 2024-13-45", "is not YAML: "),
    ],
)
def test_a_file_that_is_no_recipe_says_why(content, message, tmp_path):
    with pytest.raises(RecipeError) as error:
        load_recipe(write(tmp_path / "mine.yaml", content))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_cannot_be_read_says_why(tmp_path):
    with pytest.raises(RecipeError, match=r"cannot read the recipe .*none.yaml: No such file"):
        load_recipe(str(tmp_path / "none.yaml"))
    (tmp_path / "noise.yaml").write_bytes(b"\xff\xfe\x00\xd8")
    with pytest.raises(RecipeError, match="not a text file"):
        load_recipe(str(tmp_path / "noise.yaml"))


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(RecipeError, match='unknown recipe "mnist-papper"; did you mean "mnist-paper"'):
        load_recipe("mnist-papper")
    with pytest.raises(RecipeError, match=r'unknown recipe "qqq" \(choose from cifar10-paper, digits, '):
        load_recipe("qqq")


def test_settings_can_be_changed_by_keyword():
    recipe = load_recipe("photos", seed=3, calibration={"levels": 17})
    assert (recipe.seed, recipe.calibration.levels, recipe.calibration.power) == (3, 17, 4)
    assert load_recipe("digits", epochs=1) == load_recipe("digits", ["epochs=1"])
    with pytest.raises(RecipeError, match='unknown key "epoch"; did you mean "epochs"'):
        load_recipe("digits", epoch=1)
