"""`andornot reproduce`: each experiment from end to end on tiny data, killed and going on, and mistakes."""

import html
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file

from andornot.commands.main import main
from andornot.data import ImageSet, open_images, source_of
from andornot.errors import EvaluationError
from andornot.evaluate.experiments import retrieval_report
from andornot.evaluate.experiments.config import RetrievalConfig
from andornot.evaluate.experiments.degrees import compute_activations
from andornot.evaluate.experiments.operators import CANDIDATES, CONDITIONS, OPERATORS, PAPER, Operator
from andornot.evaluate.experiments.sets import attribution
from andornot.evaluate.metrics.intervals import paired_difference
from andornot.evaluate.report.writing import REPORT, RESULT
from andornot.model import DESCRIPTION, WEIGHTS, Model
from andornot.pretraining import pretrain
from andornot.reproduce import EXPERIMENTS, plan, representations, reproduce
from andornot.reproduce.paper import METHODS, UNTRAINED, paper_result
from andornot.reproduce.plan import SETTINGS, SPARSE, ExperimentPlan, Workspace, label, make_plan
from andornot.reproduce.tables import truth_value_shapes
from andornot.ssl.recipe import Recipe, make_recipe
from andornot.ssl.training import CHECKPOINT

SMALL = {
    "backbone": "conv5",
    "backbone_options.width": 8,
    "size": 32,
    "num_features": 4,
    "num_values": 4,
    "predictor_hidden": 8,
    "batch_size": 8,
    "epochs": 1,
}
# Two images of a class and pair, and so four combinations.
PROTOCOL = RetrievalConfig(images_per_class=2, top=5, gallery=None, min_per_class=3, min_per_pair=1)
SCENES = "scenes:?count=60&size=32&classes=dog+sun+ball"

# Seven steps of training predict nothing yet, and say so.
pytestmark = pytest.mark.filterwarnings("ignore:collapsed:UserWarning")


def settings(**changes: object) -> list[str]:
    return [f"{key}={json.dumps(value)}" for key, value in {**SMALL, **changes}.items()]


def small_calibrated(_: ExperimentPlan) -> Recipe:
    """In the place of an EfficientNet at 224 pixels."""
    return make_recipe({"regime": "calibrated", "backbone": "conv5", "backbone_options": {"width": 8}, "size": 32})


def make_small(patch: pytest.MonkeyPatch) -> None:
    for key in representations.CONFIGS:
        patch.setitem(representations.CONFIGS, key, PROTOCOL)
    patch.setattr(ExperimentPlan, "calibrated", small_calibrated)


def draw_nothing(patch: pytest.MonkeyPatch) -> None:
    """Charts take longer than all the rest."""
    for name in ("draw_rates", "draw_both_rates", "draw_search"):
        patch.setattr(retrieval_report, name, lambda *_, **__: Figure((1, 1)))


@pytest.fixture
def small(monkeypatch) -> None:
    make_small(monkeypatch)


@pytest.fixture
def undrawn(monkeypatch) -> None:
    make_small(monkeypatch)
    draw_nothing(monkeypatch)


@pytest.fixture(scope="session")
def digits(tmp_path_factory) -> str:
    """Three digits, a folder each, of 16 images to train on and 8 to test with."""
    folder = tmp_path_factory.mktemp("digits")
    for split, count in (("train", 16), ("test", 8)):
        images = open_images("digits", split=split)
        for digit in range(3):
            (folder / split / str(digit)).mkdir(parents=True)
            for number in images.labels[:, digit].nonzero().flatten()[:count].tolist():
                Image.fromarray(images.images[number][0].numpy()).save(folder / split / str(digit) / f"{number}.png")
    return f"imagefolder:{folder}"


