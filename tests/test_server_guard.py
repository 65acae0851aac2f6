"""What the server refuses: other names, other sites, no token, paths that lead out, bodies too large or too slow."""

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import PIL.Image
import pytest

import wherein
from wherein.server.models import check_method
from wherein.server.problems import Problem
from wherein.server.settings import Settings

HERE = "/api/v1/collections/pictures"
Serve = Callable[..., str]
HTTP = httpx.Client(trust_env=False, verify=False)


@pytest.fixture(scope="module", autouse=True)
def _closing() -> Iterator[None]:
    yield
    HTTP.close()


def kind(answer: httpx.Response) -> str:
    return str(answer.json()["error"]["kind"])


@pytest.fixture
def filled(collection: wherein.Collection, folder: Path) -> Path:
    collection.add(folder)
    return folder


NAMES = [("localhost", 200), ("127.0.0.1", 200), ("[::1]", 200), ("evil.example", 421), ("127.0.0.1.evil.example", 421)]


@pytest.mark.parametrize(("name", "status"), NAMES)
def test_only_our_own_names_are_answered(served: str, name: str, status: int) -> None:
    answer = HTTP.get(f"{served}{HERE}", headers={"host": name})
    assert answer.status_code == status
    if status == 421:
        assert kind(answer) == "HostNotAllowed"


def test_a_further_name_can_be_allowed(filled: Path, serve: Serve) -> None:
    address = serve(filled, settings=Settings(hosts=("pictures.example",)))
    answer = HTTP.get(f"{address}{HERE}", headers={"host": "pictures.example"})
    assert answer.status_code == 200


FOREIGN = [
    ("another site", {"origin": "https://evil.example"}),
    ("another port", {"origin": "http://127.0.0.1:1"}),
    ("a file or a sandbox", {"origin": "null"}),
    ("a browser that says so", {"sec-fetch-site": "cross-site"}),
    ("a sister site", {"sec-fetch-site": "same-site"}),
    ("no address at all", {"origin": "http://["}),
]


@pytest.mark.parametrize("headers", [case[1] for case in FOREIGN], ids=[case[0] for case in FOREIGN])
def test_other_sites_cannot_write(served: str, headers: dict[str, str]) -> None:
    answer = HTTP.post(f"{served}{HERE}/tags", json={"tag": "x", "image_ids": ["red.png"]}, headers=headers)
    assert (answer.status_code, kind(answer)) == (403, "Forbidden")
    assert HTTP.get(f"{served}{HERE}/tags").json() == {}


@pytest.mark.parametrize("act", ["remove", "compact", "check", "calibrate", "uncalibrate"])
def test_nor_can_they_look_after_a_collection(served: str, act: str) -> None:
    answer = HTTP.post(
        f"{served}{HERE}/{act}", json={"image_ids": ["red.png"]}, headers={"origin": "https://evil.example"}
    )
    assert (answer.status_code, kind(answer)) == (403, "Forbidden")
    assert HTTP.get(f"{served}{HERE}").json()["images"] == 4


def test_the_page_itself_can_write(served: str) -> None:
    headers = {"origin": served, "sec-fetch-site": "same-origin"}
    answer = HTTP.post(f"{served}{HERE}/tags", json={"tag": "x", "image_ids": ["red.png"]}, headers=headers)
    assert answer.json() == {"x": 1}


def test_a_link_from_elsewhere_may_open_the_page(served: str) -> None:
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert HTTP.get(f"{served}/", headers=headers).status_code == 200


def test_a_token_is_asked_for_everywhere_but_health(filled: Path, serve: Serve) -> None:
    address = serve(filled, settings=Settings(token="secret"))
    with httpx.Client(base_url=address, trust_env=False, verify=False) as client:
        assert client.get("/api/v1/health").status_code == 200
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic secret"}):
            answer = client.get(HERE, headers=headers)
            assert (answer.status_code, kind(answer)) == (401, "TokenNeeded")
        assert client.get("/openapi.json").status_code == 401
        assert client.get(HERE, headers={"authorization": "Bearer secret"}).status_code == 200


@pytest.mark.parametrize(("host", "token"), [("0.0.0.0", None), ("::", None), ("0.0.0.0", ""), ("127.0.0.1", " ")])
def test_no_server_is_made_that_others_reach_without_a_token(host: str, token: str | None) -> None:
    with pytest.raises(wherein.InputError, match="token"):
        Settings(host=host, token=token)


