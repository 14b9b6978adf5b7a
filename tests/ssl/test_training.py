"""The training loop: its schedule, its order, its log, and that a run can be broken off anywhere and go on."""

import copy
import csv
import math
import signal
import sys
import threading
import warnings
from pathlib import Path

import pytest
import torch
from steps import loss_of_views
from torch import Tensor

from andornot import Representation
from andornot.data import open_images
from andornot.errors import MissingPackageError, Stopped
from andornot.model import new_network
from andornot.progress import lines
from andornot.ssl import monitoring as collapse
from andornot.ssl.batches import Batch, ImageBatches
from andornot.ssl.checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from andornot.ssl.losses import SYNTHESES, SynthesisLoss
from andornot.ssl.network import Network
from andornot.ssl.recipe import Recipe, make_recipe
from andornot.ssl.training import CHECKPOINT, LOG, TrainingError, check_training, train
from andornot.ssl.views import Views, ViewSettings

TINY = {
    "backbone": "conv5",
    "backbone_options": {"width": 8},
    "num_features": 3,
    "num_values": 4,
    "predictor_hidden": 8,
    "epochs": 2,
    "batch_size": 8,
    "learning_rate": 0.1,
    "views": {"crop_scale": [0.5, 1.0], "flip": 0, "jitter": 0, "grey": 0, "blur": 0},
}


def tiny(**changes: object) -> Recipe:
    return make_recipe({**TINY, **changes})


