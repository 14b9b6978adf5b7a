"""Who may ask, and what may come: everything hostile is refused with a clear line, and the server goes on."""

import io
import signal
import socket
import struct
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import pytest
from PIL import Image
from serving import command, image, served, small_gallery

from andornot.commands.main import main
from andornot.gallery import Gallery
from andornot.web import uploads

IMAGE = {"Content-Type": "image/png"}


@pytest.fixture(scope="module")
def gallery(tmp_path_factory) -> Gallery:
    return small_gallery(tmp_path_factory.mktemp("security"))


@pytest.fixture(scope="module")
def client(gallery) -> Iterator[httpx.Client]:
    with served(gallery) as client:
        yield client


def saved(image: Image.Image, form: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def png_that_says(width: int, height: int) -> bytes:
    """The beginning of an image of that size, and next to nothing of it."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * 1000))
        + chunk(b"IEND", b"")
    )


# --- what leaves ----------------------------------------------------------------------------------------------------


def test_no_path_leaves_or_enters(client, gallery, tmp_path):
    secret = tmp_path / "secret.png"
    image(1).save(secret)
    inside = gallery.paths[0]
    names = [str(secret), inside, f"~/{secret.name}", "cats/cat-1.png", "../photos/cats/cat-1.png", "/etc/passwd"]
    for name in names:
        for address in ("search", "formula"):
            response = client.get(f"/api/{address}", params={"formula": f'"{name}"'})
            assert response.status_code == 400
            assert response.json()["error"]["code"] == "unknown-name"
        assert client.get("/api/compare", params={"a": name, "b": "1"}).status_code == 404
    addresses = ["gallery", "images", "images/1", "images/1/similar", "features", "features/1", "compare?a=1&b=2"]
    addresses += ["search?formula=1&why=1", "formula?formula=1", "search?formula=twin.png", "search?formula=x"]
    addresses += ["download?formula=1&format=csv", "download?formula=1", "openapi.json", "docs", "images?label=x"]
    for address in addresses:
        assert str(gallery.folder.parent).encode() not in client.get(f"/api/{address}").content, address


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/%2e%2e/app.py",
        "/static/..%5capp.py",
        "/static//etc/passwd",
        "/static/%2fetc/passwd",
        "/static/js/../../../__init__.py",
        "/../../etc/passwd",
        "/api/images/..%2f..%2fetc%2fpasswd/image",
        "/api/images/1%00/image",
        "/api/uploads/..%2f..%2fetc%2fpasswd/thumbnail",
        "/api/uploads/upload-0123456789abcdef%0a/thumbnail",
        "/api/uploads/upload-0123456789abcdef/thumbnail",
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(client, path):
    # Through a socket: a client library would tidy the path up.
    with socket.create_connection((client.base_url.host, client.base_url.port), 10) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.split()[1] in (b"400", b"404")
    assert b'"error"' in answer


@pytest.mark.parametrize("identity", ["0", "-1", "25", "1.5", "x", "9" * 19, "9" * 400, "1e3", "%F0%9F%98%80"])
@pytest.mark.parametrize("what", ["", "/thumbnail", "/image", "/similar"])
def test_foreign_ids_are_refused(client, identity, what):
    response = client.get(f"/api/images/{identity}{what}")
    assert response.status_code in (400, 404)
    assert response.json()["error"]["code"] in ("invalid-parameter", "not-found")


def test_every_answer_has_the_headers_that_keep_browsers_from_mistakes(client):
    for address in ("/", "/static/index.html", "/api/gallery", "/api/images/1/image", "/api/nothing", "/nothing"):
        headers = client.get(address).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in headers or headers["server"] == "uvicorn"


# --- who asks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8008", 200),
        ("127.0.0.1:80", 200),
        ("[::1]:8008", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example:8008", 403),
        ("192.168.1.7:8008", 403),
        ("", 403),
    ],
)
def test_only_its_own_host_is_served(client, host, status):
    assert client.get("/api/gallery", headers={"Host": host}).status_code == status


def test_other_addresses_have_other_names(gallery):
    with served(gallery, host="0.0.0.0") as client:
        hosts = {"192.168.1.7:8008": 200, "[fe80::1]": 200, socket.gethostname(): 200, "evil.example": 403}
        assert {host: client.get("/api/gallery", headers={"Host": host}).status_code for host in hosts} == hosts


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
    ],
)
def test_other_sites_cannot_change_anything(client, headers):
    content = saved(image(1), "PNG")
    assert client.post("/api/uploads", content=content, headers={**IMAGE, **headers}).status_code == 403
    name = client.post("/api/uploads", content=content, headers=IMAGE).json()["upload"]
    assert client.delete(f"/api/uploads/{name}", headers=headers).status_code == 403
    own = {"Origin": str(client.base_url), "Sec-Fetch-Site": "same-origin"}
    assert client.delete(f"/api/uploads/{name}", headers=own).status_code == 204


def test_other_sites_cannot_look_but_may_link(client):
    for mode, status in (("no-cors", 403), ("cors", 403), ("navigate", 200)):
        headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": mode}
        assert client.get("/api/images/1/image", headers=headers).status_code == status
        assert client.get("/", headers=headers).status_code == status


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1"])
def test_a_foreign_origin_is_refused_whatever_is_asked(client, origin):
    for address in ("/", "/api/gallery", "/api/images/1/image", "/api/search?formula=1", "/static/index.html"):
        for method in ("GET", "HEAD"):
            assert client.request(method, address, headers={"Origin": origin}).status_code == 403
            assert client.request(method, address, headers={"Origin": str(client.base_url)}).status_code == 200


def test_the_scheme_of_a_token_is_bearer_in_any_case(gallery):
    with served(gallery, host="0.0.0.0", token="the-token") as client:
        given = {
            "Bearer the-token": 200,
            "bearer the-token": 200,
            "BEARER  the-token": 200,
            "the-token": 401,
            "Basic the-token": 401,
            "Bearer": 401,
            "Bearerthe-token": 401,
        }
        answers = {one: client.get("/api/gallery", headers={"Authorization": one}).status_code for one in given}
        assert answers == given


def test_a_token_is_needed_where_there_is_one(gallery):
    with served(gallery, host="0.0.0.0", token="the-token") as client:
        for address in ("/", "/static/index.html", "/api/gallery", "/api/images/1/thumbnail", "/api/docs"):
            assert client.get(address).status_code == 401
            for wrong in ("the-toke", "the-token-", "ü", "x"):
                headers = {"Authorization": f"Bearer {wrong}".encode()}
                assert client.get(address, headers=headers).status_code == 401
                assert client.get(address, params={"token": wrong}).status_code == 401
        assert client.post("/api/uploads?token=the-token", content=b"x", headers=IMAGE).status_code == 401
        refusal = client.get("/api/gallery")
        assert refusal.headers["www-authenticate"] == "Bearer"
        assert refusal.json()["error"]["code"] == "invalid-token"
        assert client.get("/api/gallery", headers={"Authorization": "Bearer the-token"}).status_code == 200
        assert not client.cookies
        opened = client.get("/compare?a=1&token=the-token&b=x%26y")
        assert (opened.status_code, opened.headers["location"]) == (303, "/compare?a=1&b=x%26y")
        cookie = opened.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert client.get("/api/gallery").status_code == 200  # the client has the cookie now
        assert client.get("/").status_code == 200


def test_the_way_to_the_cookie_does_not_lead_elsewhere(gallery):
    with served(gallery, host="0.0.0.0", token="the-token") as client:
        for path in ("//evil.example/", "/%5cevil.example", "/%0d%0aSet-Cookie:x=y"):
            with socket.create_connection((client.base_url.host, client.base_url.port), 10) as connection:
                request = f"GET {path}?token=the-token HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                connection.sendall(request.encode())
                answer = b"".join(iter(lambda: connection.recv(65536), b"")).decode().lower()
            location = next(line for line in answer.splitlines() if line.startswith("location:"))
            assert location.startswith("location: /")
            assert not location.startswith(("location: //", "location: /\\"))
            assert answer.count("\nset-cookie:") == 1


# --- what comes -----------------------------------------------------------------------------------------------------


ADDRESSES = ("", "help", "static/index.html", "api/gallery", "api/search", "api/images/1/thumbnail", "api/nothing")
QUERIES = {
    "10,000 parameters": ("&".join(f"a{n}" for n in range(10_000)), 414),
    "5,000 parameters": ("&".join(f"a{n}" for n in range(5_000)), 400),
    "131 parameters": ("&" * 130, 400),
    "a long one": ("a=" + "x" * 48_000, 414),
}


@pytest.mark.parametrize(("query", "status"), QUERIES.values(), ids=QUERIES.keys())
@pytest.mark.parametrize("token", [None, "the-token"])
def test_a_query_of_too_much_is_refused_before_it_is_parsed(gallery, query, status, token):
    with served(gallery, token=token) as client:
        for address in ADDRESSES:
            begin = time.monotonic()
            response = client.get(f"/{address}?{query}", headers={"Host": "localhost"})
            assert response.status_code == status
            assert response.json()["error"]["code"] == {414: "query-too-long", 400: "too-many-parameters"}[status]
            assert time.monotonic() - begin < 1
        assert client.post(f"/api/uploads?{query}", content=b"x", headers=IMAGE).status_code == status
        page = client.get(f"/?{query}", headers={"Accept": "text/html"})
        assert page.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("token", [None, "the-token"])
def test_a_cookie_of_anything_is_read_at_once(gallery, token):
    with served(gallery, token=token) as client:
        own = f"andornot-{client.base_url.port}=the-token"
        begin = time.monotonic()
        for cookie in ('a="' + r"\a" * 30_000 + '"', ";" * 60_000, "a=" * 30_000):
            assert client.get("/api/gallery", headers={"Cookie": cookie}).status_code == (401 if token else 200)
        assert time.monotonic() - begin < 2
        assert client.get("/api/gallery", headers={"Cookie": f"x=y; {own}; z"}).status_code == 200


def test_the_longest_query_that_is_of_use_is_answered(client):
    formula = "|".join(2 * [f'"{"🦄" * 980}"'])
    response = client.get("/api/search", params={"formula": formula, "folder": "🦄" * 1000, "label": "🦄" * 300})
    assert response.status_code == 400
    assert response.json()["error"]["code"] not in ("query-too-long", "too-many-parameters")


def test_formulas_are_bounded(client):
    for formula in ("a" * 10_000, "1 | " * 2_500 + "1", "(" * 10_000, "~" * 1_999 + "1", " | ".join(["1"] * 65)):
        for address in ("search", "formula", "download"):
            response = client.get(f"/api/{address}", params={"formula": formula})
            assert response.status_code == 400
            assert len(response.json()["error"]["message"]) < 300


PAIRS = ", ".join(f"({n} | {n + 10}), ({n} & {n + 1})" for n in range(1, 11))
DIFFERENCES = " | ".join(f"({n} - {n % 16 + 1})" for n in range(1, 17))


@pytest.mark.parametrize("formula", [f"at_least(10, {PAIRS})", DIFFERENCES])
def test_a_formula_that_would_take_minutes_is_refused_before_it_starts(client, formula):
    response = client.get("/api/search", params={"formula": formula})
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "too-expensive"
    independent = client.get("/api/search", params={"formula": formula, "semantics": "independent"})
    assert independent.status_code == 200


@pytest.mark.parametrize(
    "parameters",
    [
        {"top": 0},
        {"top": 1001},
        {"top": "many"},
        {"top": "9" * 5000},
        {"score": "magic"},
        {"logic": "none"},
        {"semantics": "none"},
        {"why": "perhaps"},
        {"label": "x" * 301},
        {"after": "2024-13-45"},
        {"before": "0000"},
        {"unknown": 1},
    ],
)
def test_wrong_parameters_are_named(client, parameters):
    response = client.get("/api/search", params={"formula": "1", **parameters})
    assert response.status_code == 400
    assert response.json()["error"].keys() == {"code", "message"}
    assert response.json()["error"]["code"] in ("invalid-parameter", "invalid-filter", "unsupported-query")


NONSENSE = [
    "",
    "{}",
    "[]",
    "null",
    "NaN",
    "-1",
    "9" * 30,
    "\0",
    "\r\n",
    "1; DROP TABLE",
    "99999-01",
    "0000",
    "٣",
    "🦄",
    "../..",
]


@pytest.mark.parametrize(
    ("address", "names"),
    [
        ("search?formula=1", ["top", "score", "logic", "semantics", "label", "after", "before", "why", "where"]),
        ("search", ["formula", "where"]),
        ("download?formula=1", ["format", "label", "before"]),
        ("images", ["offset", "limit", "order", "label", "after", "where"]),
        ("features", ["order", "offset", "limit"]),
        ("compare?a=1", ["b", "features"]),
        ("images/1/thumbnail", ["v"]),
    ],
)
def test_nonsense_is_never_a_fault_of_the_server(client, address, names):
    for name in names:
        for value in NONSENSE:
            url = httpx.URL(f"{client.base_url}/api/{address}").copy_merge_params({name: value})
            assert client.get(url).status_code in (200, 400, 404), (name, value)


def test_an_upload_that_is_too_large_is_refused_however_it_is_sent(client):
    too_large = b"\0" * (uploads.MAX_BYTES + 1)

    def unannounced() -> Iterator[bytes]:
        for start in range(0, len(too_large), 2**20):
            yield too_large[start : start + 2**20]

    for content in (too_large, unannounced()):
        response = client.post("/api/uploads", content=content, headers=IMAGE)
        assert response.status_code == 413
        assert response.json()["error"]["code"] == "too-large"


def test_an_upload_without_an_end_is_cut_off(client):
    with socket.create_connection((client.base_url.host, client.base_url.port), 30) as connection:
        connection.sendall(b"POST /api/uploads HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\n")
        connection.sendall(b"Transfer-Encoding: chunked\r\n\r\n")
        chunk = b"100000\r\n" + b"\0" * 2**20 + b"\r\n"
        sent = 0
        with suppress(ConnectionError):
            for _ in range(1000):
                connection.sendall(chunk)
                sent += 1
        assert sent < 500
    assert client.get("/api/gallery").status_code == 200


@pytest.mark.parametrize("size", [(50_000, 50_000), (2**31 - 1, 2**31 - 1), (8_000, 7_000)])
def test_an_image_of_too_many_pixels_is_refused_before_it_is_decoded(client, size):
    begin = time.monotonic()
    response = client.post("/api/uploads", content=png_that_says(*size), headers=IMAGE)
    assert response.status_code in (413, 415)
    assert time.monotonic() - begin < 5
    if size == (8_000, 7_000):
        assert response.status_code == 413
        assert response.json()["error"]["code"] == "too-large"


HOSTILE = {
    "nothing": b"",
    "text": b"hello",
    "svg": b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
    "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
    "truncated png": saved(image(1), "PNG")[:-500],
    "truncated jpeg": saved(image(1), "JPEG")[:200],
    "a tiff that points at itself": b"II*\0\x08\0\0\0\x01\0\x00\x01\x03\0\x01\0\0\0\x01\0\0\0\x08\0\0\0",
    "nearly no pixels": png_that_says(0, 1),
    "few of many pixels": png_that_says(4_000, 4_000),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_no_image_is_refused(client, content):
    response = client.post("/api/uploads", content=content, headers=IMAGE)
    assert response.status_code == 415
    assert response.json()["error"]["code"] == "not-an-image"


ODD = {
    "cmyk": saved(image(1).convert("CMYK"), "JPEG"),
    "palette with transparency": saved(image(1).quantize(8), "GIF", transparency=3),
    "animated": saved(image(1), "GIF", save_all=True, append_images=[image(n) for n in range(2, 40)]),
    "animated png": saved(image(1), "PNG", save_all=True, append_images=[image(2)]),
    "16 bits": saved(image(1).convert("I").convert("I;16"), "PNG"),
    "one bit": saved(image(1).convert("1"), "PNG"),
    "transparent webp": saved(image(1).convert("RGBA"), "WEBP"),
    "one pixel": saved(Image.new("RGB", (1, 1)), "PNG"),
    "very narrow": saved(Image.new("RGB", (20_000, 1)), "PNG"),
}


@pytest.mark.parametrize("content", ODD.values(), ids=ODD.keys())
def test_odd_images_are_images(client, content):
    response = client.post("/api/uploads", content=content, headers=IMAGE)
    assert response.status_code == 200, response.text
    name = response.json()["upload"]
    assert client.get("/api/search", params={"formula": name}).status_code == 200
    thumbnail = Image.open(io.BytesIO(client.get(f"/api/uploads/{name}/thumbnail").content))
    assert thumbnail.mode == "RGB"
    assert max(thumbnail.size) <= 256


def test_an_upload_says_that_it_is_an_image(client):
    content = saved(image(1), "PNG")
    for kind in ("text/plain", "multipart/form-data; boundary=x", ""):
        assert client.post("/api/uploads", content=content, headers={"Content-Type": kind}).status_code == 415
    assert client.put("/api/uploads", content=content, headers=IMAGE).status_code == 405


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_when_what_was_asked_is_answered(gallery, number, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with command("--gallery", str(gallery.folder), "--port", "0") as (process, address):
        content = saved(image(1, (2000, 2000)), "PNG", compress_level=0)
        with httpx.Client(base_url=address, timeout=60) as client, ThreadPoolExecutor(1) as pool:
            assert client.get("/api/gallery").status_code == 200
            assert list(tmp_path.iterdir())  # the folder of the uploads

            def slowly() -> Iterator[bytes]:
                for start in range(0, len(content), 2**20):
                    yield content[start : start + 2**20]
                    time.sleep(0.02)

            answer = pool.submit(client.post, "/api/uploads", content=slowly(), headers=IMAGE)
            time.sleep(0.3)
            process.send_signal(number)
            assert answer.result(60).status_code == 200
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "hears"), [((), True), (("--no-paths",), False), (("--host", "0.0.0.0", "--no-auth"), False)]
)
def test_paths_are_told_where_only_this_machine_can_ask(gallery, options, hears):
    with command("--gallery", str(gallery.folder), "--port", "0", *options) as (_, address):
        told = httpx.get(f"http://127.0.0.1:{httpx.URL(address).port}/api/images/1").json()
        assert told["path"] == (gallery.paths[0] if hears else None)


@pytest.mark.slow
def test_another_host_prints_a_token_that_opens_the_page(gallery):
    with command("--gallery", str(gallery.folder), "--port", "0", "--host", "0.0.0.0") as (_, address):
        port = httpx.URL(address).port
        token = httpx.URL(address).params["token"]
        assert len(token) > 30
        here = f"http://127.0.0.1:{port}"
        assert httpx.get(f"{here}/api/gallery").status_code == 401
        assert httpx.get(f"{here}/api/gallery", headers={"Authorization": f"Bearer {token}"}).status_code == 200
    with command("--gallery", str(gallery.folder), "--port", "0", "--host", "0.0.0.0", "--no-auth") as (_, address):
        assert "token" not in address
        assert httpx.get(f"http://127.0.0.1:{httpx.URL(address).port}/api/gallery").status_code == 200


def test_a_server_that_cannot_start_says_why(gallery, tmp_path, capsys):
    folder = str(gallery.folder)

    def run(*options: str) -> str:
        """The only line that is printed."""
        assert main(["serve", *options]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert len(printed.err.splitlines()) == 1
        return printed.err

    assert "there is no gallery in" in run("--gallery", str(tmp_path / "none"))
    assert "there is no gallery in" in run("--gallery", str(tmp_path))
    assert "no address of a Ray cluster" in run("--gallery", folder, "--cluster", "magic")
    assert "unknown host" in run("--gallery", folder, "--host", "no.such.host.invalid")
    assert "invalid port" in run("--gallery", folder, "--port", "99999")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"cannot use port {port} of 127.0.0.1" in run("--gallery", folder, "--port", port)


@pytest.mark.slow
def test_the_next_port_is_taken_if_none_was_asked_for(gallery):
    with command("--gallery", str(gallery.folder)) as (_, one), command("--gallery", str(gallery.folder)) as (_, other):
        assert one != other
        assert all(httpx.get(f"{address}api/gallery").status_code == 200 for address in (one, other))


@pytest.mark.parametrize("path", ["/", "/api/gallery", "/api/images/1/image"])
def test_a_websocket_upgrade_does_not_bypass_the_guard(gallery, path):
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    with served(gallery, host="0.0.0.0", token="the-token") as client:
        assert client.get(path, headers=upgrade).status_code == 401
        assert client.get(path, headers={**upgrade, "Host": "elsewhere.example"}).status_code == 403