def test_the_printed_address_leaves_a_cookie_that_scripts_cannot_read(filled: Path, serve: Serve) -> None:
    address = serve(filled, settings=Settings(token="secret"))
    with httpx.Client(base_url=address, trust_env=False, verify=False) as client:
        answer = client.get("/?token=secret")
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert "HttpOnly; SameSite=Strict" in answer.headers["set-cookie"]
        assert client.get(HERE).status_code == 200
    assert HTTP.get(f"{address}/?token=wrong").headers.get("set-cookie") is None


LEADING_OUT = [
    "../secret.png",
    "holiday/../../secret.png",
    "/etc/passwd",
    "..%2fsecret.png",
    "%2e%2e/secret.png",
    "....//secret.png",
    "..\\secret.png",
    "holiday\\..\\..\\secret.png",
    "\x00red.png",
    "red.png\x00.jpg",
    "．．/secret.png",
    "file:///etc/passwd",
    ".wherein/manifest.json",
    ".wherein/catalogue.sqlite",
]


@pytest.mark.parametrize("route", ["original", "thumb", "image"])
def test_only_images_of_the_collection_can_be_read(served: str, folder: Path, route: str) -> None:
    PIL.Image.new("RGB", (8, 8)).save(folder.parent / "secret.png")
    for image_id in LEADING_OUT:
        answer = HTTP.get(f"{served}{HERE}/{route}", params={"image_id": image_id})
        assert (answer.status_code, kind(answer)) == (404, "ImageNotFound"), image_id


ODD_PATHS = ["/web/../app.py", "/web/%2e%2e%2fserver%2fapp.py", "/web/..%5capp.py", "/web//etc/passwd"]


@pytest.mark.parametrize("path", ODD_PATHS)
def test_the_page_has_no_files_but_its_own(served: str, path: str) -> None:
    host, port = served.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as raw:  # a client would tidy the path first
        raw.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
        assert raw.makefile("rb").readline().split()[1] == b"404"


def test_a_link_that_leads_out_is_not_followed(filled: Path, serve: Serve) -> None:
    outside = filled.parent / "private.png"
    PIL.Image.new("RGB", (64, 48), "purple").save(outside)
    (filled / "red.png").unlink()
    (filled / "red.png").symlink_to(outside)
    answer = HTTP.get(f"{serve(filled)}{HERE}/original", params={"image_id": "red.png"})
    assert (answer.status_code, kind(answer)) == (404, "NotFound")


def test_a_file_that_is_no_image_any_more_is_not_sent(filled: Path, serve: Serve, paint: Callable[..., Path]) -> None:
    paint(filled / "plain", "green", format="png")
    with wherein.open(filled) as collection:
        collection.add(filled)
    address = serve(filled)
    assert HTTP.get(f"{address}{HERE}/original", params={"image_id": "plain"}).status_code == 200
    (filled / "plain").write_text("a secret")
    answer = HTTP.get(f"{address}{HERE}/original", params={"image_id": "plain"})
    assert (answer.status_code, kind(answer)) == (404, "NotFound")


def test_originals_are_sent_as_they_are(served: str, folder: Path) -> None:
    answer = HTTP.get(f"{served}{HERE}/original", params={"image_id": "red.png"})
    assert answer.content == (folder / "red.png").read_bytes()
    assert answer.headers["content-type"] == "image/png"
    assert "sandbox" in answer.headers["content-security-policy"]


def test_bodies_are_capped_whether_they_say_their_length_or_not(filled: Path, serve: Serve) -> None:
    address = serve(filled, settings=Settings(max_upload_bytes=1000))
    said = HTTP.post(f"{address}{HERE}/examples", content=b"x" * 1001)
    assert (said.status_code, kind(said)) == (413, "TooLarge")
    unsaid = HTTP.post(f"{address}{HERE}/examples", content=iter([b"x" * 600, b"x" * 600]))
    assert (unsaid.status_code, kind(unsaid)) == (413, "TooLarge")