def files_in(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def read(folder: Path) -> dict[str, object]:
    return json.loads((folder / RESULT).read_text())


# From end to end


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_each_experiment_writes_a_result_and_a_report(experiment, digits, tmp_path):
    data = digits if EXPERIMENTS[experiment].data == "digits" else SCENES
    outcome = reproduce(experiment, tmp_path, data=data, seeds=1, changes=settings(), command="andornot reproduce …")
    result = read(tmp_path)
    assert result["title"] == outcome.title
    page = html.unescape((tmp_path / REPORT).read_text())
    assert all(paragraph in page for paragraph in result["summary"].split("\n\n"))
    assert result["seconds"] > 0
    assert {"andornot", "torch", "numpy", "python"} <= result["versions"].keys()
    assert result["settings"]["command"] == "andornot reproduce …"
    assert result["settings"]["data"] == data
    assert result["settings"]["recipe"]["epochs"] == 1
    assert result["protocol"]
    assert result["metrics"]
    assert not list(tmp_path.rglob("*.partial"))
    assert not list(tmp_path.rglob(CHECKPOINT))


@pytest.mark.slow
def test_scenes_retrieval_with_the_real_backbone(tmp_path, monkeypatch):
    """As it comes with the package, but for the number of images, views and epochs."""
    monkeypatch.setitem(representations.CONFIGS, ("scenes-retrieval", "small"), PROTOCOL)
    data = "scenes:?count=24&classes=dog+sun"
    reproduce("scenes-retrieval", tmp_path, data=data, changes=["epochs=1", "cached_views=2", "batch_size=8"])
    names = [*METHODS, SPARSE, UNTRAINED, representations.CALIBRATED]
    assert list(read(tmp_path)["metrics"]) == names
    model = Model.load(tmp_path / "models" / "calibrated-backbone-0")
    assert (model.backbone.name, model.num_features) == ("efficientnet-lite0", 1280)


@pytest.fixture(scope="module")
def retrieved(digits, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("retrieved")
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        draw_nothing(patch)
        reproduce("mnist-retrieval", folder, data=digits, changes=settings())
    return folder


def test_retrieval_has_the_rows_of_each_method_and_names_its_protocol(retrieved):
    result = read(retrieved)
    assert list(result["metrics"]) == ["vanilla", "mean", "maximum", "logic", "logic, sparse prior", "untrained"]
    paper = {(row["query"], row["operator"]) for row in result["metrics"]["vanilla"]}
    ours = {(row["query"], row["operator"]) for row in result["metrics"]["logic"]}
    assert ours - paper == {(other.query, other.name) for other in (*CANDIDATES, *CONDITIONS)}
    assert ours >= {(operator.query, operator.name) for operator in OPERATORS}
    protocol = result["protocol"]
    assert (protocol["classes"], protocol["ordered pairs of classes"]) == (["0", "1", "2"], 6)
    assert (protocol["images in the gallery"], protocol["combinations of a pair, at most"]) == (48, 4)


def test_retrieval_trains_each_method_by_the_recipe_without_and_one_with_a_prior(retrieved):
    names = (*METHODS, "logic-sparse-prior")
    found = {name: Model.load(retrieved / "models" / f"{name}-0").recipe for name in names}
    assert {name: recipe.synthesis for name, recipe in found.items()} == {
        **{method: method for method in METHODS},
        "logic-sparse-prior": "logic",
    }
    assert [recipe.prior for recipe in found.values()] == [None] * 4 + [0.3]


# Killed, and going on


def _in_child(arguments: Sequence[str], output: str) -> None:
    for number in (1, 2):
        os.dup2(os.open(f"{output}.{number}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        draw_nothing(patch)
        sys.exit(main(arguments))


class Command:
    """`andornot …` in a process of its own, that can be killed. Forked off one that has its imports behind it."""

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["andornot.reproduce", "lightning.fabric", "matplotlib.figure", "pytest"])

    def __init__(self, arguments: Sequence[str], output: Path) -> None:
        self.output = output
        self.process = self.context.Process(target=_in_child, args=(arguments, str(output)))
        self.process.start()

    def killed_when(self, reached: Callable[[str], bool]) -> str:
        """Kills it at that moment, which is told by what it has said; what it said."""
        deadline = time.monotonic() + 60
        while not reached(self.said()):
            assert self.process.is_alive(), self.said()
            assert time.monotonic() < deadline
            time.sleep(0.0005)
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join(60)
        assert self.process.exitcode == -signal.SIGKILL
        return self.said()

    def said(self) -> str:
        file = Path(f"{self.output}.2")
        return file.read_text() if file.exists() else ""


def step_of(folder: Path) -> int:
    try:
        with safe_open(folder / CHECKPOINT, framework="pt") as file:
            return int(file.metadata()["step"])
    except (SafetensorError, OSError):
        return 0


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_a_killed_experiment_goes_on_and_nothing_finished_is_done_again(digits, tmp_path):
    folder, models, undisturbed = tmp_path / "out", tmp_path / "out" / "models", tmp_path / "undisturbed"
    changes = settings(epochs=4, checkpoint_seconds=0)
    reproduce("mnist-retrieval", undisturbed, data=digits, changes=changes)
    arguments = ["reproduce", "mnist-retrieval", "--data", digits, "-o", str(folder)]
    arguments += [f"--set={change}" for change in changes]
    moments = {
        "during a training": lambda _: step_of(models / "vanilla-0") >= 5,
        "in the middle of measuring": lambda said: "mean-0: measuring" in said,
        "during a later training": lambda _: step_of(models / "logic-sparse-prior-0") >= 9,
    }
    kept: dict[str, tuple[bytes, int]] = {}
    for number, reached in enumerate(moments.values()):
        said = Command(arguments, tmp_path / f"said{number}").killed_when(reached)
        assert not (folder / RESULT).exists()
        now = files_in(folder)
        finished = {
            name: content
            for name, content in now.items()
            if name.startswith("steps/") or ((folder / name).parent / DESCRIPTION).exists()
        }
        assert {name: now[name] for name in kept} == kept, "what was finished is as it was"
        assert not any(f"{Path(name).parent.name}: pretraining" in said for name in kept if name.endswith(WEIGHTS))
        assert not any(f"{Path(name).stem}: measuring" in said for name in kept if name.startswith("steps/"))
        kept = finished
    assert {Path(name).parts[1] for name in kept} == {
        *(f"{method}-0" for method in METHODS), *(f"{method}-0.json" for method in METHODS),
    }  # fmt: skip
    last = Command(arguments, tmp_path / "last")
    last.process.join(300)
    assert last.process.exitcode == 0, last.said()
    done = [line for line in last.said().splitlines() if line.endswith((" on 48 images", ": measuring"))]
    left = ("logic-sparse-prior-0", "untrained-0")
    assert done == [f"{name}: {what}" for name in left for what in ("pretraining on 48 images", "measuring")]
    for name in (*METHODS, "logic-sparse-prior", "untrained"):
        mine, theirs = (load_file(root / "models" / f"{name}-0" / WEIGHTS) for root in (folder, undisturbed))
        assert all(torch.equal(mine[key], theirs[key]) for key in theirs), name
    assert read(folder)["metrics"] == read(undisturbed)["metrics"], "as if nobody had disturbed it"


@pytest.mark.usefixtures("undrawn")
def test_a_finished_experiment_is_reported_again_without_any_work(retrieved, digits, capsys):
    before = files_in(retrieved)
    metrics = read(retrieved)["metrics"]
    reproduce("mnist-retrieval", retrieved, data=digits, changes=settings())
    said = capsys.readouterr().err
    assert "pretraining" not in said
    assert "measuring" not in said
    after = files_in(retrieved)
    assert read(retrieved)["metrics"] == metrics
    for name in before.keys() - {RESULT, REPORT}:
        if not name.startswith("export/"):  # written with the report
            assert after[name] == before[name], name


@pytest.mark.usefixtures("undrawn")
def test_an_operator_of_ones_own_is_measured_in_every_model_and_the_models_stay(retrieved, digits, capsys):
    before = files_in(retrieved / "models")
    mine = Operator("ab&~b", "my own", "degrees", lambda x: x.ab * (1 - x.b / 2))
    outcome = reproduce("mnist-retrieval", retrieved, data=digits, changes=settings(), operators=[*PAPER, mine])
    for rows in outcome.metrics.values():
        assert {row["operator"] for row in rows} == {"", "Gödel", "Gödel, exact", "my own"}
    said = [line for line in capsys.readouterr().err.splitlines() if line.endswith(": measuring")]
    assert said == [f"{label(name)}-0: measuring" for name in (*METHODS, SPARSE, UNTRAINED)]
    assert files_in(retrieved / "models") == before


def test_operators_are_compared_beside_the_papers_and_in_retrieval_only(tmp_path):
    with pytest.raises(EvaluationError, match=r"pass \[\*PAPER, mine\]"):
        reproduce("mnist-retrieval", tmp_path, operators=PAPER[:2])
    with pytest.raises(EvaluationError, match="classification is not one"):
        reproduce("classification", tmp_path, operators=PAPER)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("more", [["--set=epochs=9"], ["--scale=paper"], ["--pretrain-data=digits"]])
def test_other_settings_in_the_same_folder_are_refused_and_nothing_is_lost(more, retrieved, digits, capsys):
    before = files_in(retrieved)
    arguments = ["reproduce", "mnist-retrieval", "--data", digits, "-o", str(retrieved)]
    arguments += [f"--set={change}" for change in settings()]
    assert main([*arguments, *more]) == 2
    told = f"andornot: {retrieved} has an experiment with other settings (see settings.json): choose another -o\n"
    assert capsys.readouterr().err == told
    assert files_in(retrieved) == before


@pytest.mark.usefixtures("small")
def test_after_a_mistake_the_same_folder_may_be_used(digits, tmp_path, capsys):
    folder = tmp_path / "out"
    arguments = ["reproduce", "classification", "--seeds=1", "-o", str(folder)]
    arguments += [f"--set={change}" for change in settings()]
    assert main([*arguments, "--data=imagefolder:/nowhere"]) == 2
    assert main([*arguments, f"--data={digits}", "--set=batch_size=2", "--set=accumulate=2"]) == 2
    assert "too few to train on" in capsys.readouterr().err
    assert not (folder / "models").exists()
    assert main([*arguments, f"--data={digits}"]) == 0
    assert (folder / RESULT).exists()


# The tables


@pytest.fixture(scope="module")
def classified(digits, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("classified")
    reproduce("classification", folder, data=digits, seeds=2, changes=settings())
    return folder


def test_classification_has_mean_and_deviation_over_seeds_of_all_methods(classified):
    metrics = read(classified)["metrics"]
    assert tuple(metrics) == (*METHODS, SPARSE, UNTRAINED)
    for found in metrics.values():
        first, second = found["runs"]
        assert found["mean"] == pytest.approx((first + second) / 2)
        assert found["std"] == pytest.approx(abs(first - second) / 2**0.5)
    protocol = read(classified)["protocol"]
    assert protocol["images"] == {"training": 48, "test": 24}


def test_each_run_has_a_model_of_its_own_seed(classified):
    found = {path.parent.name: Model.load(path.parent).recipe for path in classified.glob(f"models/*/{DESCRIPTION}")}
    assert sorted(found) == sorted(f"{label(name)}-{seed}" for name in (*METHODS, SPARSE, UNTRAINED) for seed in (0, 1))
    assert {name: recipe.seed for name, recipe in found.items()} == {name: int(name[-1]) for name in found}
    assert {name for name, recipe in found.items() if recipe.prior} == {"logic-sparse-prior-0", "logic-sparse-prior-1"}


def test_methods_are_compared_with_logic_run_by_run(classified):
    metrics = read(classified)["metrics"]
    page = html.unescape((classified / REPORT).read_text())
    assert "Compared with logic" in page
    for name in ("vanilla", "mean", "maximum", SPARSE, UNTRAINED):
        pairs = list(zip(metrics[name]["runs"], metrics["logic"]["runs"], strict=True))
        found = paired_difference(pairs)
        assert f"{found.value:z.3f} ({found.low:z.3f} to {found.high:z.3f})" in page


# Seeds


@pytest.mark.usefixtures("undrawn")
def test_some_models_may_have_more_runs_than_others_and_more_may_be_added(digits, tmp_path, capsys):
    seeds = ["0", "logic=2"]
    first = reproduce("mnist-retrieval", tmp_path, data=digits, seeds=seeds, changes=settings())
    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == ["logic-0", "logic-1"]
    assert [len(row["runs"]) for row in first.metrics["logic"]] == [2] * len(first.metrics["logic"])
    spread = [t for s in first.sections for t in s.content if "training seeds" in getattr(t, "caption", "")]
    assert "logic 2 runs" in spread[0].caption
    capsys.readouterr()
    outcome = reproduce("mnist-retrieval", tmp_path, data=digits, seeds=["1", "logic=2"], changes=settings())
    assert list(outcome.metrics) == [*METHODS, SPARSE, UNTRAINED]
    assert "logic-1: " not in capsys.readouterr().err, "what was there is used again"
    assert outcome.metrics["logic"] == first.metrics["logic"]
    assert read(tmp_path)["settings"]["seeds"] == {"each": 1, "logic": 2}
    assert read(tmp_path)["protocol"]["runs"]["logic"] == 2


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        (["many"], "--seeds many: expected a number of runs, as in --seeds 3 or --seeds logic=3"),
        (["0", "logic=0"], "--seeds 0 logic=0: at least one run is needed"),
        (["-1"], "--seeds -1: expected a number"),
        (["dance=2"], "--seeds dance=2: no such model .choose from vanilla, mean, maximum, logic, logic-sparse-prior."),
    ],
)
@pytest.mark.usefixtures("undrawn")
def test_seeds_that_cannot_be_are_refused(seeds, message, digits, tmp_path):
    with pytest.raises(EvaluationError, match=message):
        reproduce("mnist-retrieval", tmp_path, data=digits, seeds=seeds, changes=settings())
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize("left", ["", '{"data": "dig', "[]x", "3"])
def test_a_folder_whose_settings_are_damaged_says_so(left, tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / SETTINGS).write_text(left)
    with pytest.raises(EvaluationError, match=f"{SETTINGS} is damaged: choose"):
        Workspace(tmp_path, {"data": "digits"})


@pytest.mark.parametrize("left", ["", '{"depends": {', "[]", "null", '{"result": 1}', '{"depends": {"a": 1}}'])
def test_a_step_that_is_no_step_is_measured(left, tmp_path, capsys):
    (tmp_path / "steps").mkdir()
    (tmp_path / "steps" / "one.json").write_text(left)
    workspace = Workspace(tmp_path, {})
    for _ in range(2):
        assert workspace.step("one", {"a": 1}, lambda: 5) == 5
    assert capsys.readouterr().err == "one: measuring\n"


def test_a_damaged_step_is_measured_again(classified, digits, capsys):
    file = classified / "steps" / "linear-mean-1.json"
    whole = file.read_text()
    file.write_text(whole[:50])
    reproduce("classification", classified, data=digits, seeds=2, changes=settings())
    said = [line for line in capsys.readouterr().err.splitlines() if line.endswith(": measuring")]
    assert said == ["linear-mean-1: measuring"]
    assert file.read_text() == whole


def test_a_model_of_another_recipe_is_not_taken(digits, tmp_path):
    images, recipe = (
        open_images(digits, split="train"),
        make_plan("classification", digits, None, "small", 1, settings(), {}),
    )
    pretrain(images, tmp_path / "models" / "vanilla-0", recipe.recipe({"seed": 7}), say=lambda _: None)
    with pytest.raises(EvaluationError, match="vanilla-0 has a model of another recipe: remove it, or choose"):
        reproduce("classification", tmp_path, data=digits, seeds=1, changes=settings())


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_the_ablation_goes_over_truth_values_alpha_and_beta(digits, tmp_path):
    """With N·M = 32 the recipe's own N = 4 and M = 8 is the middle of all three: it is trained once."""
    outcome = reproduce("ablation", tmp_path, data=digits, seeds=1, changes=settings(num_values=8))
    assert [list(group) for group in outcome.metrics.values()] == [
        ["N = 16, M = 2", "N = 8, M = 4", "N = 4, M = 8", "N = 2, M = 16", "N = 1, M = 32"],
        ["α = 0.25", "α = 0.5", "α = 0.75"],
        ["β = 0.3", "β = 0.6", "β = 0.9"],
    ]
    middle = [
        group[name]
        for group, name in zip(outcome.metrics.values(), ("N = 4, M = 8", "α = 0.5", "β = 0.6"), strict=True)
    ]
    assert middle[0] == middle[1] == middle[2]
    assert len(list((tmp_path / "models").iterdir())) == 9


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_the_lower_half_of_table_2_has_the_shapes_of_the_paper(scale):
    """Of heads on a frozen backbone, too, or none of its metrics would stand beside ours."""
    plan = make_plan("multilabel-ablation", "voc:/data/VOCdevkit", None, scale, None, [], {})
    shapes = truth_value_shapes(plan)
    assert len(shapes) == 5
    assert all(paper_result("voc", name) for name in shapes)
    assert shapes["N = 512, M = 8"].items() <= plan.recipe({}).model_dump().items()


def test_the_papers_figures_stand_beside_ours_where_it_has_some():
    assert paper_result("cifar10", "logic").mean == pytest.approx(0.9128)
    assert paper_result("imagenet100", "N = 128, M = 32").std == pytest.approx(0.0038)
    assert paper_result("voc", "maximum").mean == pytest.approx(0.6119)
    assert paper_result("voc", "N = 128, M = 32").mean == pytest.approx(0.6185)
    assert paper_result("coco", "N = 2048, M = 2").std == pytest.approx(0.0089)
    assert paper_result("digits", "logic") is paper_result("voc", "β = 0.6") is None


# Plans


@pytest.mark.parametrize(
    ("experiment", "data", "scale", "recipe"),
    [
        ("mnist-retrieval", None, "small", "digits"),
        ("mnist-retrieval", "mnist", "small", "mnist"),
        ("mnist-retrieval", "mnist", "paper", "mnist-paper"),
        ("classification", "cifar10", "small", "thumbnails"),
        ("classification", "cifar10", "paper", "cifar10-paper"),
        ("classification", "imagenet100", "paper", "imagenet100-paper"),
        ("scenes-retrieval", None, "small", "photos-frozen"),
        ("voc-retrieval", "voc", "paper", "voc-paper"),
    ],
)
def test_the_recipe_follows_from_the_experiment_its_data_and_its_scale(experiment, data, scale, recipe):
    plan = make_plan(experiment, data, None, scale, None, [], {})
    assert plan.recipe_name == recipe
    assert plan.recipe({}).prior is None, "the paper has none"


def test_a_folder_is_judged_by_what_lies_in_it_and_not_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("mnist", "voc", "scenes-from-rome"):
        Path(name).mkdir()
        Image.new("RGB", (8, 8)).save(Path(name, "a.png"))
    Path("numbers").mkdir()
    Path("numbers", "train-images-idx3-ubyte").touch()
    assert make_plan("classification", "mnist", None, "paper", 1, [], {}).recipe_name == "cifar10-paper"
    assert make_plan("classification", "numbers", None, "paper", 1, [], {}).recipe_name == "mnist-paper"
    assert paper_result(source_of("voc"), "logic") is paper_result(source_of("./voc"), "logic") is None
    assert attribution("scenes-from-rome") == attribution("./scenes-from-rome") == {}
    assert "Twemoji" in attribution("scenes:?count=3")["images"]


def test_what_the_user_sets_wins_over_the_recipe():
    plan = make_plan("mnist-retrieval", None, None, "small", None, ["prior=0.7", "epochs=3"], {})
    assert (plan.recipe({}).prior, plan.recipe({}).epochs) == (0.7, 3)
    assert plan.recipe({"prior": 0.3}).prior == 0.3


def test_the_papers_numbers_are_those_of_the_protocol():
    paper = representations.CONFIGS["voc-retrieval", "paper"]
    assert (paper.images_per_class, paper.top, paper.gallery, paper.min_per_class) == (30, 50, 200, 200)
    for scale in ("small", "paper"):
        assert representations.CONFIGS["mnist-retrieval", scale] == RetrievalConfig()


def test_plans_that_cannot_be_are_refused(tmp_path):
    with pytest.raises(EvaluationError, match=r'unknown experiment "dance" \(choose from classification, multilabel'):
        reproduce("dance", tmp_path / "out")
    with pytest.raises(EvaluationError, match="voc-retrieval needs images that are not embedded: pass --data voc:PATH"):
        reproduce("voc-retrieval", tmp_path / "out")
    with pytest.raises(EvaluationError, match="--seeds 0: at least one run is needed"):
        reproduce("classification", tmp_path / "out", seeds=0)
    assert not (tmp_path / "out").exists()


# The folder


def frozen(**changes: object) -> Recipe:
    base = {"backbone": "conv5", "backbone_options": {"width": 8}, "size": 32, "num_features": 4, "num_values": 4}
    return make_recipe({**base, "regime": "frozen", "cached_views": 2, "batch_size": 8, "epochs": 1, **changes})


@pytest.fixture
def images(digits) -> ImageSet:
    return open_images(digits, split="test")


def test_features_of_views_are_computed_once_for_all_methods(images, tmp_path, monkeypatch):
    computed = []
    original = plan.view_activations
    monkeypatch.setattr(plan, "view_activations", lambda *args: computed.append(args) or original(*args))
    folder = Workspace(tmp_path, {})
    for method in METHODS:
        folder.model(method, images, frozen(synthesis=method))
    assert len(computed) == 1
    Workspace(tmp_path, {}).model("after a stop", images, frozen(synthesis="vanilla"))
    assert len(computed) == 1
    folder.model("again", images, frozen(synthesis="logic", seed=1))
    assert len(computed) == 2, "another seed has other views, and here another backbone"
    folder.model("cut elsewhere", images, frozen(crop_source="original"))
    assert len(computed) == 3, "views of the whole image are others than those of its center"
    for file in (tmp_path / "features").iterdir():
        file.write_bytes(file.read_bytes()[:99])
    Workspace(tmp_path, {}).model("after damage", images, frozen(beta=0.2))
    assert len(computed) == 4


@pytest.mark.parametrize("seed", [0, 1])
def test_a_model_of_shared_features_is_the_one_that_pretrain_makes(seed, images, tmp_path):
    folder = Workspace(tmp_path / "out", {})
    folder.model("first", images, frozen(synthesis="vanilla"))
    shared = folder.model("second", images, frozen(seed=seed))
    alone = pretrain(images, tmp_path / "alone", frozen(seed=seed), say=lambda _: None)
    assert shared.id == alone.id


def test_queries_that_are_held_out_are_not_trained_on(tmp_path, monkeypatch):
    """With one split the models see neither the images of a class nor those of a pair that are asked with."""
    make_small(monkeypatch)
    seen = {}

    def note(_: Workspace, name: str, images: ImageSet, __: Recipe) -> Model:
        seen[name] = images
        raise KeyboardInterrupt

    monkeypatch.setattr(Workspace, "model", note)
    with pytest.raises(KeyboardInterrupt):
        reproduce("scenes-retrieval", tmp_path, data=f"{SCENES}&split=train", changes=settings())
    images = open_images(f"{SCENES}&split=train")
    task = representations.choose_images(images, None, PROTOCOL)
    asked = {name for part in (*task.singles.values(), *task.pairs.values()) for name in part.names}
    assert asked
    assert sorted({*seen["vanilla-0"].names} | asked) == sorted(images.names)
    assert not asked & {*seen["vanilla-0"].names}


def test_numbers_of_the_protocol_are_for_retrieval_only():
    plan = make_plan("scenes-retrieval", None, None, "small", None, [], {"top": 7, "gallery": 0})
    assert plan.settings()["retrieval"] == {"top": 7, "gallery": 0}
    with pytest.raises(EvaluationError, match="--top is for retrieval experiments"):
        make_plan("ablation", None, None, "small", None, [], {"top": 7})
    with pytest.raises(EvaluationError, match="--gallery-images is for retrieval experiments"):
        make_plan("ablation", None, None, "small", None, [], {"gallery": 0})


def test_the_folder_keeps_its_settings(tmp_path, images):
    assert not (tmp_path / SETTINGS).exists()
    Workspace(tmp_path, {"data": "digits"}).model("one", images, frozen())
    assert json.loads((tmp_path / SETTINGS).read_text()) == {"data": "digits"}
    with pytest.raises(EvaluationError, match="has an experiment with other settings"):
        Workspace(tmp_path, {"data": "mnist"})


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_heads_on_a_frozen_backbone_are_compared_by_their_degrees_and_the_calibrated_one_both_ways(tmp_path):
    changes = settings(regime="frozen", cached_views=2)
    metrics = reproduce("multilabel", tmp_path, data=SCENES, seeds=2, changes=changes).metrics
    pretrained = [f"efficientnet-lite0 from ImageNet, {reads}" for reads in ("backbone", "degrees")]
    assert list(metrics) == [*METHODS, SPARSE, UNTRAINED, *pretrained]
    assert [len(found["runs"]) for found in metrics.values()] == [2] * 6 + [1] * 2
    protocol = read(tmp_path)["protocol"]
    assert protocol["probe_input"] == "degrees"
    assert protocol["splits"] == {"training": "train", "test": "test"}
    alone = reproduce("multilabel", tmp_path / "alone", data=SCENES, seeds=["0", "efficientnet-lite0-from-ImageNet=1"])
    assert list(alone.metrics) == pretrained


def test_at_small_scale_multilabel_classification_trains_heads_on_a_frozen_backbone():
    plan = make_plan("multilabel", None, None, "small", None, [], {})
    assert (plan.recipe_name, plan.recipe({}).regime, plan.seeds.each) == ("photos-frozen", "frozen", 3)
    assert make_plan("multilabel", None, None, "paper", None, [], {}).recipe_name == "imagenet100-paper"
    assert make_plan("classification", None, None, "small", None, [], {}).seeds.each == 5


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_possession_degrees_have_the_papers_model_first_and_a_spread_over_seeds(tmp_path, monkeypatch):
    looks = []
    monkeypatch.setattr(
        representations, "compute_activations", lambda *given: looks.append(given) or compute_activations(*given)
    )
    outcome = reproduce("degrees", tmp_path, data=SCENES, seeds=2, changes=settings())
    assert len(looks) == 5, "each backbone, which differ in their seeds, is asked once"
    assert list(outcome.metrics) == ["logic", "untrained", "calibrated backbone"]
    assert all(len(found["runs"]) == 2 for found in outcome.metrics.values())
    assert outcome.sections[0].title == "Over seeds"
    names = sorted(path.name for path in (tmp_path / "models").iterdir())
    assert names == ["calibrated-backbone-0", "logic-0", "logic-1", "untrained-0", "untrained-1"]


def test_what_is_set_by_hand_comes_before_what_makes_an_experiment_short() -> None:
    plan = make_plan("multilabel", None, None, "small", None, ["epochs=3"], {})
    assert (plan.recipe({}).epochs, plan.recipe({}).cached_views) == (3, 2)
