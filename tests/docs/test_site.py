"""The documentation as built: no dead link, every public name, and pages that fit a desktop and a phone."""

import json
import os
import re
import shutil
import subprocess
import threading
from functools import partial
from html import unescape
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import colangevin

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
WIDTHS = (1280, 390)

pytestmark = pytest.mark.site


def pages() -> list[Path]:
    found = sorted(SITE.rglob("*.html"))
    assert found, f"{SITE} is not built; run make docs"
    return [path for path in found if path.name != "404.html"]


class Page(HTMLParser):
    """The links and the ids of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.ids.add(value)
            if (tag, name) in {("a", "href"), ("link", "href"), ("img", "src"), ("script", "src")} and value:
                self.links.append(value)


def test_no_link_is_dead():
    read = {path: Page(path.read_text(encoding="utf-8")) for path in pages()}
    dead = []
    for path, page in read.items():
        if path.name == "report.html":
            continue  # it links to itself alone, by a script
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            anchor = unquote(parts.fragment)
            known = anchor in read[target].ids if anchor and target in read else target.exists()
            if not known and not anchor.startswith("__"):  # those of the theme's own switches
                dead.append((path.relative_to(SITE).as_posix(), link))
    assert dead == []


def test_nothing_is_loaded_from_elsewhere():
    outside = re.compile(r'<(?:script|img|link rel="stylesheet")[^>]*(?:src|href)="https?://[^"]*"')
    assert {path: found for path in pages() if (found := outside.findall(path.read_text("utf-8")))} == {}


def test_every_public_name_has_its_place():
    text = "\n".join(path.read_text(encoding="utf-8") for path in (SITE / "reference").glob("*.html"))
    modules = {
        "colangevin": colangevin,
        "constraints": colangevin.constraints,
        "diagnostics": colangevin.diagnostics,
        "schedules": colangevin.schedules,
    }
    names = {name for module in modules.values() for name in module.__all__}
    titles = set(re.findall(r'id="colangevin\.(?:\w+\.)*(\w+)"', text))
    assert names - titles == set()


def test_every_tutorial_printed_and_drew_something():
    for path in (SITE / "tutorials").glob("*.html"):
        text = path.read_text(encoding="utf-8")
        if path.stem != "index":
            assert "<figure>" in text, path
            assert 'class="result"' in text, path


# One page loads all others in a frame, as wide as a desktop or a phone, and says what sticks out.
LOOK = """<!doctype html><meta charset="utf-8"><body><script>
const pages = PAGES, widths = WIDTHS, out = [];
const pause = (ms) => new Promise((go) => setTimeout(go, ms));
(async () => {
  for (const width of widths) for (const page of pages) {
    const frame = document.createElement("iframe");
    frame.style.cssText = `width:${width}px;height:900px;border:0`;
    const loaded = new Promise((go) => { frame.onload = go; });
    frame.src = page;
    document.body.append(frame);
    await loaded;
    await pause(page.endsWith("report.html") ? 8000 : 300);
    const inner = frame.contentDocument, root = inner.scrollingElement;
    const wide = root.scrollWidth - root.clientWidth;
    const clipped = [...inner.querySelectorAll("figure svg, .pictures img, .legend")].filter((each) => {
      const box = each.getBoundingClientRect();
      return box.width && (box.left < -1 || box.right > root.clientWidth + 1);
    }).length;
    const tops = [...inner.querySelectorAll(".pictures img")].map((each) => each.getBoundingClientRect().top);
    const dark = getComputedStyle(inner.body).backgroundColor;
    out.push({ page, width, wide, clipped, rows: new Set(tops).size, dark });
    frame.remove();
  }
  const pre = document.createElement("pre");
  pre.id = "seen";
  pre.textContent = JSON.stringify(out);
  document.body.append(pre);
})();
</script>"""


@pytest.fixture(scope="module")
def address():
    """The site, served."""
    names = [path.relative_to(SITE).as_posix() for path in pages()]
    look = LOOK.replace("PAGES", json.dumps(names)).replace("WIDTHS", json.dumps(WIDTHS))

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self):
            if self.path != "/look":
                return super().do_GET()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(look.encode())

        def log_message(self, *_):
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=os.fspath(SITE)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/look"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_a_desktop_and_a_phone(address, scheme, tmp_path):
    browser = shutil.which("chromium")
    if browser is None:
        assert not os.environ.get("CI"), "chromium is not installed; .ci/run installs it"
        pytest.skip("needs chromium: apt-get install chromium")
    answer = subprocess.run(
        [
            *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--blink-settings=preferredColorScheme={('dark', 'light').index(scheme)}",
            *("--window-size=1400,1000", "--virtual-time-budget=600000", "--dump-dom", address),
        ],
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=True,
    )
    found = re.search(r'<pre id="seen">(.*?)</pre>', answer.stdout, re.DOTALL)
    assert found, answer.stderr[-2000:]
    seen = json.loads(unescape(found[1]))
    assert len(seen) == len(pages()) * len(WIDTHS)
    assert [each for each in seen if each["wide"] > 0] == []
    assert [each for each in seen if each["clipped"]] == []
    # the two pictures of the first page stand side by side, on a phone one below the other
    assert {each["width"]: each["rows"] for each in seen if each["page"] == "index.html"} == {1280: 1, 390: 2}
    shades = {sum(map(int, re.findall(r"\d+", each["dark"])[:3])) < 384 for each in seen}
    assert shades == {scheme == "dark"}