def test_pixels_are_capped(filled: Path, serve: Serve) -> None:
    address = serve(filled, settings=Settings(max_upload_pixels=64 * 48 - 1))
    data = (filled / "red.png").read_bytes()
    answer = HTTP.post(f"{address}{HERE}/examples", content=data)
    assert (answer.status_code, kind(answer)) == (413, "OversizedImage")
    said = "the upload: has more than the 3,071 pixels taken here. Send it smaller."
    assert answer.json()["error"]["message"] == said
    query = {"query": '{"parts": [{"upload": "mine"}]}'}
    answer = HTTP.post(f"{address}{HERE}/search/upload", data=query, files={"images": ("mine", data)})
    assert (answer.status_code, kind(answer)) == (413, "OversizedImage")


def test_a_body_that_does_not_come_is_given_up(filled: Path, serve: Serve) -> None:
    address = serve(filled, settings=Settings(upload_seconds=0.3))
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as raw:
        head = f"POST {HERE}/examples HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-length: 100\r\n\r\n"
        raw.sendall(head.encode() + b"x")
        raw.settimeout(10)
        started = time.monotonic()
        assert raw.makefile("rb").readline().split()[1] == b"408"
        assert time.monotonic() - started < 5


@pytest.mark.parametrize("path", ["/", "/api/v1/health", "/nothing", "/web/main.js"])
def test_every_answer_tells_browsers_what_they_may_do(served: str, path: str) -> None:
    headers = HTTP.get(f"{served}{path}").headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("path", ["/", "/api/v1/health", "/web/main.js", f"{HERE}/thumb?image_id=red.png"])
def test_head_is_answered_as_get_is_without_the_body(served: str, path: str) -> None:
    asked, whole = HTTP.head(f"{served}{path}"), HTTP.get(f"{served}{path}")
    assert (asked.status_code, asked.content) == (200, b"")
    assert asked.headers["content-length"] == str(len(whole.content))


def test_nothing_on_the_page_comes_from_outside() -> None:
    page = Path(wherein.__file__ or "").parent / "web"
    files = sorted(page.iterdir())
    for path in files:
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text, path.name
        assert "https://" not in text, path.name
        assert "innerHTML" not in text, path.name
    assert sum(path.stat().st_size for path in files) <= 200_000


@pytest.mark.parametrize("method", ["onnx:/tmp", "toy+locate~onnx:/tmp", "asmk:midlevel:onnx:/tmp", "toy:4"])
def test_a_request_cannot_name_a_folder_of_models(served: str, method: str) -> None:
    parts = [{"words": "red"}]
    judged: dict[str, object] = {"judgements": [{"parts": parts, "right": ["red.png"]}]}
    for path, more in (("search", {"parts": parts}), ("calibrate", judged)):
        answer = HTTP.post(f"{served}{HERE}/{path}", json={"method": method, **more})
        assert (answer.status_code, "folder of models" in answer.text) == (422, True), path


def test_a_folder_beside_that_of_the_collection_s_own_models_cannot_be_named(folder: Path) -> None:
    mine = f"onnx:{folder}/mine"
    check_method(f"{mine}+locate", {mine})
    for method in (f"{mine}/../evil", f"{mine}2", f"onnx:{folder}/mine/"):
        with pytest.raises(Problem, match="folder of models"):
            check_method(method, {mine})


@pytest.mark.parametrize("into", ["pictures", None])
def test_an_index_job_cannot_name_a_folder_of_models(served: str, folder: Path, into: str | None) -> None:
    asked = {"folder": str(folder / "holiday"), "collection": into}
    for more in ({"encoder": "onnx:/tmp"}, {"layers": ["global", "local:midlevel:onnx:/tmp"]}):
        answer = HTTP.post(f"{served}/api/v1/jobs", json={**asked, **more})
        assert (answer.status_code, "folder of models" in answer.text) == (422, True), more
    assert not (folder / "holiday" / ".wherein").exists()
    assert HTTP.get(f"{served}/api/v1/jobs").json() == []


def test_indexing_stays_below_the_allowed_roots(filled: Path, serve: Serve) -> None:
    address = f"{serve(filled)}/api/v1"
    (filled / "out").symlink_to(filled.parent)
    for folder in (str(filled.parent), "/", f"{filled}/../", f"{filled}/out", "~nobody-here", "\x00"):
        answer = HTTP.post(f"{address}/jobs", json={"folder": folder})
        assert answer.status_code in (403, 404), folder
    listed = HTTP.get(f"{address}/folders", params={"path": str(filled)}).json()
    assert [Path(path).name for path in listed["folders"]] == ["holiday"]
