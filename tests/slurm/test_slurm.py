"""Training jobs by the scripts that `hpcml job` prints (checks, time limits, signals, failures), and the commands of the pages."""

import json
import re
import subprocess
import sys

import pytest
from support.document_commands import TOP, blocks
from support.make import dataset, random_data
from support.private_slurm import hpcml, kill_rank, signal

OPTIONS = ("--epsilon", "0.01", "--no-dormant", "--checkpoint-every", "0.1")  # long enough to be disturbed
PAGES = [page for page in sorted(TOP.glob("docs/**/*.md")) if any(block.launcher for block in blocks(page.read_text()))]
TWO = ("--nodes", "2", "--ranks-per-node", "1")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    X, Y = random_data(7, 6000, 600, 60, density=0.05)
    return dataset(tmp_path_factory.mktemp("data") / "data.h5", X, Y, splits={"test": range(5000, 6000), "train": range(5000)})


@pytest.fixture(scope="module")
def undisturbed(data, slurm, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "undisturbed"
    hpcml("train", "probe", data, "-o", run, *OPTIONS)
    return (run / "model.h5").read_bytes()


@pytest.fixture(scope="module")
def limited(data, slurm, tmp_path_factory):
    """A job that may start twice and train for 0.05 s each time, and its run; it runs at the same time as other tests."""
    run = tmp_path_factory.mktemp("limited") / "run"
    script = slurm.script("train", "probe", data, "-o", run, *OPTIONS, "--time-limit", "0.05", "--requeue")
    assert "starts < 20" in script
    return slurm.submit_script(script.replace("starts < 20", "starts < 2")), run


def wait_for_checkpoint(slurm, job, run):
    slurm.until(job, lambda: list(run.glob("checkpoint/state-*.h5")), "checkpoint")


def read_starts(run):
    return [json.loads(line) for line in (run / "environment.jsonl").read_text().splitlines()]


def test_check_reports_ranks_and_memory(slurm, limited, tmp_path):
    job = slurm.submit("check", tmp_path / "check", "--nodes", "2", "--ranks-per-node", "2", options=("--mem=500M",))
    assert slurm.end_of(job) == [0], slurm.printed(job)
    printed = slurm.printed(job)
    assert "ok       ranks: 4 on 2 nodes, 2 per node" in printed
    assert re.search(r"ok       memory: 524 MB on node\d \(Slurm's --mem\); 131 MB per rank for rows and weights", printed)


def test_signalled_ranges_of_an_array_are_requeued_resume_and_merge(slurm, limited, data, undisturbed, tmp_path):
    words = ("train", "probe", data, "-o", tmp_path / "part-1", *OPTIONS, *TWO, "--requeue", "--label-part", "1/2")
    script = slurm.script(*words, "--directive=--exclusive", "--directive=--array=1-2")
    for own, of_task in (("part-1", "part-$SLURM_ARRAY_TASK_ID"), (" 1/2", " $SLURM_ARRAY_TASK_ID/2")):
        script = script.replace(own, of_task)
    job = slurm.submit_script(script)
    parts = [tmp_path / "part-1", tmp_path / "part-2"]
    for part in parts:
        wait_for_checkpoint(slurm, job, part)
    signal(slurm, job)
    assert slurm.end_of(job) == [0, 0], slurm.printed(job)
    assert slurm.printed(job).count("resuming from") == 2
    for part in parts:
        first, second = read_starts(part)
        assert first["ranks"] == 2 and sorted(first["nodes"].values()) == [1, 1]
        assert second["variables"]["SLURM_RESTART_COUNT"] == "1"
    hpcml("merge", *parts, "-o", tmp_path / "whole")
    assert (tmp_path / "whole" / "model.h5").read_bytes() == undisturbed
    assert {path.name for path in tmp_path.iterdir()} == {"part-1", "part-2", "whole"}


def test_job_that_lost_a_rank_fails_and_resumes_when_submitted_again(slurm, limited, data, undisturbed, tmp_path):
    run = tmp_path / "run"
    script = slurm.script("train", "probe", data, "-o", run, *OPTIONS, *TWO, "--requeue")
    job = slurm.submit_script(script)
    wait_for_checkpoint(slurm, job, run)
    kill_rank(slurm, job)
    (code,) = slurm.end_of(job)
    assert code not in (0, 75), slurm.printed(job)
    assert slurm.states(job) == ["FAILED"] and "Restarts=0" in slurm.show(job)
    again = slurm.submit_script(script)
    assert slurm.end_of(again) == [0], slurm.printed(again)
    assert "resuming from" in slurm.printed(again)
    assert (run / "model.h5").read_bytes() == undisturbed


@pytest.mark.more("disturbances")
def test_cancelled_job_is_not_requeued(slurm, limited, data, tmp_path):
    job = slurm.submit("train", "probe", data, "-o", tmp_path / "run", *OPTIONS, *TWO, "--requeue")
    wait_for_checkpoint(slurm, job, tmp_path / "run")
    slurm.run("scancel", job)
    slurm.end_of(job)
    assert slurm.states(job) == ["CANCELLED"] and "Restarts=0" in slurm.show(job)


def test_job_that_reaches_its_time_limit_is_requeued_a_limited_number_of_times(slurm, limited):
    job, run = limited
    assert slurm.end_of(job) == [75], slurm.printed(job)
    assert "Restarts=1" in slurm.show(job) and len(read_starts(run)) == 2
    assert "resuming from" in slurm.printed(job)
    assert "not requeued after 2 starts" in slurm.printed(job)
    assert not (run / "model.h5").exists()


def test_pages(slurm):
    assert {page.name for page in PAGES} == {"cluster.md", "jobs.md"}
    command = [sys.executable, TOP / "tests" / "support" / "document_commands.py", *PAGES]
    result = subprocess.run(command, env=slurm.env, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
