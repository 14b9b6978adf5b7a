"""Who is slow, stalls or asks for too much takes nothing from the others, and nothing keeps the server from ending."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path

import httpx
import pytest
from serving import image, served, small_gallery, wait_until

from andornot.gallery import Gallery, queries
from andornot.gallery.names import BoundFormula
from andornot.logic import Formula, FormulaError
from andornot.web import connections, search_routes, services
from andornot.web.errors import StoppingError
from andornot.web.snapshots import WorkerPool

HALF = b"GET /api/gallery HTTP/1.1\r\nHost: localhost\r\n"
UPLOAD = b"POST /api/uploads HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: 9999\r\n\r\n"


@pytest.fixture(scope="module")
def gallery(tmp_path_factory) -> Gallery:
    return small_gallery(tmp_path_factory.mktemp("endurance"))


@contextmanager
def connected(client: httpx.Client, count: int, sent: bytes = b"") -> Iterator[list[socket.socket]]:
    """So many connections that have sent that much."""
    with ExitStack() as stack:
        opened = []
        for _ in range(count):
            address = client.base_url.host, client.base_url.port
            connection = stack.enter_context(socket.create_connection(address, 30))
            connection.sendall(sent)
            opened.append(connection)
        yield opened


def answer(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    received = bytearray()
    try:
        while part := connection.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return bytes(received)


# --- connections --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET",
        HALF,
        HALF + b"\r\n" + HALF,
        # The body is nobody's: the answer comes without it, and its rest is not waited for.
        b"GET /help HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx",
    ],
    ids=["nothing", "a word", "half a head", "half of a second head", "half a body that nobody reads"],
)
def test_half_a_request_is_not_waited_for(gallery, monkeypatch, caplog, sent):
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.3)
    with served(gallery) as client, connected(client, 5, sent) as stalled:
        for connection in stalled:
            for _ in range(100):  # drop by drop it does not last longer either
                try:
                    connection.sendall(b"x" if sent else b"")
                except OSError:
                    break
                time.sleep(0.01)
            answer(connection)
        assert client.get("/api/gallery").status_code == 200
    assert not caplog.records


CHUNKED = b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("address", [b"POST /api/uploads", b"POST /api/nothing", b"GET /api/gallery"])
@pytest.mark.parametrize("body", [b"zz\r\nabc", b"3\r\nabc\r\nzz\r\n", b"3\r\nabcdef\r\n", b"0\r\nwrong\r\n\r\n"])
def test_a_body_in_wrong_chunks_is_refused_without_a_word_in_the_log(gallery, caplog, capfd, address, body):
    with served(gallery) as client:
        for pause in (0, 0.01, 0.1):
            with connected(client, 1, address + CHUNKED) as [connection]:
                time.sleep(pause)
                connection.sendall(body)
                connection.shutdown(socket.SHUT_WR)
                assert answer(connection).startswith((b"HTTP/1.1 400", b"HTTP/1.1 404", b"HTTP/1.1 200"))
        assert client.get("/api/gallery").status_code == 200
    assert not caplog.records
    assert capfd.readouterr().err == ""


def test_a_request_may_take_longer_than_to_ask_for_it(gallery, monkeypatch):
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.2)
    plain = Gallery.search

    def slow(self: Gallery, *args: object, **kwargs: object) -> object:
        time.sleep(0.6)
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(Gallery, "search", slow)
    with served(gallery) as client:
        for _ in range(2):
            assert client.get("/api/search", params={"formula": "1"}).status_code == 200


def test_connections_that_ask_for_nothing_make_room_for_those_that_ask(gallery, monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 8)
    with served(gallery) as client, connected(client, 40, HALF) as stalled:
        with httpx.Client(base_url=client.base_url, timeout=30) as newcomer:
            assert newcomer.get("/api/gallery").status_code == 200
        assert [answer(connection) for connection in stalled[:20]] == [b""] * 20  # the oldest ones had to go


def test_an_answer_that_nobody_reads_does_not_stay(gallery, monkeypatch):
    monkeypatch.setattr(connections, "READING_SECONDS", 0.3)
    large = Path(gallery.paths[0])
    content = large.read_bytes()
    try:
        with large.open("r+b") as file:
            file.truncate(300_000_000)
        asked = b"GET /api/download?formula=1&include_queries=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with served(gallery) as client, connected(client, 4, asked):

            def is_served() -> bool:
                with client.stream("GET", "/api/download?formula=2&top=1") as response:
                    return response.status_code == 200

            time.sleep(0.1)
            wait_until(is_served)
    finally:
        large.write_bytes(content)


# --- uploads --------------------------------------------------------------------------------------------------------


def test_stalled_uploads_do_not_keep_others_from_theirs(gallery, monkeypatch):
    monkeypatch.setattr(search_routes, "STALL_SECONDS", 0.5)
    with served(gallery) as client, connected(client, 10, UPLOAD) as stalled:
        time.sleep(0.2)
        content = BytesIO()
        image(1).save(content, "PNG")
        headers = {"Content-Type": "image/png"}
        assert client.post("/api/uploads", content=content.getvalue(), headers=headers).status_code == 200
        for connection in stalled:
            told = answer(connection)
            assert told.startswith(b"HTTP/1.1 408")
            assert b'"code":"timeout"' in told


def test_an_upload_drop_by_drop_is_cut_off_and_a_slow_one_is_not(gallery, monkeypatch):
    monkeypatch.setattr(search_routes, "STALL_SECONDS", 0.5)
    content = BytesIO()
    image(1, (300, 300)).save(content, "PNG")

    def slowly(size: int) -> Iterator[bytes]:
        whole = content.getvalue()
        for start in range(0, len(whole), size):
            yield whole[start : start + size]
            time.sleep(0.1)

    def sent(size: int) -> int:
        return client.post("/api/uploads", content=slowly(size), headers={"Content-Type": "image/png"}).status_code

    with served(gallery) as client:
        assert sent(len(content.getvalue()) // 10) == 200
        monkeypatch.setattr(search_routes, "MIN_BYTES_PER_SECOND", 10**9)
        assert sent(len(content.getvalue()) // 50) == 408


# --- what is no file ------------------------------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path) -> Gallery:
    return small_gallery(tmp_path)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("put", [pipe, device])
def test_a_pipe_or_a_device_in_the_place_of_an_image_blocks_nothing(own, put):
    put(Path(own.paths[0]))
    with served(own) as client:
        for what in ("thumbnail", "image") * 2:  # more than there are threads
            response = client.get(f"/api/images/1/{what}")
            assert response.status_code == 404
            assert response.json()["error"]["code"] == "broken-image"
        assert client.get("/api/images/1").status_code == 200
        packed = client.get("/api/download", params={"formula": "1", "include_queries": 1, "top": 30})
        names = zipfile.ZipFile(BytesIO(packed.content)).namelist()
        assert len(names) == 24  # 23 images and the list
        assert not any(name.endswith("cat-0.png") for name in names)
        assert client.get("/api/images/2/thumbnail").status_code == 200


# --- searches -------------------------------------------------------------------------------------------------------


@contextmanager
def slow_searches(monkeypatch: pytest.MonkeyPatch, slow: str) -> Iterator[threading.Event]:
    """Searches for one formula take until the event is set."""
    go_on, plain = threading.Event(), Gallery.search

    def search(self: Gallery, queries: list[BoundFormula], *args: object, **kwargs: object) -> object:
        if any(query.formula.text == slow for query in queries):
            assert go_on.wait(60)
        return plain(self, queries, *args, **kwargs)

    monkeypatch.setattr(Gallery, "search", search)
    try:
        yield go_on
    finally:
        go_on.set()


def found(client: httpx.Client, formula: str) -> httpx.Response:
    return client.get("/api/search", params={"formula": formula})


def test_a_long_search_does_not_hold_up_the_others(gallery, monkeypatch):
    with slow_searches(monkeypatch, "1") as go_on, served(gallery) as client, ThreadPoolExecutor(1) as pool:
        slow = pool.submit(found, client, "1")
        time.sleep(0.2)
        for formula in ("2", "3", "4 & 5"):
            assert found(client, formula).status_code == 200
        assert not slow.done()
        go_on.set()
        assert slow.result(30).status_code == 200


def test_formulas_that_may_take_seconds_do_not_hold_up_the_others(gallery, monkeypatch):
    slow = "1 & (1 | 2)"
    with slow_searches(monkeypatch, slow) as go_on, served(gallery) as client, ThreadPoolExecutor(20) as pool:
        waiting = [pool.submit(found, client, slow) for _ in range(20)]
        wait_until(lambda: sum(future.done() for future in waiting) == 12)  # eight work or wait: the others hear so
        for formula in ("2", "3 | 4"):
            assert found(client, formula).status_code == 200
        go_on.set()
        assert sorted(future.result(30).status_code for future in waiting) == [200] * 8 + [503] * 12


def test_crops_do_not_hold_up_the_others(gallery, monkeypatch):
    """Neither those of formulas nor those that names are defined by, whatever else is in the formula."""
    gallery.define("corner", "3[0, 0, 0.5, 0.5]")
    slow = ("1[0, 0, 0.5, 0.5]", "corner", "2[0, 0, 0.5, 0.5] & (2 | 3) & 2")
    go_on, plain = threading.Event(), queries.decode

    def decode(path: str) -> object:
        assert go_on.wait(60)
        return plain(path)

    monkeypatch.setattr(queries, "decode", decode)
    with served(gallery) as client, ThreadPoolExecutor(24) as pool:
        try:
            waiting = [pool.submit(found, client, slow[number % 3]) for number in range(24)]
            wait_until(lambda: sum(future.done() for future in waiting) == 16)  # eight work or wait
            for formula in ("2", "3 | 4", "1 & (1 | 2)"):
                begin = time.monotonic()
                assert found(client, formula).status_code == 200
                assert time.monotonic() - begin < 5
        finally:
            go_on.set()
        assert sorted(future.result(30).status_code for future in waiting) == [200] * 8 + [503] * 16


def test_a_search_that_takes_too_long_says_so_and_the_next_ones_are_told_to_come_again(gallery, monkeypatch):
    monkeypatch.setattr(services, "MAX_SECONDS", 0.6)
    monkeypatch.setattr(services, "_SLOW_SECONDS", 0.01)
    with slow_searches(monkeypatch, "1") as go_on, served(gallery) as client:
        for _ in range(services.MAX_CALLS):
            too_long = found(client, "1")
            assert too_long.status_code == 504
            assert too_long.json()["error"]["code"] == "timeout"
        busy = found(client, "2")
        assert (busy.status_code, busy.headers["retry-after"]) == (503, "1")
        go_on.set()
        wait_until(lambda: found(client, "2").status_code == 200)


def test_a_formula_that_is_too_much_work_is_the_askers_mistake_alone(gallery, monkeypatch):
    plain = Formula.evaluate

    def evaluate(self: Formula, *args: object, **kwargs: object) -> object:
        if len(self.names) == 3:
            raise FormulaError("too much work", self.text, 4, code="too-expensive")
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(Formula, "evaluate", evaluate)
    formulas = ["1 | 2 | 3", "1 | 2"] * 8
    with served(gallery) as client, ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda formula: found(client, formula), formulas))
    assert [response.status_code for response in answers] == [400, 200] * 8
    error = answers[0].json()["error"]
    assert error == {"code": "too-expensive", "message": "too much work", "span": [4, 5], "suggestions": []}


# --- the end --------------------------------------------------------------------------------------------------------

SLEEPY = """
import sys, time
from andornot.commands.main import main
from andornot.gallery import Gallery
def search(*_, **__):
    print("searching", flush=True)
    time.sleep(300)
