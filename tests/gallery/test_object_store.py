"""Galleries in an object store: the same as in a folder, and one line within seconds where there is none."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import boto3
import pytest
from moto.server import ThreadedMotoServer
from stored import photos, save_image, small_model, small_steps

from andornot.commands.main import main
from andornot.gallery import Gallery, GalleryError

# moto's server and botocore warn of their own dependencies.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.xdist_group("s3")]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Start an S3 server with one bucket; its address."""
    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    address = f"http://{host}:{port}"
    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
    boto3.client("s3", endpoint_url=address, region_name="us-east-1", **keys).create_bucket(Bucket="bucket")
    yield address
    running.stop()


@pytest.fixture
def options(server) -> dict[str, str]:
    """The settings of that server."""
    return {
        "aws_endpoint": server,
        "aws_access_key_id": "key",
        "aws_secret_access_key": "secret",
        "aws_region": "us-east-1",
        "allow_http": "true",
    }


def as_arguments(options: dict[str, str]) -> list[str]:
    return [word for key, value in options.items() for word in ("--storage-option", f"{key}={value}")]


def answers(gallery: Gallery) -> list[tuple[str, float]]:
    formulas = ("000.png", "001.png & ~002.png", "003.png and not 004.png", "pair")
    return [(hit.path, hit.distance) for formula in formulas for hit in gallery.search(formula, top=50)]


def test_a_gallery_in_a_bucket_does_all_that_one_in_a_folder_does(tmp_path, options):
    folder, model = photos(tmp_path / "photos", 30), small_model()
    galleries = [
        Gallery.create("s3://bucket/whole", model, storage_options=options),
        Gallery.create(tmp_path / "g", model),
    ]
    with small_steps():
        for gallery in galleries:
            gallery.add(folder)
            gallery.define("pair", "001.png | 002.png")
        assert answers(galleries[0]) == answers(galleries[1])
        reader = Gallery.open("s3://bucket/whole", storage_options=options)
        photos(folder, 10, start=30)
        save_image(folder / "005.png", 500)
        (folder / "006.png").unlink()
        for gallery in galleries:
            summary = gallery.update()
            assert (summary.added, summary.changed, summary.removed) == (10, 1, 1)
            gallery.recalibrate()
        assert len(reader) == 30
        assert reader.latest_version != reader.version
        reader.refresh()
        assert len(reader) == 39
        assert answers(reader) == answers(galleries[1])
        assert str(Gallery.repair("s3://bucket/whole", storage_options=options)) == "nothing was damaged"
        galleries[0].undefine("pair")
        assert galleries[0].definitions == {}
    assert galleries[0].folder is None
    with pytest.raises(GalleryError, match="holds a gallery already"):
        Gallery.create("s3://bucket/whole", model, storage_options=options)


def test_damaged_rows_in_a_bucket_are_found_and_repaired(tmp_path, server, options):
    gallery = Gallery.create("s3://bucket/damaged", small_model(), storage_options=options)
    gallery.add(photos(tmp_path / "photos", 12))
    before = gallery.search("000.png", top=50)
    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
    client = boto3.client("s3", endpoint_url=server, region_name="us-east-1", **keys)
    (found,) = client.list_objects_v2(Bucket="bucket", Prefix="damaged/images.lance/data/")["Contents"]
    content = bytearray(client.get_object(Bucket="bucket", Key=found["Key"])["Body"].read())
    stored = gallery._table.activations(gallery._table.ids[3:4]).tobytes()
    content[bytes(content).index(stored) + 5] ^= 0x40
    client.put_object(Bucket="bucket", Key=found["Key"], Body=bytes(content))
    with pytest.raises(GalleryError, match=r"003\.png have a wrong checksum; andornot index --repair"):
        Gallery.open("s3://bucket/damaged", storage_options=options).search("000.png")
    repaired = Gallery.repair("s3://bucket/damaged", storage_options=options)
    assert str(repaired).startswith("1 images were damaged: 1 are encoded again")
    again = Gallery.open("s3://bucket/damaged", storage_options=options)
    assert [hit.path for hit in again.search("000.png", top=50)] == [hit.path for hit in before]


def test_the_command_line_takes_settings_of_the_storage(tmp_path, options, capsys):
    small_model().save(tmp_path / "model")
    where = ["--gallery", "s3://bucket/commands", *as_arguments(options)]
    command = ["index", str(photos(tmp_path / "photos", 5)), *where, "--model", str(tmp_path / "model")]
    assert main(command) == 0
    assert "5 images are in s3://bucket/commands" in capsys.readouterr().out
    assert main(["define", "two", "000.png | 001.png", *where]) == 0
    assert main(["search", "two", "--json", *where]) == 0
    assert "002.png" in capsys.readouterr().out
    assert main(["search", "two", "--gallery", "s3://bucket/commands", "--storage-option", "region"]) == 2
    assert capsys.readouterr().err == 'andornot: "region" is not a storage option: write KEY=VALUE\n'


