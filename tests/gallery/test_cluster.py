"""A Ray cluster: the same galleries and the same hits as in one process, whatever is killed meanwhile."""

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from stored import contents, photos, pixels, save_image, seeing_recipe, small_model, small_steps

import andornot
from andornot import AndornotError
from andornot.commands.main import main
from andornot.concepts import wordnet_nouns
from andornot.concepts.phrases import Phrase
from andornot.gallery import Filter, Gallery, GalleryError, cluster, encoding
from andornot.gallery.cluster import Cluster, _Digests
from andornot.gallery.encoding import EncodedBatch, encode_files
from andornot.gallery.scanning import ScannedFile
from andornot.model import Model

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed: pip install 'andornot[ray]'")
with_ray = [
    needs_ray,
    pytest.mark.xdist_group("ray"),
    # Ray's own modules warn.
    pytest.mark.filterwarnings("ignore"),
]


def assert_identical(one: Path, other: Path) -> None:
    """Check that two galleries have the same images in the same order, to the last bit. Ids may have other gaps."""
    mine, theirs = contents(one), contents(other)
    assert [*mine] == [*theirs]
    for path, activations in mine.items():
        np.testing.assert_array_equal(activations, theirs[path], err_msg=path)
    assert Gallery.open(one).broken.keys() == Gallery.open(other).broken.keys()


# --- addresses ------------------------------------------------------------------------------------------------------


@needs_ray
@pytest.mark.parametrize("address", ["", "moon", "ray://", "ray://host", "http://host:1", "ray://host:99999", "a b:1"])
def test_what_is_no_address_is_one_line_and_leaves_nothing(address, tmp_path, capsys):
    photos(tmp_path / "photos", 2)
    assert main(["index", str(tmp_path / "photos"), "--gallery", str(tmp_path / "g"), "--cluster", address]) == 2
    assert capsys.readouterr().err.strip().endswith("write auto, local or ray://host:10001")
    assert not (tmp_path / "g").exists()


@needs_ray
def test_nobody_at_the_address_is_one_line_at_once(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"ray://127.0.0.1:{listening.getsockname()[1]}"
    Gallery.create(tmp_path / "g", small_model()).add(photos(tmp_path / "photos", 2))
    for command in (["index", str(tmp_path / "photos")], ["serve", "--port", "0", "--shards", "2"]):
        start = time.monotonic()
        assert main([*command, "--gallery", str(tmp_path / "g"), "--cluster", address]) == 2
        assert time.monotonic() - start < 10
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"andornot: there is no Ray cluster at {address}: Connection refused; ")