Gallery.search = search
sys.exit(main(sys.argv[1:]))
"""


@contextmanager
def process(gallery: Gallery, code: str, before: Callable[[], None] | None = None) -> Iterator[subprocess.Popen[str]]:
    """`andornot serve` after some lines of Python."""
    arguments = [sys.executable, "-c", code, "serve", "--gallery", str(gallery.folder), "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(arguments, preexec_fn=before, **pipes) as running:
        try:
            yield running
        finally:
            running.kill()


def address_of(running: subprocess.Popen[str]) -> str:
    return next(word for word in running.stdout.readline().split() if word.startswith("http"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_within_seconds_whatever_is_searched(gallery, number, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with process(gallery, SLEEPY) as running, ThreadPoolExecutor(1) as pool:
        with httpx.Client(base_url=address_of(running), timeout=60) as client, connected(client, 5, HALF):
            asked = pool.submit(found, client, "1")
            assert running.stdout.readline() == "searching\n"
            running.send_signal(number)
            assert running.wait(5) == 0
            told = asked.result(5)
        assert (told.status_code, told.json()["error"]["code"]) == (503, "stopping")
        assert len(running.stderr.read().splitlines()) <= 1
    assert not list(tmp_path.iterdir())


def test_work_for_a_pool_that_was_closed_is_refused_as_stopping():
    pool = WorkerPool("closed", 1, 1)
    pool.close()
    for run in (pool.run, pool.run_anyway, pool.run):  # its one place is not lost
        with pytest.raises(StoppingError) as refused:
            asyncio.run(run(print))
        assert (refused.value.status, refused.value.code) == (503, "stopping")


PLAIN = "import sys; from andornot.commands.main import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.slow
def test_few_open_files_are_enough_and_the_log_stays_short(gallery):
    def few_files() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))

    with process(gallery, PLAIN, few_files) as running:
        with httpx.Client(base_url=address_of(running), timeout=30) as client, connected(client, 300, HALF):
            for _ in range(3):
                assert client.get("/api/gallery").status_code == 200
        running.send_signal(signal.SIGTERM)
        assert running.wait(5) == 0
        assert len(running.stderr.read().splitlines()) <= 1
