"""The scripts that `hpcml job` prints, on a real Slurm: a private one of four nodes, brought up on this machine for these tests."""

import json
import re

import pytest
from support.make import dataset, random_data
from support.private_slurm import cancel, hpcml, kill_rank, node_down, preempt, signal

OPTIONS = ("--epsilon", "0.01", "--no-dormant", "--checkpoint-every", "0.1")  # long enough to be disturbed
TWO = ("--nodes", "2", "--ranks-per-node", "1")
MORE = pytest.mark.more("disturbances")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    X, Y = random_data(7, 6000, 600, 60, density=0.05)
    return dataset(tmp_path_factory.mktemp("data") / "data.h5", X, Y, splits={"test": range(5000, 6000), "train": range(5000)})


@pytest.fixture(scope="module")
def undisturbed(data, slurm, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "undisturbed"
    hpcml("train", "probe", data, "-o", run, *OPTIONS)
    return run / "model.h5"


def starts(run):
    """The lines of environment.jsonl, one for each start of a run."""
    return [json.loads(line) for line in (run / "environment.jsonl").read_text().splitlines()]


def has_checkpoint(run):
    return bool(list(run.glob("checkpoint/state-*.h5")))


def test_cluster_is_found_sound(slurm, tmp_path):
    job = slurm.submit("check", tmp_path / "check", "--nodes", "2", "--ranks-per-node", "2", options=("--mem=500M",))
    assert slurm.end_of(job) == [0], slurm.printed(job)
    printed = slurm.printed(job)
    assert "ok       ranks: 4 on 2 nodes, 2 a node" in printed
    assert re.search(r"ok       memory: 524 MB on node\d \(Slurm's --mem\); rows and weights may take 131 MB", printed)
    assert "gave the model of rank 0 alone" in printed
    assert "everything that training needs works" in printed


@pytest.mark.parametrize("disturb", [signal, node_down, pytest.param(preempt, marks=MORE)])
def test_disturbed_job_is_queued_again_and_resumes(slurm, data, undisturbed, tmp_path, disturb):
    run = tmp_path / "run"
    job = slurm.submit("train", "probe", data, "-o", run, *OPTIONS, *TWO, "--requeue", "--directive=--exclusive")
    slurm.until(job, lambda: has_checkpoint(run), "checkpoint")
    disturb(slurm, job)
    assert slurm.end_of(job) == [0], slurm.printed(job)
    assert "resuming from" in slurm.printed(job)  # not from the beginning
    assert (run / "model.h5").read_bytes() == undisturbed.read_bytes()
    first, *later = starts(run)
    assert len(later) == 1
    assert first["ranks"] == 2
    assert sorted(first["nodes"].values()) == [1, 1]
    assert later[-1]["variables"]["SLURM_JOB_ID"] == job
    assert later[-1]["variables"]["SLURM_RESTART_COUNT"] == "1"
    assert {path.name for path in tmp_path.iterdir()} == {"run"}


def test_job_whose_time_is_up_goes_on_until_it_is_done(slurm, data, undisturbed, tmp_path):
    run = tmp_path / "run"
    (seconds,) = re.findall(r"trained 60 labels in ([\d.]+) s", (undisturbed.parent / "log.txt").read_text())
    limit = f"{float(seconds) / 4:.3f}"
    script = slurm.script("train", "probe", data, "-o", run, *OPTIONS, *TWO, "--time-limit", limit, "--requeue")
    job = slurm.submit_script(script.replace("starts < 20", "starts < 99"))
    assert slurm.end_of(job, limit=400) == [0], slurm.printed(job)  # a start takes up to 17 s
    assert (run / "model.h5").read_bytes() == undisturbed.read_bytes()
    restarts = len(starts(run)) - 1
    assert restarts >= 1 and f"Restarts={restarts}" in slurm.show(job)


def test_number_of_starts_is_limited(slurm, data, undisturbed, tmp_path):
    run = tmp_path / "run"
    words = ("train", "probe", data, "-o", run, *OPTIONS, "--time-limit", "0.05", "--requeue")
    script = slurm.script(*words)
    assert "starts < 20" in script
    job = slurm.submit_script(script.replace("starts < 20", "starts < 2"))
    assert slurm.end_of(job) == [75], slurm.printed(job)
    assert "Restarts=1" in slurm.show(job) and len(starts(run)) == 2
    assert "not requeued after 2 starts; submit the script again to continue" in slurm.printed(job)
    assert slurm.end_of(slurm.submit_script(script.replace("--time-limit 0.05", ""))) == [0]
    assert (run / "model.h5").read_bytes() == undisturbed.read_bytes()


def test_job_that_lost_a_rank_fails_and_goes_on_when_it_is_submitted_again(slurm, data, undisturbed, tmp_path):
    run = tmp_path / "run"
    script = slurm.script("train", "probe", data, "-o", run, *OPTIONS, *TWO, "--requeue")
    job = slurm.submit_script(script)
    slurm.until(job, lambda: has_checkpoint(run), "checkpoint")
    kill_rank(slurm, job)
    (code,) = slurm.end_of(job)
    assert code not in (0, 75), slurm.printed(job)
    assert slurm.states(job) == ["FAILED"] and "Restarts=0" in slurm.show(job)
    again = slurm.submit_script(script)
    assert slurm.end_of(again) == [0], slurm.printed(again)
    assert "resuming from" in slurm.printed(again)
    assert (run / "model.h5").read_bytes() == undisturbed.read_bytes()


@MORE
def test_cancelled_job_stays_cancelled(slurm, data, tmp_path):
    run = tmp_path / "run"
    job = slurm.submit("train", "probe", data, "-o", run, *OPTIONS, *TWO, "--requeue")
    slurm.until(job, lambda: has_checkpoint(run), "checkpoint")
    cancel(slurm, job)
    slurm.end_of(job)
    assert slurm.states(job) == ["CANCELLED"]
    assert "Restarts=0" in slurm.show(job)


@MORE
def test_job_without_requeue_is_not_started_twice(slurm, data, tmp_path):
    run = tmp_path / "run"
    job = slurm.submit("train", "probe", data, "-o", run, *OPTIONS, *TWO)
    slurm.until(job, lambda: has_checkpoint(run), "checkpoint")
    node_down(slurm, job)
    slurm.end_of(job)
    assert slurm.states(job) == ["NODE_FAIL"] and len(starts(run)) == 1


def test_launcher_of_another_mpi_is_one_sentence(slurm, data, tmp_path):
    words = ("--nodes", "2", "--ranks-per-node", "2", "--launcher", "srun --mpi=none")
    job = slurm.submit("train", "probe", data, "-o", tmp_path / "run", *words)
    assert slurm.end_of(job) == [2]
    assert "the launcher started 4 ranks (SLURM_STEP_NUM_TASKS=4) but MPI sees only one" in slurm.printed(job)
    assert not (tmp_path / "run").exists()


def test_jobs_of_label_parts_make_the_model_of_one_run(slurm, data, undisturbed, tmp_path):
    parts = [("train", "probe", data, "-o", tmp_path / f"part-{k}", "--label-part", f"{k}/3", *OPTIONS) for k in (1, 2, 3)]
    for job in [slurm.submit(*part) for part in parts]:
        assert slurm.end_of(job) == [0], slurm.printed(job)
    hpcml("merge", *(tmp_path / f"part-{k}" for k in (3, 1, 2)), "-o", tmp_path / "whole")
    assert (tmp_path / "whole" / "model.h5").read_bytes() == undisturbed.read_bytes()
