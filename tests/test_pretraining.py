"""`andornot pretrain`: from images to a model, whatever happens on the way."""

import copy
import json
import multiprocessing
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import nn

from andornot.commands.main import main
from andornot.data import ImageSet, open_images, train_split
from andornot.data.readers import ArrayReader
from andornot.errors import AndornotError
from andornot.model import DESCRIPTION, WEIGHTS, Model, ModelError
from andornot.pretraining import CURVES, PretrainingError, pretrain, view_activations
from andornot.ssl.backbones import build_backbone, wrap_backbone
from andornot.ssl.losses import SYNTHESES
from andornot.ssl.recipe import Recipe, load_recipe, make_recipe
from andornot.ssl.training import CHECKPOINT, LOG

SETTINGS = {
    "backbone_options.width": 8,
    "num_features": 4,
    "num_values": 4,
    "predictor_hidden": 8,
    "batch_size": 8,
    "epochs": 4,
    "learning_rate": 0.05,
}
FINISHED = [CURVES, LOG, DESCRIPTION, WEIGHTS, "recipe.yaml"]


def settings(**changes: object) -> list[str]:
    return [f"--set={key}={json.dumps(value)}" for key, value in {**SETTINGS, **changes}.items()]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def the_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The only line on stderr, but for bars and reports."""
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("andornot: ")]
    assert len(lines) == 1
    return lines[0]


@pytest.fixture(scope="session")
def mnist(tmp_path_factory) -> str:
    """80 digits to train on and 30 to test with, in MNIST's own format."""
    folder = tmp_path_factory.mktemp("mnist")
    for stem, split, count in (("train", "train", 80), ("t10k", "test", 30)):
        images = open_images("digits", split=split)
        resized = images.subset(torch.arange(count) * (len(images) // count)).resized(28)
        for name, array in (("images-idx3", resized[:].squeeze(1)), ("labels-idx1", resized.labels.byte().argmax(1))):
            numbers = array.byte().numpy()
            header = bytes([0, 0, 8, numbers.ndim]) + struct.pack(f">{numbers.ndim}I", *numbers.shape)
            (folder / f"{stem}-{name}-ubyte").write_bytes(header + numbers.tobytes())
    return f"mnist:{folder}"


# --- killed, and going on -------------------------------------------------------------------------------------------


def _in_child(arguments: list[str], output: str) -> None:
    for number in (1, 2):
        os.dup2(os.open(f"{output}.{number}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    torch.set_num_threads(1)
    sys.exit(main(arguments))


class Command:
    """`andornot …` in a process of its own, that can be killed. Forked off one that has its imports behind it."""

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["andornot.pretraining", "lightning.fabric"])

    def __init__(self, arguments: list[str], output: Path) -> None:
        self.output = output
        self.process = self.context.Process(target=_in_child, args=(arguments, str(output)))
        self.process.start()

    def when(self, reached: Callable[[], bool], number: int) -> int:
        """Sends the signal at that moment; the exit code."""
        deadline = time.monotonic() + 60
        while not reached():
            assert self.process.is_alive(), self.errors()
            assert time.monotonic() < deadline
            time.sleep(0.0005)
        os.kill(self.process.pid, number)
        return self.wait()

    def wait(self) -> int:
        self.process.join(60)
        return self.process.exitcode

    def errors(self) -> str:
        return Path(f"{self.output}.2").read_text()


def step_of(folder: Path) -> int:
    """How far the checkpoint is."""
    try:
        with safe_open(folder / CHECKPOINT, framework="pt") as file:
            return int(file.metadata()["step"])
    except (SafetensorError, OSError):
        return 0


def in_a_shell(arguments: list[str]) -> subprocess.Popen[str]:
    command, environment = [sys.executable, "-m", "andornot", *arguments], {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


@pytest.fixture(scope="module")
def undisturbed(mnist, tmp_path_factory) -> Path:
    """A run in a fresh interpreter that nobody disturbs."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with in_a_shell(["pretrain", mnist, "-o", str(folder), *settings()]) as process:
        output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert output == f"Model(conv5, scratch, N=4, M=4, size=28, channels=1) of 80 images is in {folder}\n"
    return folder


def assert_same_run(folder: Path, undisturbed: Path) -> None:
    assert names_in(folder) == names_in(undisturbed) == FINISHED
    mine, theirs = load_file(folder / WEIGHTS), load_file(undisturbed / WEIGHTS)
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    for name in (WEIGHTS, LOG):
        assert (folder / name).read_bytes() == (undisturbed / name).read_bytes()


def test_a_run_killed_at_many_moments_ends_bit_identical_to_an_undisturbed_one(mnist, undisturbed, tmp_path):
    folder = tmp_path / "model"
    arguments = ["pretrain", mnist, "-o", str(folder), "--resume", *settings(checkpoint_seconds=0)]
    moments = {
        "before anything": lambda: True,
        "with the first checkpoint": lambda: (folder / CHECKPOINT).exists(),
        # Or a few steps later, where the disk is so fast that nobody can see it.
        "while one is written": lambda: (folder / f"{CHECKPOINT}.partial").exists() or step_of(folder) > 12,
        "in the middle": lambda: step_of(folder) >= 17,
        "near the end": lambda: step_of(folder) >= 28,
    }
    for name, reached in moments.items():
        assert Command(arguments, tmp_path / "out").when(reached, signal.SIGKILL) == -signal.SIGKILL, name
    last = Command(arguments, tmp_path / "out")
    assert last.wait() == 0, last.errors()
    assert_same_run(folder, undisturbed)


@pytest.mark.slow
def test_a_run_killed_in_a_shell_ends_bit_identical(mnist, undisturbed, tmp_path):
    arguments = ["pretrain", mnist, "-o", str(tmp_path / "model"), "--resume", *settings(checkpoint_seconds=0)]
    for moment in (1, 15):
        with in_a_shell(arguments) as process:
            while step_of(tmp_path / "model") < moment:
                assert process.poll() is None
                time.sleep(0.001)
            process.kill()
        assert process.returncode == -signal.SIGKILL
    with in_a_shell(arguments) as process:
        process.communicate()
    assert_same_run(tmp_path / "model", undisturbed)


def two_processes(arguments: list[str], output: Path) -> list[subprocess.Popen[str]]:
    """Start both ranks with the environment that torchrun gives them, so that each can be killed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    shared |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "andornot", *arguments]
    with output.open("w") as file:
        return [
            subprocess.Popen(
                command,
                stdout=file,
                stderr=file,
                text=True,
                env={**os.environ, **shared, "RANK": rank, "LOCAL_RANK": rank},
            )
            for rank in ("0", "1")
        ]


@pytest.mark.slow
def test_two_processes_train_on_labelled_images_and_end_bit_identical_after_a_kill(mnist, tmp_path):
    changes = settings(epochs=2, checkpoint_seconds=0)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "andornot"]
    whole, killed, output = tmp_path / "whole", tmp_path / "killed", tmp_path / "output"
    result = subprocess.run(
        [*command, "pretrain", mnist, "-o", str(whole), *changes],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert result.returncode == 0, result.stderr
    assert "epoch 2: knn_features" in result.stderr

    arguments = ["pretrain", mnist, "-o", str(killed), "--resume", *changes]
    processes = two_processes(arguments, output)
    while step_of(killed) < 11:  # after the first kNN, which is measured after ten steps
        assert [process.poll() for process in processes] == [None, None], output.read_text()
        time.sleep(0.001)
    for process in processes:
        process.kill()
        process.wait()
    assert not (killed / DESCRIPTION).exists()
    processes = two_processes(arguments, output)
    assert [process.wait() for process in processes] == [0, 0], output.read_text()
    assert_same_run(killed, whole)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_saves_says_how_to_go_on_and_ends_bit_identical(number, mnist, undisturbed, tmp_path):
    folder = tmp_path / "model"
    arguments = ["pretrain", mnist, "-o", str(folder), "--resume", *settings(checkpoint_seconds=0)]
    command = Command(arguments, tmp_path / "out")
    assert command.when(lambda: step_of(folder) >= 5, number) == 130
    told = f"stopped after step {step_of(folder)} of 40, and saved; rerun with --resume to continue"
    assert command.errors().splitlines()[-1] == f"andornot: {told}"
    assert "Traceback" not in command.errors()
    assert Command(arguments, tmp_path / "out").wait() == 0
    assert_same_run(folder, undisturbed)


class Acting:
    """A logger that acts at a step, before its checkpoint, or after the last one, before the model is saved."""

    def __init__(self, act: Callable[[], None], step: int | None = None) -> None:
        self.act, self.step = act, step

    def log_metrics(self, _: dict[str, float], step: int) -> None:
        if step == self.step:
            self.act()

    def finalize(self, _: str) -> None:
        if self.step is None:
            self.act()


def stop() -> None:
    raise KeyboardInterrupt


def tiny_pretraining(source: str, folder: Path, logger: Acting, **changes: object) -> None:
    """Pretrain as the command does, with a logger."""
    recipe = load_recipe("digits", [change.removeprefix("--set=") for change in settings(**changes)])
    pretrain(source, folder, recipe, log_every=1 if logger.step else 20, loggers=[logger], say=lambda _: None)


def test_a_run_killed_after_its_model_was_saved_is_finished_by_resume(mnist, undisturbed, tmp_path):
    arguments = ["pretrain", mnist, "-o", str(tmp_path), *settings()]
    with pytest.raises(KeyboardInterrupt):
        tiny_pretraining(mnist, tmp_path, Acting(stop))
    for name in (DESCRIPTION, WEIGHTS):
        (tmp_path / name).write_bytes((undisturbed / name).read_bytes())
    assert main([*arguments, "--resume"]) == 0
    assert_same_run(tmp_path, undisturbed)


# --- disks and folders ----------------------------------------------------------------------------------------------


@pytest.fixture
def unfinished(mnist, tmp_path) -> list[str]:
    """A command that was stopped: `-o` has a checkpoint."""
    arguments = ["pretrain", mnist, "-o", str(tmp_path / "model"), *settings(epochs=1)]
    with pytest.raises(KeyboardInterrupt):
        tiny_pretraining(mnist, tmp_path / "model", Acting(stop), epochs=1)
    assert (tmp_path / "model" / CHECKPOINT).exists()
    return arguments


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("name", [WEIGHTS, LOG])
def test_a_full_disk_is_one_line_and_the_checkpoint_stays(name, unfinished, tmp_path, capsys):
    before = (tmp_path / "model" / CHECKPOINT).read_bytes()
    (tmp_path / "model" / f"{name}.partial").symlink_to("/dev/full")
    capsys.readouterr()
    assert main([*unfinished, "--resume"]) == 2
    assert the_line(capsys) == f"andornot: No space left on device: {tmp_path / 'model' / name}"
    assert (tmp_path / "model" / CHECKPOINT).read_bytes() == before
    assert not list((tmp_path / "model").glob("*.partial"))
    assert main([*unfinished, "--resume"]) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_disk_that_fills_up_during_the_training_keeps_the_last_checkpoint(mnist, tmp_path):
    folder, seen = tmp_path / "model", []

    def fill() -> None:
        seen.append((folder / CHECKPOINT).read_bytes())
        (folder / f"{CHECKPOINT}.partial").symlink_to("/dev/full")

    with pytest.raises(OSError, match="No space left on device") as full:
        tiny_pretraining(mnist, folder, Acting(fill, step=7), checkpoint_seconds=0)
    assert full.value.filename == str(folder / CHECKPOINT)
    assert (folder / CHECKPOINT).read_bytes() == seen[0]
    assert step_of(folder) == 6
    assert names_in(folder) == [CHECKPOINT, LOG, "recipe.yaml"]


@pytest.mark.parametrize("folder", ["/dev/null/model", "/proc/model"])
def test_a_folder_that_cannot_be_is_one_line(folder, mnist, capsys):
    assert main(["pretrain", mnist, "-o", folder, *settings(epochs=1)]) == 2
    assert the_line(capsys).endswith((f": {folder}", f": {Path(folder).parent}"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_one_line(mnist, tmp_path, capsys):
    tmp_path.chmod(0o555)
    assert main(["pretrain", mnist, "-o", str(tmp_path), *settings(epochs=1)]) == 2
    assert the_line(capsys).startswith("andornot: Permission denied: ")
    tmp_path.chmod(0o755)


# --- what is in the folder already ----------------------------------------------------------------------------------


def test_a_finished_model_is_not_replaced_unless_asked(mnist, tmp_path, capsys):
    arguments = ["pretrain", mnist, "-o", str(tmp_path), *settings(epochs=1)]
    assert main(arguments) == 0
    before = contents(tmp_path)
    capsys.readouterr()
    for more in ([], ["--resume"]):
        assert main([*arguments, *more]) == 2
        assert the_line(capsys) == (
            f"andornot: {tmp_path} holds a finished model; --overwrite replaces it, another -o keeps both"
        )
    assert contents(tmp_path) == before
    assert main([*arguments, "--set=seed=1", "--overwrite"]) == 0
    assert names_in(tmp_path) == FINISHED
    assert (tmp_path / WEIGHTS).read_bytes() != before[WEIGHTS]


def test_an_unfinished_training_needs_resume_or_overwrite(unfinished, tmp_path, capsys):
    capsys.readouterr()
    assert main(unfinished) == 2
    assert the_line(capsys).endswith("holds an unfinished training; --resume continues, --overwrite starts over")
    assert main([*unfinished, "--set=seed=3", "--overwrite"]) == 0
    assert names_in(tmp_path / "model") == FINISHED


def test_resume_and_overwrite_together_are_refused(unfinished, tmp_path, capsys):
    before = contents(tmp_path / "model")
    with pytest.raises(SystemExit, match="2"):
        main([*unfinished, "--resume", "--overwrite"])
    assert "not allowed with argument" in capsys.readouterr().err
    assert contents(tmp_path / "model") == before


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            ["--set=learning_rate=0.5"],
            "was made with learning_rate=0.05, and now it is 0.5; resume with the original settings",
        ),
        (["--set=seed=5"], "was made with seed=0, and now it is 5"),
        (["--recipe=mnist-paper"], "was made with views="),
    ],
)
def test_resuming_with_other_settings_is_refused_and_nothing_is_touched(more, message, unfinished, tmp_path, capsys):
    before = contents(tmp_path / "model")
    capsys.readouterr()
    assert main([*unfinished, "--resume", *more]) == 2
    assert message in the_line(capsys)
    assert contents(tmp_path / "model") == before


def test_resuming_with_other_images_is_refused(unfinished, tmp_path, capsys):
    before = contents(tmp_path / "model")
    capsys.readouterr()
    source = f"{unfinished[1]}?split=test"
    assert main([unfinished[0], source, *unfinished[2:], "--resume"]) == 2
    assert "was made with 80 images, and now there are 30; resume with the original images" in the_line(capsys)
    assert contents(tmp_path / "model") == before


@pytest.mark.parametrize("regime", ["scratch", "frozen"])
def test_resuming_with_other_images_of_the_same_size_is_refused(regime, mnist, tmp_path, capsys):
    folder = tmp_path / "mnist"
    shutil.copytree(mnist.removeprefix("mnist:"), folder)
    arguments = ["pretrain", f"mnist:{folder}", "-o", str(tmp_path / "model"), *settings(regime=regime)]
    with pytest.raises(KeyboardInterrupt):
        tiny_pretraining(f"mnist:{folder}", tmp_path / "model", Acting(stop), regime=regime)
    before = contents(tmp_path / "model")
    (file,) = folder.glob("train-images*")
    raw = bytearray(file.read_bytes())
    raw[-400] ^= 0xFF  # one pixel
    file.write_bytes(raw)
    capsys.readouterr()
    assert main([*arguments, "--resume"]) == 2
    assert "was made with other images, though as many" in the_line(capsys)
    assert contents(tmp_path / "model") == before


def test_resuming_where_nothing_is_starts_and_says_so(mnist, tmp_path, capsys):
    assert main(["pretrain", mnist, "-o", str(tmp_path / "new"), "--resume", *settings(epochs=1)]) == 0
    assert f"there is no checkpoint in {tmp_path / 'new'} yet: starting from the beginning" in capsys.readouterr().err
    assert names_in(tmp_path / "new") == FINISHED


def test_other_files_in_the_folder_stay(mnist, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    assert main(["pretrain", mnist, "-o", str(tmp_path), "--overwrite", *settings(epochs=1)]) == 0
    assert (tmp_path / "notes.txt").read_text() == "mine"


# --- mistakes -------------------------------------------------------------------------------------------------------

MISTAKES = {
    "an unknown backbone": (["--set=backbone=conv6"], 'unknown backbone "conv6"; did you mean "conv5"'),
    "an unknown option of it": (["--set=backbone_options.widht=9"], 'has no option "widht"; did you mean "width"?'),
    "an unknown recipe": (["--recipe=mnist-papper"], 'unknown recipe "mnist-papper"; did you mean "mnist-paper"?'),
    "an unknown key": (["--set=epoch=9"], 'unknown key "epoch"; did you mean "epochs"?'),
    "images that no memory holds": (["--set=size=100000"], "size: Input should be less than or equal to 2048"),
    "no value": (["--set=epochs"], '"epochs" is not of the form key=value'),
    "a seed that is too large": ([f"--set=seed={2**64}"], "seed: Input should be less than"),
    "a rate beyond all numbers": (["--set=weight_decay=1e300"], "weight_decay: Input should be less than or equal"),
    "no end of features": ([f"--set=num_features={10**9}"], "num_features: Input should be less than or equal"),
    "more weights than memory": (
        ["--set=num_features=1000000", "--set=num_values=10000"],
        "weights in its heads takes about",
    ),
    "more views than memory": (["--set=cached_views=10001"], "cached_views: Input should be less than or equal"),
    "no end of epochs": ([f"--set=epochs={10**30}"], "epochs: Input should be less than or equal"),
    "a width that no network has": (
        ["--set=backbone_options.width=-1"],
        "the width of conv5 goes from 1 to 65,536, got -1",
    ),
    "a width that is no number": (
        ["--set=backbone_options.width=x"],
        "the width of conv5 goes from 1 to 65,536, got 'x'",
    ),
    "another name of the backbone": (["--set=backbone_options.name=x"], 'backbone_options has no "name"'),
    "channels of the backbone": (["--set=backbone_options.channels=3"], 'backbone_options has no "channels"'),
    "files of the backbone": (["--set=backbone_options.files=/"], 'has no option "files"'),
    "brackets without end": ([f"--set=epochs={'[' * 2_000}"], 'the value in "epochs=[[['),
    "brackets in brackets": (
        [f"--set=epochs={'[' * 150}{']' * 150}"],
        "epochs: Input should be a valid integer, got [[",
    ),
    "weights that are none": (
        ["--set=backbone=resnet18", "--set=backbone_options={weights: /etc/passwd}"],
        "/etc/passwd cannot be read as a file of weights alone",
    ),
    "weights that are no path": (
        ["--set=backbone=resnet18", "--set=backbone_options={weights: 5}"],
        "weights must be the path of a file, got 5",
    ),
    "half precision on a CPU": (["--set=precision=16-mixed"], "precision=16-mixed needs a GPU; on a CPU set precision"),
    "too few images": (["--set=batch_size=8", "--set=accumulate=8"], "are too few to train on"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_no_folder(mistake, mnist, tmp_path, capsys):
    more, message = MISTAKES[mistake]
    assert main(["pretrain", mnist, "-o", str(tmp_path / "model"), *settings(), *more]) == 2
    assert message in the_line(capsys)
    assert not (tmp_path / "model").exists()


def test_a_file_in_the_place_of_the_folder_is_one_line(mnist, tmp_path, capsys):
    (tmp_path / "file").write_text("kept")
    assert main(["pretrain", mnist, "-o", str(tmp_path / "file"), *settings()]) == 2
    assert capsys.readouterr().err.startswith(f"andornot: {tmp_path / 'file'} is a file; -o takes a folder")
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.parametrize("source", ["nowhere/", "mnist:/nowhere", "magic:", "."])
def test_no_images_are_one_line_and_leave_no_folder(source, tmp_path, capsys, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert main(["pretrain", source, "-o", str(tmp_path / "model")]) == 2
    assert the_line(capsys)
    assert not (tmp_path / "model").exists()


def test_a_mistake_with_overwrite_keeps_the_model_that_is_there(mnist, tmp_path):
    assert main(["pretrain", mnist, "-o", str(tmp_path), *settings(epochs=1)]) == 0
    before = contents(tmp_path)
    for more, _ in MISTAKES.values():
        assert main(["pretrain", mnist, "-o", str(tmp_path), "--overwrite", *settings(), *more]) == 2
    assert contents(tmp_path) == before


def test_a_mistake_has_no_traceback_in_a_shell(tmp_path):
    command = [sys.executable, "-m", "andornot", "pretrain", "digits", "-o", "model", "--set=backbone=conv6"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr == 'andornot: unknown backbone "conv6"; did you mean "conv5"?\n'
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


# --- which images -------------------------------------------------------------------------------------------------


def make_voc(folder: Path) -> str:
    """Seven images: three to train on, three to validate with, one to test with; 2009 has no list `trainval`."""
    lists = {
        "VOC2007": {"train": ["1", "2"], "val": ["3"], "trainval": ["1", "2", "3"], "test": ["4"]},
        "VOC2009": {"train": ["5"], "val": ["6"]},
        "VOC2012": {"train": [], "val": ["7"], "trainval": ["7"]},
    }
    for year, splits in lists.items():
        (folder / year / "ImageSets" / "Main").mkdir(parents=True)
        (folder / year / "JPEGImages").mkdir()
        for split, names in splits.items():
            (folder / year / "ImageSets" / "Main" / f"{split}.txt").write_text("\n".join(names))
            for name in names:
                Image.new("RGB", (8, 8)).save(folder / year / "JPEGImages" / f"{name}.jpg")
    return str(folder)


def trained_on(spec: str) -> tuple[list[str], list[str] | None]:
    """The names of the images that are trained on, and of those that are measured with."""
    images, test = train_split(spec)
    return [Path(name).stem for name in images.names], None if test is None else [Path(n).stem for n in test.names]


def test_all_but_the_test_part_is_trained_on_unless_a_split_is_named(tmp_path):
    voc = make_voc(tmp_path / "VOCdevkit")
    assert trained_on(f"voc:{voc}") == trained_on(voc) == (["1", "2", "3", "5", "6", "7"], ["4"])
    assert trained_on(f"voc:{voc}?split=train") == (["1", "2", "5"], None)
    assert trained_on(f"voc:{voc}?split=test") == (["4"], None)
    assert trained_on(f"voc:{voc}?years=2012") == (["7"], None)
    assert trained_on(f"voc:{voc}?years=2009") == (["5"], ["6"]), "as evaluate does, with ImageNet too"
    images, test = train_split("digits")
    assert list(images.names) == list(open_images("digits", split="train").names)
    assert list(test.names) == list(open_images("digits", split="test").names)


def test_a_source_and_texts_are_enough_to_pretrain(mnist, tmp_path):
    recipe = tiny_recipe()
    model = pretrain(mnist, str(tmp_path / "by-spec"), recipe, say=lambda _: None)
    parts = train_split(mnist)
    pretrain(parts.train, tmp_path / "by-set", recipe, test_images=parts.held_out, say=lambda _: None)
    assert Model.load(str(tmp_path / "by-spec")).id == model.id
    assert_same_run(tmp_path / "by-spec", tmp_path / "by-set")


def tiny_recipe(**changes: object) -> Recipe:
    return load_recipe("mnist", [change.removeprefix("--set=") for change in settings(epochs=1, **changes)])


def test_a_synthesis_of_ones_own_is_noted_and_given_again(mnist, tmp_path):
    def mine(*arguments):
        return SYNTHESES["mean"](*arguments)

    pretrain(mnist, tmp_path / "mine", tiny_recipe(), synthesis=mine, say=lambda _: None)
    pretrain(mnist, tmp_path / "mean", tiny_recipe(synthesis="mean", beta=0.6), say=lambda _: None)
    assert json.loads((tmp_path / "mine" / DESCRIPTION).read_text())["recipe"]["synthesis"] == "function:mine"
    one, other = (load_file(tmp_path / name / WEIGHTS) for name in ("mine", "mean"))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert Model.load(tmp_path / "mine").recipe.synthesis == "function:mine", "a model computes without it"
    with pytest.raises(AndornotError, match=r'"function:mine" is a function of your own: pretrain\(…, synthesis=…\)'):
        pretrain(mnist, tmp_path / "again", load_recipe(tmp_path / "mine" / "recipe.yaml"), say=lambda _: None)
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("regime", ["scratch", "frozen", "calibrated"])
def test_a_backbone_of_ones_own_is_noted_and_given_again(regime, mnist, tmp_path):
    def network() -> nn.Module:
        return nn.Sequential(nn.Conv2d(1, 8, 3, stride=2, bias=False), nn.BatchNorm2d(8), nn.ReLU())

    mine = network()
    before = copy.deepcopy(mine.state_dict())
    recipe = tiny_recipe(regime=regime, size=28, cached_views=2)
    model = pretrain(mnist, tmp_path / "mine", recipe, backbone=mine, say=lambda _: None)
    description = json.loads((tmp_path / "mine" / DESCRIPTION).read_text())
    assert description["backbone"]["name"] == description["recipe"]["backbone"] == "module:Sequential"
    assert description["recipe"]["backbone_options"] == {}
    changed = any(not torch.equal(value, before[name]) for name, value in mine.state_dict().items())
    assert changed == (regime == "scratch"), "from scratch it is trained in place"
    images = open_images(mnist).resized(28)[:3]
    for backbone in (network(), wrap_backbone(network(), size=28, channels=1)):
        again = Model.load(tmp_path / "mine", backbone=backbone)
        assert torch.equal(again.encode(images).probs, model.encode(images).probs)
    with pytest.raises(ModelError, match="needs it"):
        Model.load(tmp_path / "mine")


def test_a_backbone_with_a_name_is_noted_by_it(mnist, tmp_path):
    backbone = build_backbone("conv5", channels=1, width=8)
    pretrain(mnist, tmp_path / "given", tiny_recipe(regime="calibrated"), backbone=backbone, say=lambda _: None)
    assert Model.load(tmp_path / "given").recipe.backbone_options == {"width": 8}


def test_the_first_line_says_which_images_are_trained_on(mnist, tmp_path, capsys):
    folder = mnist.removeprefix("mnist:")
    for number, (source, part) in enumerate(
        [
            (mnist, "80 images (mnist, all but the split test)"),
            (f"{mnist}?split=train", "80 images (mnist, the split train)"),
        ]
    ):
        assert main(["pretrain", source, "-o", str(tmp_path / str(number)), *settings(epochs=1)]) == 0
        assert capsys.readouterr().err.splitlines()[0] == f"pretraining on {part}"
    assert main(["pretrain", folder, "-o", str(tmp_path / "bare"), *settings(epochs=1)]) == 0
    assert_same_run(tmp_path / "bare", tmp_path / "0")


def test_own_images_are_announced_without_a_split(tmp_path):
    said: list[str] = []
    images = ImageSet(ArrayReader(np.zeros((8, 28, 28, 1), np.uint8)), [str(number) for number in range(8)])
    pretrain(images, tmp_path, tiny_recipe(regime="calibrated"), test_images=images, say=said.append)
    assert said == ["calibrating on 8 images (given)"]


# --- what is said and written ---------------------------------------------------------------------------------------


def test_the_summary_is_one_json_for_programs(mnist, tmp_path, capsys):
    assert main(["pretrain", mnist, "-o", str(tmp_path), "--json", *settings(epochs=1)]) == 0
    summary = json.loads(capsys.readouterr().out)
    model = Model.load(tmp_path)
    assert summary == {"model": str(tmp_path), "id": model.id, "images": 80, "num_features": 4, "num_values": 4}


def test_the_folder_has_the_recipe_that_makes_it_again(undisturbed, mnist, tmp_path):
    recipe = load_recipe(str(undisturbed / "recipe.yaml"))
    assert recipe == load_recipe("digits", [f"{key}={value}" for key, value in SETTINGS.items()])
    assert main(["pretrain", mnist, "-o", str(tmp_path), "--recipe", str(undisturbed / "recipe.yaml")]) == 0
    assert_same_run(tmp_path, undisturbed)


def test_knn_accuracy_is_logged_every_few_epochs_where_there_are_labels(undisturbed):
    lines = [line.split(",") for line in (undisturbed / LOG).read_text().splitlines()]
    column = lines[0].index("knn_features")
    assert lines[0][:4] == ["step", "epoch", "knn_features", "knn_degrees"]
    measured = {line[1]: float(line[column]) for line in lines[1:] if line[column]}
    assert list(measured) == ["1.000", "2.000", "3.000", "4.000"]
    assert all(0 <= value <= 1 for value in measured.values())


def colour_recipe(**changes: object) -> Recipe:
    size = {"num_features": 4, "num_values": 4, "predictor_hidden": 8, "batch_size": 50, "epochs": 1, "size": 32}
    return make_recipe({"backbone": "conv5", "backbone_options": {"width": 8}, **size, **changes})


def make_folder(folder: Path, count: int, broken: int = 0) -> Path:
    """Small images, and among them files that are none."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for number in range(count - broken):
        coarse = Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8))
        coarse.resize((36, 32)).save(folder / f"{number:03}.jpg")
    for number in range(broken):
        content = (b"", b"no image", (folder / "000.jpg").read_bytes()[:300])[number % 3]
        (folder / f"{number:03} broken.jpg").write_bytes(content)
    return folder


def test_broken_images_are_reported_and_the_training_goes_on(tmp_path):
    said: list[str] = []
    images = open_images(str(make_folder(tmp_path / "photos", 500, broken=50)))
    model = pretrain(images, tmp_path / "model", colour_recipe(), say=said.append)
    assert said[0] == "pretraining on 500 images (folder)"
    assert said[1].startswith("50 of 500 images could not be read:\n")
    assert "000 broken.jpg: " in said[1]
    assert "… and 40 more" in said[1]
    assert (tmp_path / "model" / LOG).read_text().splitlines()[-1].startswith("9,1.000,"), "9 batches of 50 are 450"
    assert Model.load(tmp_path / "model").id == model.id


def test_broken_images_are_an_error_if_strict(tmp_path, capsys):
    folder = make_folder(tmp_path / "photos", 12, broken=2)
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(colour_recipe().model_dump(mode="json")))
    arguments = ["pretrain", str(folder), "-o", str(tmp_path / "model"), "--recipe", str(tmp_path / "small.yaml")]
    assert main([*arguments, "--strict"]) == 2
    assert "000 broken.jpg" in the_line(capsys)
    assert not (tmp_path / "model").exists()
    assert main(arguments) == 0


def test_labels_stay_with_their_images_where_some_are_broken(tmp_path):
    """A folder for each class: kNN compares the readable images, with their own labels."""
    colours = {"red": (255, 0, 0), "green": (0, 255, 0)}
    for split in ("train", "test"):
        for name, colour in colours.items():
            make_folder(tmp_path / "photos" / split / name, 6, broken=2)
            for path in (tmp_path / "photos" / split / name).glob("???.jpg"):
                Image.new("RGB", (32, 32), colour).save(path)
    train_images, test_images = (open_images(f"imagefolder:{tmp_path / 'photos'}", split=s) for s in ("train", "test"))
    recipe = colour_recipe(batch_size=8, views={"grey": 0, "hue": 0})
    pretrain(train_images, tmp_path / "model", recipe, test_images=test_images, say=lambda _: None)
    header, *rows = [line.split(",") for line in (tmp_path / "model" / LOG).read_text().splitlines()]
    assert float(rows[-1][header.index("knn_features")]) == 1


# --- the other regimes ----------------------------------------------------------------------------------------------


def test_photos_are_calibrated_by_default_and_broken_ones_left_out(tmp_path, capsys):
    folder = make_folder(tmp_path / "photos", 12, broken=2)
    assert main(["pretrain", str(folder), "-o", str(tmp_path / "model"), "--json", "--set=size=64"]) == 0
    captured = capsys.readouterr()
    assert "2 of 12 images could not be read" in captured.err
    model = Model.load(tmp_path / "model")
    assert json.loads(captured.out)["num_features"] == model.num_features == 1280
    assert names_in(tmp_path / "model") == [DESCRIPTION, WEIGHTS, "recipe.yaml"]
    representation = model.encode(sorted(folder.glob("???.jpg")))
    assert representation.degrees.std(0).mean() > 0.05, "the images differ"


def test_a_frozen_backbone_is_bit_identical_after_the_heads_are_trained(tmp_path):
    recipe = colour_recipe(regime="frozen", batch_size=8, cached_views=2)
    model = pretrain(open_images(str(make_folder(tmp_path / "photos", 16))), tmp_path / "model", recipe)
    again = pretrain(open_images(str(tmp_path / "photos")), tmp_path / "again", colour_recipe(regime="calibrated"))
    mine, theirs = model.backbone.state_dict(), again.backbone.state_dict()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    assert len((tmp_path / "model" / LOG).read_text().splitlines()) == 2


@pytest.mark.parametrize("heads", [{}, {"synthesis": "mean", "prior": 0.3, "num_values": 5, "epochs": 2}])
def test_features_of_views_can_be_shared_by_several_heads(heads, tmp_path):
    """Also by heads that are not those the features were computed with. No image is read or seen again."""
    images = open_images(str(make_folder(tmp_path / "photos", 16, broken=2)))
    recipe = colour_recipe(regime="frozen", batch_size=8, cached_views=2)
    cached = view_activations(images, recipe)
    assert (len(cached), cached.views.shape) == (14, (2, 14, 8))
    other = recipe.model_copy(update=heads)
    alone = pretrain(images, tmp_path / "alone", other, say=lambda _: None)
    shutil.rmtree(tmp_path / "photos")
    shared = pretrain(images, tmp_path / "shared", other, cached=cached, say=lambda _: None)
    assert shared.id == alone.id
    assert (tmp_path / "shared" / WEIGHTS).read_bytes() == (tmp_path / "alone" / WEIGHTS).read_bytes()


def test_pretraining_refuses_in_python_as_in_the_shell(tmp_path):
    make_folder(tmp_path / "photos", 4)
    (tmp_path / DESCRIPTION).write_text("{}")
    with pytest.raises(PretrainingError, match="holds a finished model"):
        pretrain(open_images(str(tmp_path / "photos")), tmp_path, colour_recipe())


@pytest.mark.parametrize(("crop_source", "seen"), [("center", False), ("original", True)])
def test_the_ends_of_a_wide_image_are_seen_if_views_are_cut_from_the_original(crop_source, seen, tmp_path):
    """Black images with white ends, which a center square does not have."""
    pixels = np.zeros((16, 40, 160, 3), np.uint8)
    pixels[:, :, :30] = pixels[:, :, -30:] = 255
    images = ImageSet(ArrayReader(pixels), [str(number) for number in range(16)])
    tiny = {"backbone": "conv5", "backbone_options": {"width": 8}, "size": 16, "num_features": 4, "num_values": 4}
    plain = {"jitter": 0, "blur": 0}
    recipe = make_recipe({**tiny, "epochs": 1, "batch_size": 8, "crop_source": crop_source, "views": plain})
    # Views that are all black are all alike.
    with nullcontext() if seen else pytest.warns(UserWarning, match="collapsed: images get the same degrees"):
        pretrain(images, tmp_path, recipe, say=lambda _: None)


def test_the_papers_recipes_for_photos_cut_views_from_the_original():
    for name in ("imagenet100-paper", "voc-paper"):
        assert load_recipe(name).crop_source == "original"
