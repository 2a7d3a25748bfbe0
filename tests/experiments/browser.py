"""A page of a report in a real browser, and what a script in it sees."""

import json
import os
import re
import shutil
import subprocess
from html import unescape

import pytest

# A script before all others. Between these two comes what it looks at: ``seen`` is what it brings back,
# ``wait`` waits for something to be true, ``get`` finds an element by its id, ``use`` changes a control.
PROBE_START = """
<script>
const errors = [];
window.addEventListener("error", (e) => errors.push(e.message));
window.addEventListener("unhandledrejection", (e) => errors.push(String(e.reason)));
const complain = console.error;
console.error = (...words) => { errors.push(words.join(" ")); complain(...words); };
window.addEventListener("load", async () => {
  const wait = async (name, test) => {
    for (let i = 0; i < 1000 && !test(); i += 1) await new Promise((go) => setTimeout(go, 50));
    if (!test()) errors.push("never came: " + name);
  };
  const get = (id) => document.getElementById(id);
  const seen = {};
  const use = (control, change) => { change(control); control.dispatchEvent(new Event("change")); };
"""
PROBE_END = """
  parent.postMessage(JSON.stringify({ ...seen, errors }), "*");
});
</script>
"""
# The page in a frame, which may be as narrow as a phone; a window of chromium may not.
FRAME = """<!doctype html><pre id="seen"></pre>
<script>
addEventListener("message", (e) => { document.getElementById("seen").textContent = e.data; });
</script>
<iframe src="probe.html" style="border: 0; width: WIDTHpx; height: 900px"></iframe>
"""


def browse(report, probe, folder, width, dark=False):
    """What a probe sees of a page in a browser, in a window of that width and a light or dark scheme."""
    browser = shutil.which("chromium")
    if browser is None:
        assert not os.environ.get("CI"), "chromium is not installed; .ci/run installs it"
        pytest.skip("needs chromium: apt-get install chromium")
    text = report.read_text(encoding="utf-8").replace("<head>", "<head>" + probe, 1)
    (folder / "probe.html").write_text(text, encoding="utf-8")
    page = folder / "frame.html"
    page.write_text(FRAME.replace("WIDTH", str(width)), encoding="utf-8")
    answer = subprocess.run(
        [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--enable-logging=stderr",
            f"--user-data-dir={folder / 'profile'}",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            "--window-size=1400,1000",
            "--virtual-time-budget=100000",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        encoding="utf-8",
        timeout=240,
        check=True,
    )
    found = re.search(r'<pre id="seen">(.+?)</pre>', answer.stdout, re.DOTALL)
    assert found, answer.stderr[-2000:]
    seen = json.loads(unescape(found[1]))
    assert seen.pop("errors") == []
    said = [line for line in answer.stderr.splitlines() if "CONSOLE" in line]
    assert not said, said
    return seen