@needs_ray
def test_something_else_at_the_address_is_one_line_after_a_moment(monkeypatch):
    monkeypatch.setattr(cluster, "_CONNECT_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"ray://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(GalleryError, match=f"what is at {address} does not answer as a Ray cluster does"):
            Cluster(address)


@needs_ray
def test_auto_is_the_cluster_of_the_environment(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "ray://nowhere.invalid:1")
    with pytest.raises(GalleryError, match=r"there is no Ray cluster at ray://nowhere\.invalid:1"):
        Cluster("auto")


# --- what the nodes do ----------------------------------------------------------------------------------------------


def test_known_digests_are_found_in_a_sorted_array():
    rng = np.random.default_rng(0)
    digests = [rng.bytes(16) for _ in range(200)]
    known = _Digests(np.sort(np.array(digests[:100], "S16")))
    assert [digest in known for digest in digests] == [True] * 100 + [False] * 100
    assert b"x" not in _Digests(np.array([], "S16"))


def test_a_file_that_only_its_node_cannot_read_is_told_with_the_node_and_tried_again(tmp_path):
    """An image that the gallery has stays, and nothing is concluded."""
    gallery = Gallery.create(tmp_path / "g", small_model())
    gallery.add(photos(tmp_path / "photos", 3))
    save_image(tmp_path / "photos" / "001.png", 77)
    path = str(tmp_path / "photos" / "001.png")
    unread = cluster._with_host(ScannedFile(path, -1, -1, reason="No such file or directory"))
    assert unread.reason == f"No such file or directory (on {socket.gethostname()})"
    summary = _index_with(gallery, tmp_path / "photos", lambda *_: iter([EncodedBatch([unread], [], None)]))
    assert summary.broken == {path: unread.reason}
    assert len(gallery) == 3
    assert gallery.update().changed == 1


def _index_with(gallery: Gallery, folder: Path, encode: Callable[..., Iterator[EncodedBatch]]) -> Any:
    from andornot.gallery.indexing import Indexer
    from andornot.gallery.scanning import find_files
    from andornot.gallery.storage import Storage
    from andornot.gallery.writing import open_writer

    with open_writer(Storage(gallery.folder)) as writer:
        scope = find_files([str(folder)], writer.table.paths, prune=False)
        summary = Indexer(writer, gallery.model, scope, encode=encode).run(progress=False)
    gallery.refresh()
    return summary


def test_what_is_known_is_not_encoded(tmp_path, monkeypatch):
    paths = sorted(map(str, photos(tmp_path, 5).glob("*.png")))
    model = small_model()
    monkeypatch.setattr(encoding, "BATCH", 3)
    first = [*encode_files(paths, model, ())]
    assert [len(part.files) for part in first] == [3, 2]
    assert sum(len(part.digests) for part in first) == 5
    known = {item.digest for item in first[0].files}
    assert [len(part.digests) for part in encode_files(paths, model, known)] == [0, 2]


def test_words_that_are_sent_to_a_shard_are_small_and_known_there():
    """Or the shard would compute their support for every search again."""
    meanings = [
        wordnet_nouns().look_up("dog"),
        Phrase("a dog", "a dog", "", direction=torch.tensor([0.6, 0.8]), scale=2.0, bias=-1.0),
    ]
    for meaning in meanings:
        sent = pickle.dumps(meaning)
        assert len(sent) < 1000
        assert pickle.loads(sent) == meaning
        assert hash(pickle.loads(sent)) == hash(meaning)
    assert meanings[1] != replace(meanings[1], direction=torch.tensor([0.8, 0.6]))


def test_many_images_that_are_expected_are_accelerated_from_the_first(monkeypatch):
    """Or the first ones of a process would be rounded differently than elsewhere."""
    model = small_model()
    monkeypatch.setattr(Model, "_accelerated_maps", "fast")
    assert model._maps_for(1) != "fast"
    model.reserve(10**6)
    assert model._maps_for(1) == "fast"


# --- three nodes on this machine ------------------------------------------------------------------------------------


class Nodes:
    """A Ray cluster of a head and two more nodes, each of them a raylet of its own."""

    def __init__(self) -> None:
        os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
        import ray
        from ray.cluster_utils import Cluster as RayCluster

        andornot_path = Path(andornot.__file__).parent.parent
        self._cluster = RayCluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        self._others = [self._add(), self._add()]
        ray.init(
            self._cluster.address,
            runtime_env={
                "worker_process_setup_hook": "stored.register_backbone",
                "env_vars": {"PYTHONPATH": os.pathsep.join(map(str, (Path(__file__).parent, andornot_path)))},
            },
            log_to_driver=False,
            logging_level="CRITICAL",
        )

    def _add(self) -> Any:
        return self._cluster.add_node(num_cpus=1)

    def kill_one(self) -> None:
        """Kill a node with everything that runs on it; another one takes its place."""
        self._cluster.remove_node(self._others.pop(0), allow_graceful=False)
        self._others.append(self._add())

    def stop(self) -> None:
        """End all nodes."""
        import ray

        ray.shutdown()
        self._cluster.shutdown()


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    running = Nodes()
    yield running
    running.stop()


def random_formula(rng: np.random.Generator, count: int) -> tuple[str, dict[str, Any]]:
    """Return a formula of images, words and definitions with terms and conditions, and options of its search."""

    def name() -> str:
        kind, number = rng.random(), int(rng.integers(count))
        if kind < 0.1:
            return str(rng.choice(["animal", "dog", "plant", "pair"]))
        return f"{number:03}.png" if kind < 0.8 else str(number + 1)

    def term(depth: int) -> str:
        kind = rng.random()
        if depth == 0 or kind < 0.3:
            return name()
        if kind < 0.4:
            return f"like({name()}, {name()})"
        if kind < 0.5:
            return f"at_least(2, {term(0)}, {term(0)}, {term(0)})"
        if kind < 0.6:
            return f"~{term(depth - 1)}"
        return f"({term(depth - 1)} {rng.choice(['&', '|', '-'])} {term(depth - 1)})"

    def condition(depth: int) -> str:
        kind = rng.random()
        if depth == 0 or kind < 0.3:
            return term(1)
        if kind < 0.5:
            return f"{condition(depth - 1)} and not {term(1)}"
        return f"({condition(depth - 1)} {rng.choice(['and', 'or'])} {condition(depth - 1)})"

    options: dict[str, Any] = {"top": int(rng.choice([1, 5, 20, 200]))}
    is_condition = rng.random() < 0.6
    if rng.random() < 0.3:
        options["why"] = True
    if rng.random() < 0.3:
        options["filter"] = [
            Filter(label="a"), Filter(folder="photos"), Filter(after="2000", file_dates=True), Filter(before="1990"),
        ][rng.integers(4)]  # fmt: skip
    if rng.random() < 0.3:
        options["include_queries"] = True
    if not is_condition and rng.random() < 0.4:
        options["score"] = str(rng.choice(["degrees", "containment", "cross-entropy"]))
    return (condition(2) if is_condition else term(2)), options


def answer(gallery: Gallery, formula: str, options: dict[str, Any]) -> Any:
    """Return the hits of a formula, or what the error says."""
    try:
        return list(gallery.search(formula, **options))
    except AndornotError as error:
        return f"{type(error).__name__}: {error}"


def compare(folder: Path, number: int, count: int, seed: int, shards: int, between: Callable[[int], None]) -> int:
    """Search for random formulas in process and on the cluster; how many had hits."""
    local, far = Gallery.open(folder), Gallery.open(folder, cluster="auto", shards=shards)
    rng = np.random.default_rng(seed)
    found = 0
    for step in range(number):
        formula, options = random_formula(rng, count)
        expected = answer(local, formula, options)
        between(step)
        assert answer(far, formula, options) == expected, (formula, options)
        found += isinstance(expected, list) and bool(expected)
    return found


def make(folder: Path, count: int, address: str | None, steps: bool = True) -> Path:
    """Index images in two folders, on the cluster or in this process."""
    if not (folder / "photos").exists():
        photos(folder / "photos" / "a", count // 2)
        photos(folder / "photos" / "b", count - count // 2, start=count // 2)
        (folder / "photos" / "broken.png").write_bytes(b"no image")
        save_image(folder / "photos" / "copy of 3.png", 3)
    made = folder / ("g" if address else "expected")
    gallery = Gallery.create(made, recipe=seeing_recipe())
    if steps:
        with small_steps():
            encoding.BATCH = 16
            gallery.add(folder / "photos", cluster=address)
    else:
        gallery.add(folder / "photos", cluster=address)
    gallery.define("pair", "000.png | 001.png")
    return made


class TestThreeNodes:
    pytestmark = with_ray

    @pytest.mark.usefixtures("nodes")
    def test_indexed_and_searched_on_a_cluster_a_gallery_is_the_same(self, tmp_path):
        made = make(tmp_path, 60, "auto")
        assert_identical(made, make(tmp_path, 60, None))
        assert compare(made, 12, 60, 0, 3, lambda _: None) > 6
        gallery = Gallery.open(made, cluster="auto", shards=3)
        before = gallery.search("000.png", top=100)
        photos(tmp_path / "photos" / "a", 5, start=100)
        assert gallery.update(cluster="auto").added == 5
        assert len(gallery.search("000.png", top=100)) == len(before) + 5
        assert gallery.search("104.png and not 001.png", top=9) == Gallery.open(made).search(
            "104.png and not 001.png", top=9
        )

    @pytest.mark.slow
    @pytest.mark.usefixtures("nodes")
    def test_two_hundred_random_formulas_have_the_same_hits(self, tmp_path):
        made = make(tmp_path, 700, "auto", steps=False)
        assert_identical(made, make(tmp_path, 700, None, steps=False))
        assert compare(made, 200, 700, 1, 4, lambda _: None) > 100

    @pytest.mark.slow
    def test_a_node_that_is_killed_while_searching_changes_no_answer(self, nodes, tmp_path):
        made = make(tmp_path, 300, None)

        def kill(step: int) -> None:
            if step in (5, 15):  # while the search is under way
                killing.append(threading.Timer(0.005, nodes.kill_one))
                killing[-1].start()

        killing: list[threading.Timer] = []
        assert compare(made, 30, 300, 2, 3, kill) > 15
        for timer in killing:
            timer.join()

    @pytest.mark.slow
    def test_a_node_that_is_killed_while_indexing_loses_nothing(self, nodes, tmp_path):
        expected = make(tmp_path, 500, None)
        written = tmp_path / "g" / "images.lance" / "data"

        def kill_twice() -> None:
            for count in (5, 15):
                while not written.exists() or len([*written.iterdir()]) < count:
                    time.sleep(0.01)
                nodes.kill_one()

        killing = threading.Thread(target=kill_twice, daemon=True)
        killing.start()
        made = make(tmp_path, 500, "auto")
        killing.join(60)
        assert not killing.is_alive()
        assert_identical(made, expected)


# --- a local cluster that the command starts ------------------------------------------------------------------------


def processes_below(pid: int) -> dict[int, str]:
    """Return what a process has started, and what that has, with their command lines."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, rest = int(status.parent.name), status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(rest[1]), []).append(number)
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            waiting.append(child)
            try:
                found[child] = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
    return found


def is_running(pid: int) -> bool:
    """Return whether there is such a process, and not only its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def running_index(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "andornot", "index", str(folder / "photos"), "--gallery", str(folder / "g")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return subprocess.Popen(
        [*command, "--model", str(folder / "model"), "--cluster", "local"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    return [pid for pid, line in processes_below(process.pid).items() if line.startswith("ray::_encode_there")]


def wait_for(condition: Callable[[], Any], process: subprocess.Popen[str], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)


class TestLocal:
    pytestmark = with_ray + [pytest.mark.slow]  # noqa: RUF005

    @pytest.fixture
    def prepared(self, tmp_path) -> Path:
        """Images, a model, and the gallery that an index without a cluster makes, `expected`."""
        photos(tmp_path / "photos", 700)
        for number in range(0, 700, 50):  # so that every batch takes long enough to be seen and killed
            large = Image.fromarray(pixels(1000 + number)).resize((3000, 3000))
            large.save(tmp_path / "photos" / f"{number:03} large.png", compress_level=1)
        save_image(tmp_path / "photos" / "copy of 3.png", 3)
        (tmp_path / "photos" / "broken.png").write_bytes(b"no image")
        small_model().save(tmp_path / "model")
        Gallery.create(tmp_path / "expected", tmp_path / "model").add(tmp_path / "photos")
        return tmp_path

    def test_workers_that_are_killed_at_random_lose_nothing(self, prepared):
        rng = np.random.default_rng(0)
        running = running_index(prepared)
        killed = 0
        wait_for(lambda: workers_of(running), running)
        while running.poll() is None and killed < 6:
            for worker in workers_of(running)[:1]:
                os.kill(worker, signal.SIGKILL)
                killed += 1
            time.sleep(rng.random() / 2)
        output = running.communicate(timeout=300)[0]
        assert running.returncode == 0, output
        assert killed
        assert "715 added" in output
        assert_identical(prepared / "g", prepared / "expected")

    def test_a_driver_that_is_killed_leaves_no_process_and_a_rerun_resumes(self, prepared):
        running = running_index(prepared)
        wait_for(lambda: workers_of(running), running)
        below = processes_below(running.pid)
        time.sleep(0.5)
        running.kill()
        running.communicate()
        deadline = time.monotonic() + 120  # Ray's own agents look only now and then whether they are needed
        while left := {pid: line for pid, line in below.items() if is_running(pid)}:
            assert time.monotonic() < deadline, left
            time.sleep(0.1)
        again = running_index(prepared)
        output = again.communicate(timeout=300)[0]
        assert again.returncode == 0, output
        mine, theirs = contents(prepared / "g"), contents(prepared / "expected")
        assert mine.keys() == theirs.keys()
        for path, activations in mine.items():
            np.testing.assert_array_equal(activations, theirs[path], err_msg=path)

    def test_ctrl_c_stops_it_cleanly(self, prepared):
        running = running_index(prepared)
        wait_for(lambda: workers_of(running), running)
        running.send_signal(signal.SIGINT)
        output = running.communicate(timeout=60)[0]
        assert running.returncode in (0, 130), output
        assert "Traceback" not in output
