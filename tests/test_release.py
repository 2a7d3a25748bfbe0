"""The release workflow agrees with the build: what it demands exists, and what it tests is said."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import colangevin
from colangevin.info import info

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def jobs() -> Any:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
    # YAML 1.1 reads the key "on" as true
    assert workflow[True] == {"push": {"tags": ["v*"]}}
    return workflow["jobs"]


@pytest.fixture(scope="module")
def settings() -> Any:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["cibuildwheel"]


def uses(job: Any) -> list[str]:
    """The actions of a job, without their versions."""
    return [step["uses"].partition("@")[0] for step in job["steps"] if "uses" in step]


def test_nothing_is_published_before_everything_is_built(jobs: Any) -> None:
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}
    assert "pypa/cibuildwheel" in uses(jobs["wheels"])


def test_every_artifact_of_a_build_reaches_the_publisher(jobs: Any) -> None:
    for name in ("wheels", "sdist"):
        assert uses(jobs[name])[-1] == "actions/upload-artifact"
    assert uses(jobs["publish"]) == ["actions/download-artifact", "pypa/gh-action-pypi-publish"]


def test_publishing_needs_no_secret(jobs: Any) -> None:
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in str(jobs)


def test_the_build_demands_the_library_by_the_name_that_the_hook_reads(settings: Any) -> None:
    (name,) = settings["environment"]
    assert f'"{name}"' in (ROOT / "hatch_build.py").read_text(encoding="utf-8")


def test_a_wheel_is_tested_by_words_that_info_says(settings: Any) -> None:
    (words,) = re.findall(r"grep -q '(.*)'", settings["test-command"])
    assert words.endswith(": in use")
    assert words.removesuffix("in use") in info()


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.stem)
def test_every_workflow_and_template_is_yaml(path: Path) -> None:
    assert yaml.safe_load(path.read_text(encoding="utf-8"))


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == colangevin.__version__


def test_the_changelog_begins_with_this_version() -> None:
    found = re.search(r"^## \[([^]]+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    assert found[1] in {"Unreleased", colangevin.__version__}