def images(count: int = 20, channels: int = 1) -> Tensor:
    return torch.randint(256, (count, channels, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


class BrokenOffError(Exception):
    """What ends a run in these tests."""


class Watched(ImageBatches):
    """Batches that note which images a step takes, and can act before one."""

    def __init__(self, pixels: Tensor, before=lambda _: None, spoil=lambda _, batch: batch) -> None:
        super().__init__(pixels, Views(ViewSettings.digits()))
        self.before, self.spoil, self.seen = before, spoil, []

    def load(self, indices: Tensor, generator: torch.Generator, device: torch.device) -> Batch:
        self.before(len(self.seen))
        batch = super().load(indices, generator, device)
        self.seen.append(indices.tolist())
        return self.spoil(len(self.seen) - 1, batch)


def run(folder: Path, recipe: Recipe | None = None, batches: Watched | None = None, **options) -> Network:
    folder.mkdir(parents=True, exist_ok=True)
    recipe, batches = recipe or tiny(), batches or Watched(images())
    network = new_network(recipe, batches.images.shape[1])
    return train(recipe, network, batches, folder, **{"log_every": 1, **options})


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / LOG).open(newline="") as file:
        return list(csv.DictReader(file))


def same_weights(one: Network, other: Network) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


def break_at(call: int):
    def before(now: int) -> None:
        if now == call:
            raise BrokenOffError

    return before


# --- schedule and order ---------------------------------------------------------------------------------------------


def test_the_learning_rate_falls_as_half_a_cosine(tmp_path):
    run(tmp_path, tiny(epochs=3, learning_rate=0.1, lr_reference_batch=16))
    rates = [float(row["learning_rate"]) for row in rows_of(tmp_path)]
    peak = 0.1 * 8 / 16
    assert rates == pytest.approx([peak * (1 + math.cos(math.pi * step / 6)) / 2 for step in range(6)], rel=1e-5)
    assert rates[0] == peak


def test_an_epoch_takes_every_image_once_and_drops_the_incomplete_batch(tmp_path):
    batches = Watched(images(20))
    run(tmp_path, tiny(epochs=3, batch_size=8), batches)
    assert [len(batch) for batch in batches.seen] == [8, 8] * 3
    for epoch in range(3):
        taken = batches.seen[2 * epoch] + batches.seen[2 * epoch + 1]
        assert len(set(taken)) == 16
        assert set(taken) <= set(range(20))


def test_the_order_differs_by_epoch_and_by_seed_and_is_reproducible(tmp_path):
    orders = {}
    for name, seed in (("one", 0), ("again", 0), ("other", 1)):
        batches = Watched(images(16))
        run(tmp_path / name, tiny(seed=seed), batches)
        orders[name] = batches.seen
    assert orders["one"] == orders["again"]
    assert orders["one"] != orders["other"]
    assert orders["one"][:2] != orders["one"][2:]


def test_the_same_seed_gives_the_same_network_and_another_one_another(tmp_path):
    one, again, other = (run(tmp_path / str(i), tiny(seed=seed)) for i, seed in enumerate((0, 0, 1)))
    assert same_weights(one, again)
    assert not same_weights(one, other)


def test_fewer_images_than_a_batch_are_one_batch(tmp_path):
    batches = Watched(images(5))
    run(tmp_path, tiny(batch_size=8, epochs=2), batches)
    assert [sorted(batch) for batch in batches.seen] == [[0, 1, 2, 3, 4]] * 2


@pytest.mark.parametrize(
    ("count", "changes"), [(1, {}), (3, {"accumulate": 2}), (20, {"batch_size": 4, "accumulate": 3})]
)
def test_too_few_images_are_an_error_with_advice(count, changes, tmp_path):
    with pytest.raises(TrainingError, match=f"^{count} images in batches of .* regime=calibrated needs no training"):
        run(tmp_path, tiny(**changes), Watched(images(count)))
    with pytest.raises(TrainingError, match="too few"):
        check_training(tiny(**changes), count, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_accumulation_steps_once_with_the_mean_gradient_of_the_parts(tmp_path):
    recipe = tiny(epochs=1, batch_size=8, accumulate=2, momentum=0, weight_decay=0, beta=0.3)
    network = new_network(recipe, 1)
    expected = copy.deepcopy(network).train()
    made = []
    batches = Watched(images(8))
    original_views = batches.views

    def note(pixels, generator, shapes):
        made.append(original_views(pixels, generator, shapes))
        return made[-1]

    batches.views = note
    train(recipe, network, batches, tmp_path)

    assert [len(part) for part in batches.seen] == [4, 4]
    loss = SynthesisLoss(beta=0.3, accumulate=2)
    results = [loss_of_views(expected, loss, *made[:2]), loss_of_views(expected, loss, *made[2:])]
    ((results[0].total + results[1].total) / 2).backward()
    for name, parameter in expected.named_parameters():
        stepped = parameter - 0.1 * parameter.grad
        torch.testing.assert_close(network.get_parameter(name), stepped, rtol=1e-4, atol=1e-6)
    saved = load_checkpoint(tmp_path / CHECKPOINT).model["loss.center.center"]
    torch.testing.assert_close(saved, loss.center.center)


# --- the log --------------------------------------------------------------------------------------------------------

FIGURES = ["loss_total", "loss_normal", "loss_mix", "loss_expected_normal", "loss_expected_mix"]
FIGURES += [
    "spread",
    "entropy",
    "usage",
    "dead",
    "effective_rank",
    "effective_rank_features",
    "prediction_spread",
    "learning_rate",
]


def test_the_log_speaks_of_all_parts_of_a_step(tmp_path):
    batches = []

    def note(_, batch):
        batches.append(batch)
        return batch

    recipe = tiny(epochs=1, batch_size=20, accumulate=2, mixup_lambda=0.3, decorrelation=0.5)
    run(tmp_path, recipe, Watched(images(20), spoil=note))
    (row,) = rows_of(tmp_path)
    network = new_network(recipe, 1).train()
    loss = SynthesisLoss(beta=recipe.beta, accumulate=2, mixup_lambda=0.3, decorrelation=0.5)
    parts = [loss_of_views(network, loss, batch.first, batch.second) for batch in batches]
    assert len(parts) == 2
    for name, values in zip(parts[0].losses._fields, zip(*(part.losses for part in parts), strict=True), strict=True):
        assert float(row[f"loss_{name}"]) == pytest.approx((values[0].item() + values[1].item()) / 2, rel=1e-4)
    both = Representation.cat([part.targets[0].representation for part in parts])
    assert float(row["spread"]) == pytest.approx(collapse.measure_health(both).spread, rel=1e-4)


def test_the_log_has_a_line_of_figures_every_few_steps_and_at_the_end(tmp_path):
    run(tmp_path, tiny(epochs=5, batch_size=10), log_every=4)
    rows = rows_of(tmp_path)
    assert list(rows[0]) == ["step", "epoch", *FIGURES]
    assert [(row["step"], row["epoch"]) for row in rows] == [("4", "2.000"), ("8", "4.000"), ("10", "5.000")]
    assert all(math.isfinite(float(value)) for row in rows for value in row.values())


def test_vanilla_has_no_figures_of_mixed_images(tmp_path):
    run(tmp_path, tiny(synthesis="vanilla"))
    assert not [column for column in rows_of(tmp_path)[0] if "mix" in column]


def test_figures_measured_after_an_epoch_are_logged_beside_the_others(tmp_path, capsys):
    seen = []

    def after_epoch(progress):
        seen.append((progress.epoch, progress.epochs))
        progress.network.eval()
        return {"knn": 0.25} if progress.epoch % 2 == 0 else {}

    with lines():
        network = run(tmp_path, tiny(epochs=4, batch_size=20), after_epoch=after_epoch)
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert [row["step"] for row in rows_of(tmp_path) if row["knn"]] == ["2", "4"]
    assert "epoch 2: knn 0.250" in capsys.readouterr().err
    assert network.training, "the callback's eval mode is not the loop's"


def test_a_run_leaves_the_numbers_of_the_process_as_they_were(tmp_path):
    """During the training numbers below 1e-38 are zeros, for speed; before and after they are not."""
    seen = []
    run(tmp_path, batches=Watched(images(), before=lambda _: seen.append(sys.float_info.min / 2)))
    assert seen == [0.0] * 4
    assert sys.float_info.min / 2 > 0


# --- what is watched ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("part", [4, 5])
def test_a_loss_that_is_not_finite_ends_the_run_with_advice(value, part, tmp_path):
    """With two parts a step, parts 4 and 5 are those of the third step."""

    def spoil(call: int, batch: Batch) -> Batch:
        return batch._replace(first=batch.first * value) if call == part else batch

    recipe = tiny(epochs=4, batch_size=10, accumulate=2, checkpoint_seconds=0)
    with pytest.raises(TrainingError, match=r"the loss became .* at step 3 of 8; .* lower learning_rate"):
        run(tmp_path, recipe, Watched(images(), spoil=spoil))
    checkpoint = load_checkpoint(tmp_path / CHECKPOINT)
    assert checkpoint.step == 2
    assert all(tensor.isfinite().all() for tensor in checkpoint.model.values())


def test_a_collapse_is_warned_about_once_with_advice(tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(tmp_path, tiny(epochs=52), Watched(torch.zeros(20, 1, 28, 28, dtype=torch.uint8)))
    messages = [str(warning.message) for warning in caught if "collaps" in str(warning.message)]
    assert len(messages) == 1
    assert "try a lower learning_rate" in messages[0]
    assert float(rows_of(tmp_path)[-1]["dead"]) == 1


def test_predictions_that_say_nothing_are_warned_about_in_a_short_run(tmp_path):
    with pytest.warns(UserWarning, match="collapsed: the model predicts the same degrees for all images"):
        run(tmp_path, tiny(prediction_temperature=1e300))
    assert float(rows_of(tmp_path)[-1]["prediction_spread"]) == 0


def test_a_short_healthy_run_is_left_alone(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(tmp_path, tiny(epochs=1))


# --- broken off, and going on ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    return run(folder, tiny(epochs=3), after_epoch=measured), (folder / LOG).read_bytes()


def measured(progress) -> dict[str, float]:
    return {"odd": progress.epoch / 3} if progress.epoch % 2 else {}


@pytest.mark.parametrize("call", range(6))
def test_a_run_broken_off_at_any_step_ends_bit_identical(call, undisturbed, tmp_path):
    recipe = tiny(epochs=3, checkpoint_seconds=0)
    with pytest.raises(BrokenOffError):
        run(tmp_path, recipe, Watched(images(), before=break_at(call)), after_epoch=measured)
    batches = Watched(images())
    network = run(tmp_path, recipe, batches, resume=True, after_epoch=measured)
    assert len(batches.seen) == 6 - call, "only what was left"
    assert same_weights(network, undisturbed[0])
    assert (tmp_path / LOG).read_bytes() == undisturbed[1]


def test_a_run_broken_off_between_checkpoints_repeats_what_was_lost(undisturbed, tmp_path):
    """Two steps are lost; what they logged is cut off, be it whole or not."""
    with pytest.raises(BrokenOffError):
        run(
            tmp_path,
            tiny(epochs=3, checkpoint_seconds=0),
            Watched(images(), before=break_at(2)),
            after_epoch=measured,
        )
    checkpoint = (tmp_path / CHECKPOINT).read_bytes()
    with pytest.raises(BrokenOffError):
        run(tmp_path, tiny(epochs=3), Watched(images(), before=break_at(2)), resume=True, after_epoch=measured)
    assert (tmp_path / CHECKPOINT).read_bytes() == checkpoint
    assert rows_of(tmp_path)[-1]["step"] == "4"
    with (tmp_path / LOG).open("a") as log:
        log.write("5,2.5")
    network = run(tmp_path, tiny(epochs=3), resume=True, after_epoch=measured)
    assert same_weights(network, undisturbed[0])
    assert (tmp_path / LOG).read_bytes() == undisturbed[1]


def test_a_finished_run_resumed_is_what_it_was(undisturbed, tmp_path):
    run(tmp_path, tiny(epochs=3), after_epoch=measured)
    batches = Watched(images())
    assert same_weights(run(tmp_path, tiny(epochs=3), batches, resume=True, after_epoch=measured), undisturbed[0])
    assert batches.seen == []
    assert (tmp_path / LOG).read_bytes() == undisturbed[1]


def test_resuming_where_nothing_is_starts(undisturbed, tmp_path):
    assert same_weights(run(tmp_path, tiny(epochs=3), resume=True, after_epoch=measured), undisturbed[0])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_after_its_step_with_a_checkpoint(number, undisturbed, tmp_path):
    def before(call: int) -> None:
        if call == 2:
            signal.raise_signal(number)

    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with pytest.raises(Stopped, match="stopped after step 3 of 6, and saved"):
        run(tmp_path, tiny(epochs=3), Watched(images(), before=before), after_epoch=measured)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers
    assert load_checkpoint(tmp_path / CHECKPOINT).step == 3
    assert same_weights(run(tmp_path, tiny(epochs=3), resume=True, after_epoch=measured), undisturbed[0])
    assert (tmp_path / LOG).read_bytes() == undisturbed[1]


def test_a_second_ctrl_c_does_not_wait_for_the_step(tmp_path):
    def before(call: int) -> None:
        if call == 2:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    batches = Watched(images(), before=before)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, tiny(epochs=3, checkpoint_seconds=0), batches)
    assert len(batches.seen) == 2
    assert load_checkpoint(tmp_path / CHECKPOINT).step == 2


def test_a_signal_in_the_last_step_lets_the_run_finish(tmp_path):
    run(
        tmp_path,
        batches=Watched(images(), before=lambda call: signal.raise_signal(signal.SIGINT) if call == 3 else 0),
    )
    assert load_checkpoint(tmp_path / CHECKPOINT).step == 4


def test_a_run_works_in_a_thread_where_there_are_no_signals(tmp_path):
    networks: list[Network] = []
    thread = threading.Thread(target=lambda: networks.append(run(tmp_path)))
    thread.start()
    thread.join()
    assert len(networks) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning_rate": 0.2}, "was made with learning_rate=0.1, and now it is 0.2"),
        ({"views": {}}, "was made with views="),
        ({"epochs": 3}, "was made with epochs=2, and now it is 3"),
    ],
)
def test_a_checkpoint_of_other_settings_is_refused(changes, message, tmp_path):
    run(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for attempt in (run, lambda folder, recipe, **kw: check_training(recipe, 20, folder, **kw)):
        with pytest.raises(CheckpointError, match=rf"{message}.*original settings or pass --overwrite"):
            attempt(tmp_path, tiny(**changes), resume=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_checkpoint_of_a_version_that_did_not_know_a_setting_goes_on_with_its_default(tmp_path):
    run(tmp_path)
    older = load_checkpoint(tmp_path / CHECKPOINT)
    del older.settings["recipe"]["crop_source"]
    save_checkpoint(tmp_path / CHECKPOINT, older)
    check_training(tiny(), 20, tmp_path, resume=True)
    with pytest.raises(CheckpointError, match="was made with crop_source='center', and now it is 'original'"):
        check_training(tiny(crop_source="original"), 20, tmp_path, resume=True)


def test_a_checkpoint_of_so_many_processes_that_steps_differ_is_refused(tmp_path, monkeypatch):
    run(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(CheckpointError, match="was made with 8 images in a step, and now there are 6"):
        check_training(tiny(), 20, tmp_path, resume=True)


def test_a_checkpoint_of_other_images_is_refused(tmp_path):
    run(tmp_path)
    with pytest.raises(CheckpointError, match="was made with 20 images, and now there are 24"):
        run(tmp_path, batches=Watched(images(24)), resume=True)
    with pytest.raises(CheckpointError, match="is of another network"):
        run(tmp_path, batches=Watched(images(20, channels=3)), resume=True)


def test_a_checkpoint_of_other_data_of_the_same_size_is_refused(tmp_path):
    run(tmp_path, fingerprint="mine")
    with pytest.raises(
        CheckpointError, match="made with other images, though as many; resume with those or pass --over"
    ):
        run(tmp_path, resume=True, fingerprint="other")
    with pytest.raises(CheckpointError, match="was made with other images"):
        check_training(tiny(), 20, tmp_path, resume=True, fingerprint="other")
    run(tmp_path, resume=True, fingerprint="mine")


def test_how_often_checkpoints_are_made_may_change(tmp_path):
    run(tmp_path)
    run(tmp_path, tiny(checkpoint_seconds=3), resume=True)


def test_a_checkpoint_is_complete(tmp_path):
    network = run(tmp_path)
    checkpoint = load_checkpoint(tmp_path / CHECKPOINT)
    assert checkpoint.step == 4
    assert checkpoint.model.keys() == {f"network.{name}" for name in network.state_dict()} | {"loss.center.center"}
    assert len(checkpoint.optimiser) == len(list(network.parameters()))
    expected = {"recipe": tiny().model_dump(mode="json"), "images": 20, "images in a step": tiny().batch_size}
    assert checkpoint.settings == expected


def test_a_damaged_checkpoint_is_said_to_be(tmp_path):
    run(tmp_path)
    path = tmp_path / CHECKPOINT
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(CheckpointError, match="is damaged"):
        run(tmp_path, resume=True)


def test_four_flipped_bytes_of_a_checkpoint_are_noticed(tmp_path):
    run(tmp_path)
    path = tmp_path / CHECKPOINT
    content = bytearray(path.read_bytes())
    for place in range(len(content) // 2, len(content) // 2 + 4):
        content[place] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(
        CheckpointError, match=r"checksum is wrong\); replace it by a copy, or start over with --overwrite"
    ):
        run(tmp_path, resume=True)


@pytest.mark.parametrize(("seconds", "before"), [(0, [0, 1, 2, 3]), (1000, [0, 0, 0, 0])])
def test_a_checkpoint_is_made_when_its_time_has_come(seconds, before, tmp_path):
    path, seen = tmp_path / CHECKPOINT, []
    note = lambda _: seen.append(load_checkpoint(path).step if path.exists() else 0)  # noqa: E731
    run(tmp_path, tiny(checkpoint_seconds=seconds), Watched(images(), before=note))
    assert seen == before
    assert load_checkpoint(path).step == 4, "the last step's always"


def test_a_logger_that_is_not_installed_is_one_clear_line(tmp_path, install):
    install("wandb", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'andornot\[wandb\]'"):
        run(tmp_path, loggers=["wandb"])


# --- the methods ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits() -> Tensor:
    return open_images("digits", split="train").resized(28)[::8]


@pytest.mark.parametrize("prior", [None, pytest.param(0.3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("synthesis", SYNTHESES)
def test_every_method_learns_on_digits_without_collapse(synthesis, prior, digits, tmp_path):
    size = {"num_features": 16, "num_values": 8, "backbone_options": {"width": 64}, "predictor_hidden": 64}
    run(tmp_path, tiny(synthesis=synthesis, prior=prior, epochs=1, batch_size=16, **size), Watched(digits))
    rows = rows_of(tmp_path)
    losses = [float(row["loss_total"]) for row in rows]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    assert float(rows[-1]["spread"]) > 0.1
    assert float(rows[-1]["dead"]) < 0.2
    assert float(rows[-1]["usage"]) > 0.3
