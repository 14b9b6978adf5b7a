"""Indexing on a Ray cluster: the same gallery, whoever is killed meanwhile."""

import os
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from galleries import contents, photos, pixels, save_picture, tiny_model
from PIL import Image

from andornot.commands.main import main
from andornot.gallery import Gallery, GalleryError, cluster, encoding
from andornot.gallery.cluster import Cluster, _Digests
from andornot.gallery.encoding import Encoded, encode_files
from andornot.gallery.scanning import Scanned
from andornot.model import Model

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed: pip install 'andornot[ray]'")
with_ray = [
    pytest.mark.slow,
    needs_ray,
    pytest.mark.xdist_group("ray"),
    # What Ray's own modules warn of.
    pytest.mark.filterwarnings("ignore"),
]


def assert_identical(one: Gallery, other: Gallery) -> None:
    """The same pictures under the same ids, to the last bit."""
    mine, theirs = contents(one), contents(other)
    assert [*mine] == [*theirs]
    assert one.ids == other.ids
    for path, features in mine.items():
        np.testing.assert_array_equal(features, theirs[path], err_msg=path)
    assert one.broken == other.broken


# --- addresses ------------------------------------------------------------------------------------------------------


def test_without_ray_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr(cluster, "find_spec", lambda _: None)
    with pytest.raises(GalleryError, match=r"a cluster needs ray: pip install 'andornot\[ray\]'"):
        Cluster("local")


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
        port = listening.getsockname()[1]
    photos(tmp_path / "photos", 2)
    command = ["index", str(tmp_path / "photos"), "--gallery", str(tmp_path / "g")]
    assert main([*command, "--cluster", f"ray://127.0.0.1:{port}"]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"andornot: there is no Ray cluster at ray://127.0.0.1:{port}: Connection refused; ")
    assert len(told.splitlines()) == 1


@needs_ray
def test_somebody_else_at_the_address_is_one_line_after_a_moment(monkeypatch):
    monkeypatch.setattr(cluster, "_CONNECT_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"ray://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(GalleryError, match=f"what is at {address} does not answer as a Ray cluster does"):
            Cluster(address)


@needs_ray
def test_auto_is_the_cluster_of_the_environment_or_a_local_one(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert Cluster("auto")._address == "local"
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
    assert len(known) == 100


def test_a_file_that_only_its_node_cannot_see_is_told_with_the_node_and_tried_again(tmp_path):
    """A picture that the gallery has stays, and nothing is concluded."""
    gallery = Gallery.create(tmp_path / "g", tiny_model())
    gallery.add(photos(tmp_path / "photos", 3))
    save_picture(tmp_path / "photos" / "001.png", 77)
    unseen = cluster._placed(Scanned(str(tmp_path / "photos" / "001.png"), -1, -1, reason="No such file or directory"))
    assert unseen.reason == f"No such file or directory (on {socket.gethostname()})"
    summary = _index_with(gallery, tmp_path / "photos", lambda *_: iter([Encoded([unseen], [], None)]))
    assert summary.broken == {unseen.path: unseen.reason}
    assert len(gallery) == 3
    assert gallery.update().changed == 1


def _index_with(gallery, folder, encode):
    from andornot.gallery.indexing import Indexing
    from andornot.gallery.scope import look_through
    from andornot.gallery.writer import open_writer

    with open_writer(gallery.folder) as writer:
        scope = look_through([str(folder)], writer.snapshot.paths, prune=False)
        summary = Indexing(writer, gallery.model, scope, encode=encode).run(progress=False)
    gallery.refresh()
    return summary


def test_what_is_known_is_not_encoded(tmp_path, monkeypatch):
    folder = photos(tmp_path, 5)
    paths = sorted(map(str, folder.glob("*.png")))
    model = tiny_model()
    monkeypatch.setattr(encoding, "BATCH", 3)
    first = [*encode_files(paths, model, ())]
    assert [len(part.files) for part in first] == [3, 2]
    assert sum(len(part.fresh) for part in first) == 5
    known = {item.digest for item in first[0].files}
    assert [len(part.fresh) for part in encode_files(paths, model, known)] == [0, 2]


def test_many_pictures_that_are_expected_are_accelerated_from_the_first(monkeypatch):
    """Or the first ones of a process had other last digits than they have elsewhere."""
    model = tiny_model()
    monkeypatch.setattr(Model, "_accelerated_maps", "fast")
    assert model._maps_for(1) != "fast"
    model.expect(10**6)
    assert model._maps_for(1) == "fast"


# --- with a local cluster -------------------------------------------------------------------------------------------


def processes_below(pid: int) -> dict[int, str]:
    """What a process has started, and what that has, with their command lines."""
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
    """Whether there is such a process, and not only its exit code, which nobody has asked for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def running_index(folder: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "andornot", "index", str(folder / "photos"), "--gallery", str(folder / "g")]
    return subprocess.Popen(
        [*command, "--model", str(folder / "model"), "--cluster", "local", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    return [pid for pid, line in processes_below(process.pid).items() if line.startswith("ray::_encode_there")]


def wait_for(condition, process: subprocess.Popen[str], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)


class TestRay:
    pytestmark = with_ray

    @pytest.fixture
    def prepared(self, tmp_path) -> Path:
        """Pictures, a model, and the gallery that an index without a cluster makes, `expected`."""
        photos(tmp_path / "photos", 700)
        for number in range(0, 700, 50):  # so that every batch takes long enough to be seen and killed
            large = Image.fromarray(pixels(1000 + number)).resize((3000, 3000))
            large.save(tmp_path / "photos" / f"{number:03} large.png", compress_level=1)
        save_picture(tmp_path / "photos" / "copy of 3.png", 3)
        (tmp_path / "photos" / "broken.png").write_bytes(b"no picture")
        tiny_model().save(tmp_path / "model")
        Gallery.create(tmp_path / "expected", tmp_path / "model").add(tmp_path / "photos")
        return tmp_path

    def test_the_gallery_is_the_same_to_the_last_bit(self, prepared):
        running = running_index(prepared)
        output = running.communicate(timeout=300)[0]
        assert running.returncode == 0, output
        assert "715 added" in output
        assert_identical(Gallery.open(prepared / "g"), Gallery.open(prepared / "expected"))
        gallery = Gallery.open(prepared / "g")
        assert gallery.update(cluster="local").unchanged == 715, "nothing is new, and no cluster is asked"

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
        assert_identical(Gallery.open(prepared / "g"), Gallery.open(prepared / "expected"))

    def test_a_driver_that_is_killed_leaves_no_process_and_the_same_command_goes_on(self, prepared):
        running = running_index(prepared)
        wait_for(lambda: workers_of(running), running)
        below = processes_below(running.pid)
        time.sleep(0.5)
        running.kill()
        running.communicate()
        deadline = time.monotonic() + 120  # Ray's own agents look only now and then whether they are wanted
        while left := {pid: line for pid, line in below.items() if is_running(pid)}:
            assert time.monotonic() < deadline, left
            time.sleep(0.1)
        again = running_index(prepared)
        output = again.communicate(timeout=300)[0]
        assert again.returncode == 0, output
        assert_identical(Gallery.open(prepared / "g"), Gallery.open(prepared / "expected"))

    def test_ctrl_c_stops_it_cleanly(self, prepared):
        running = running_index(prepared)
        wait_for(lambda: workers_of(running), running)
        running.send_signal(signal.SIGINT)
        output = running.communicate(timeout=60)[0]
        assert running.returncode in (0, 130), output
        assert "Traceback" not in output