@pytest.mark.slow
def test_a_killed_index_is_resumed(tmp_path, options):
    small_model().save(tmp_path / "model")
    photos(tmp_path / "photos", 600)
    arguments = ["index", str(tmp_path / "photos"), "--gallery", "s3://bucket/killed", *as_arguments(options)]
    code = (
        "import sys; from andornot.gallery import encoding, indexing; encoding.BATCH = 16; "
        "indexing.COMMIT_SECONDS = 0.0; from andornot.commands.main import main; sys.exit(main(sys.argv[1:]))"
    )
    counts = [0]
    for step in range(4):
        running = subprocess.Popen([sys.executable, "-c", code, *arguments, "--model", str(tmp_path / "model")])
        deadline = time.monotonic() + 120
        while running.poll() is None and time.monotonic() < deadline:
            if Gallery.exists("s3://bucket/killed", options):
                now = len(Gallery.open("s3://bucket/killed", storage_options=options))
                if now > 100 * (step + 1):
                    running.send_signal(signal.SIGKILL)
                    break
        running.wait(60)
        gallery = Gallery.open("s3://bucket/killed", storage_options=options)
        counts.append(len(gallery))
        assert len(gallery.search("1", top=700, include_queries=True)) == len(gallery)
    assert counts == sorted(counts)
    assert subprocess.run([sys.executable, "-c", code, *arguments], check=False).returncode == 0
    local = Gallery.create(tmp_path / "g", tmp_path / "model")
    local.add(tmp_path / "photos")
    resumed = Gallery.open("s3://bucket/killed", storage_options=options)
    assert sorted(resumed.paths) == sorted(local.paths)
    distances = [{hit.path: hit.distance for hit in one.search("000.png", top=700)} for one in (resumed, local)]
    assert distances[0] == pytest.approx(distances[1], abs=1e-2)


# --- what is not there ----------------------------------------------------------------------------------------------


def nobody() -> str:
    """Return the address of a port at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"http://127.0.0.1:{listening.getsockname()[1]}"


def one_line(arguments: list[str], capsys: pytest.CaptureFixture[str], seconds: float = 20) -> str:
    """Run a command that fails, and return the line that it says."""
    start = time.monotonic()
    assert main(arguments) == 2
    assert time.monotonic() - start < seconds
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("andornot: ")
    assert len(line) < 500
    return line


@pytest.mark.parametrize("command", ["search", "index"])
def test_no_such_bucket_is_one_line(command, tmp_path, options, capsys):
    what = ["000.png"] if command == "search" else [str(photos(tmp_path / "photos", 2))]
    line = one_line([command, *what, "--gallery", "s3://nowhere/g", *as_arguments(options)], capsys)
    assert "s3://nowhere/g" in line
    assert "bucket does not exist" in line


def test_nobody_at_the_address_is_one_line(options, capsys):
    arguments = as_arguments({**options, "aws_endpoint": nobody()})
    line = one_line(["search", "000.png", "--gallery", "s3://bucket/g", *arguments], capsys)
    assert "s3://bucket/g cannot be reached" in line


def test_wrong_credentials_are_one_line(server, options, capsys):
    """moto checks signatures once it is told to."""
    import requests

    requests.post(f"{server}/moto-api/reset-auth", data=b"0", timeout=5)
    try:
        line = one_line(["search", "000.png", "--gallery", "s3://bucket/whole", *as_arguments(options)], capsys)
    finally:
        requests.post(f"{server}/moto-api/reset-auth", data=b"inf", timeout=5)
    assert "s3://bucket/whole cannot be reached" in line
    assert "InvalidAccessKeyId" in line


def test_no_gallery_in_the_bucket_is_one_line(options, capsys):
    line = one_line(["search", "000.png", "--gallery", "s3://bucket/none", *as_arguments(options)], capsys)
    assert "there is no gallery in s3://bucket/none" in line


@pytest.mark.parametrize("address", ["s3://", "s3:///", "http://bucket/g", "ftp://bucket/g", "s3:bucket"])
def test_what_is_no_address_is_one_line(address, capsys):
    line = one_line(["search", "000.png", "--gallery", address], capsys)
    assert address in line


def test_no_credentials_are_one_line_within_seconds(capsys, monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    line = one_line(["search", "000.png", "--gallery", "s3://bucket/g"], capsys, seconds=40)
    assert "s3://bucket/g cannot be reached" in line
