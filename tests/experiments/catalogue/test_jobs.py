import pytest

from colangevin.experiments.catalogue.index import EXPERIMENTS, find
from colangevin.experiments.catalogue.jobs import jobs
from colangevin.experiments.catalogue.parts import Part
from tests.experiments.tiny import experiment


@pytest.mark.parametrize("what", EXPERIMENTS, ids=lambda each: each.name)
def test_jobs_cover_everything_once_and_have_files_of_their_own(what):
    made = jobs(what)
    covered = [(job.part.name, m.name, run) for job in made for m in job.methods for run in job.runs]
    expected = [(p.name, m.name, run) for p in what.parts for m in p.methods for run in range(what.runs)]
    assert sorted(covered) == sorted(expected)
    assert len({job.name for job in made}) == len({job.slug for job in made}) == len(made)
    assert all(job.slug.isascii() for job in made)


def test_a_stacked_part_is_one_job_under_its_own_name():
    what = experiment(parts=2, runs=3)
    assert [(job.name, job.slug, job.runs) for job in jobs(what)] == [
        ("part 1", "part-1", (0, 1, 2)),
        ("part 2", "part-2", (0, 1, 2)),
    ]


def test_first_runs_come_first():
    what = find("transformer")
    made = jobs(what)
    each = sum(len(part.methods) for part in what.parts)
    assert not any(isinstance(part, Part) for part in what.parts)
    assert {job.runs for job in made[:each]} == {(0,)}
    assert made[0].name == "Penn Treebank: c-CoLud, run 1"
    assert made[0].slug == "penn-treebank.c-colud.1"
