"""The job scripts on a real Slurm: a private one of four nodes, brought up on this machine for these tests."""

import fcntl
import json
import re

import pytest
from support.make import dataset, random_data
from support.private_slurm import ROOT, cancel, hpcml, kill_both, kill_rank, kill_slurmstepd, signal, signal_script

from hpcml.run.lock import LOCK

OPTIONS = ("--epsilon", "0.01", "--no-dormant", "--checkpoint-every", "0.1")  # long enough to be disturbed

MORE = pytest.mark.more("disturbances")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    X, Y = random_data(7, 6000, 600, 60, density=0.05)
    return dataset(tmp_path_factory.mktemp("data") / "data.h5", X, Y, splits={"test": range(5000, 6000), "train": range(5000)})


@pytest.fixture(scope="module")
def undisturbed(data, slurm, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "undisturbed"
    hpcml("train", "probe", data, "-o", run, *OPTIONS)
    return (run / "model.h5").read_bytes()


def starts(run):
    """The lines of environment.jsonl, one for each start of a run."""
    return [json.loads(line) for line in (run / "environment.jsonl").read_text().splitlines()]


def test_cluster_is_found_sound(slurm):
    job = slurm.submit("slurm/test.sbatch", options=("--mem=500M",))
    assert slurm.end_of(job) == [0], slurm.printed(job)
    printed = slurm.printed(job)
    assert "ok    ranks: 4 on 2 nodes, 2 a node" in printed
    assert re.search(r"ok    memory: 524 MB on node\d \(Slurm's --mem\); rows and weights may take 131 MB", printed)
    assert "gave the model of rank 0 alone" in printed
    assert "everything that training needs works" in printed
    assert not list(ROOT.glob("hpcml-check*"))


@pytest.mark.parametrize(
    ("disturb", "launch", "said"),
    [
        (signal, "auto", "interrupted; queued again, to resume"),
        pytest.param(signal_script, "mpirun", "interrupted; queued again, to resume", marks=MORE),
        (kill_rank, "auto", "failure 1 of at most 3; queued again, to resume"),
        pytest.param(kill_slurmstepd, "auto", "; it is ended now", marks=MORE),
        (kill_both, "auto", " a slurmstepd was killed, or a node is lost; it is ended now"),
    ],
)
def test_disturbed_job_is_queued_again_and_resumes(slurm, data, undisturbed, tmp_path, disturb, launch, said):
    run = tmp_path / "run"
    script = slurm.script("run.sbatch", LAUNCH=launch, LINGER=4, CHECK_STEP=1)
    job = slurm.submit(
        script, "train", "probe", data, "-o", run, *OPTIONS, options=("--nodes=2", "--ntasks-per-node=1", "--exclusive")
    )
    slurm.until(job, lambda: list(run.glob("checkpoint/state-*.h5")), "checkpoint")
    disturb(slurm, job)
    assert slurm.end_of(job) == [0], slurm.printed(job)
    printed = slurm.printed(job)
    assert said in printed
    assert "resuming from" in printed  # never from zero
    assert (run / "model.h5").read_bytes() == undisturbed
    first, *later = starts(run)
    assert len(later) >= 1
    assert first["ranks"] == 2
    assert sorted(first["nodes"].values()) == [1, 1]
    assert later[-1]["variables"]["SLURM_JOB_ID"] == job
    assert later[-1]["variables"]["SLURM_RESTART_COUNT"] == str(len(later))


@pytest.mark.more("disturbances")
def test_cancelled_job_stays_cancelled_and_can_be_resumed(slurm, data, undisturbed, tmp_path):
    run = tmp_path / "run"
    command = ("slurm/run.sbatch", "train", "probe", data, "-o", run, *OPTIONS)
    job = slurm.submit(*command, options=("--nodes=2", "--ntasks-per-node=1"))
    slurm.until(job, lambda: list(run.glob("checkpoint/state-*.h5")), "checkpoint")
    cancel(slurm, job)
    slurm.until(job, lambda: "unless it was cancelled" in slurm.printed(job), "end of the ranks")
    slurm.end_of(job)
    assert slurm.states(job) == ["CANCELLED"]
    assert "Restarts=0" in slurm.show(job)
    assert slurm.end_of(slurm.submit(*command, options=("--nodes=2", "--ntasks-per-node=1"))) == [0]
    assert (run / "model.h5").read_bytes() == undisturbed


def test_task_of_an_array_that_is_queued_again_leaves_the_others_alone(slurm, data, tmp_path):
    command = ("slurm/run.sbatch", "train", "probe", data, "-o", tmp_path / "run-%t", *OPTIONS)
    job = slurm.submit(*command, options=("--array=1-2",))
    slurm.until(job, lambda: len({path.parts[-3] for path in tmp_path.glob("run-*/checkpoint/state-*.h5")}) == 2, "checkpoints")
    last = next(
        number for number in ("1", "2") if slurm.show(f"{job}_{number}").startswith(f"JobId={job} ")
    )  # which has the array's number
    kill_rank(slurm, job)
    assert slurm.end_of(job) == [0, 0], slurm.printed(job)
    restarts = {number: "Restarts=1" in slurm.show(f"{job}_{number}") for number in ("1", "2")}
    assert restarts == {number: number == last for number in ("1", "2")}


def test_wrong_launcher_and_wrong_options_are_not_tried_again(slurm, data, tmp_path):
    script = slurm.script("run.sbatch", LAUNCH="srun --mpi=none")
    job = slurm.submit(script, "train", "probe", data, "-o", tmp_path / "run")
    wrong = slurm.submit("slurm/run.sbatch", "train", "probe", data, "-o", tmp_path / "run", "--loss", "hing")
    assert slurm.end_of(job) == [2]
    assert "the launcher started 4 ranks (SLURM_STEP_NUM_TASKS=4) but MPI sees only one" in slurm.printed(job)
    assert "not queued again" in slurm.printed(job)
    assert slurm.end_of(wrong) == [2]
    assert "--loss hing: expected hinge or" in slurm.printed(wrong)
    assert not (tmp_path / "run").exists()


def test_folder_in_use_is_tried_again_within_limits(slurm, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    limits = {"IN_USE_TRIES": 2, "IN_USE_PAUSE": 1, "IN_USE_DELAY": 1}
    command = ("train", "probe", dataset(tmp_path / "data.h5", *random_data(1, 50, 10, 2)), "-o", run)
    one = ("--nodes=1", "--ntasks-per-node=1")
    with (run / LOCK).open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        patient = slurm.submit(slurm.script("run.sbatch", **limits, MAX_IN_USE=9), *command, options=one)
        other = slurm.submit(slurm.script("run.sbatch", **limits, MAX_IN_USE=0), *command, options=one)
        assert slurm.end_of(other) == [73], slurm.printed(other)
        slurm.until(patient, lambda: "time 1 of at most 9; queued again" in slurm.printed(patient), "second start")
    assert slurm.printed(other).count("is in use by another process; wait for it") == 2
    assert "the run folder is in use, for the 1th time: given up" in slurm.printed(other)
    assert slurm.end_of(patient) == [0], slurm.printed(patient)
    assert "the run folder is in use; try 2 of 2 in 1 s" in slurm.printed(patient)
    assert (run / "model.h5").exists()


def test_array_of_label_parts_makes_the_model_of_one_run(slurm, data, undisturbed, tmp_path):
    job = slurm.submit(
        *("slurm/run.sbatch", "train", "probe", data, "-o", tmp_path / "part-%t", "--label-part", "%t/3", *OPTIONS),
        options=("--array=1-3", "--ntasks-per-node=1"),
    )
    assert slurm.end_of(job) == [0, 0, 0], slurm.printed(job)
    hpcml("merge", *(tmp_path / f"part-{k}" for k in (3, 1, 2)), "-o", tmp_path / "whole")
    assert (tmp_path / "whole" / "model.h5").read_bytes() == undisturbed


@pytest.mark.more("disturbances")
def test_array_of_options_makes_a_table(slurm, data, tmp_path):
    (tmp_path / "sweep.txt").write_text("--lambda X/10\n--lambda X/100 --loss huber\n")
    command = ("slurm/run.sbatch", "train", "probe", data, "-o", tmp_path / "sweep-%t", f"@{tmp_path / 'sweep.txt'}")
    job = slurm.submit(*command, options=("--array=1-3", "--ntasks-per-node=1"))
    assert sorted(slurm.end_of(job)) == [0, 0, 2], slurm.printed(job)
    assert "sweep.txt has no line 3, or it is empty; it has 2 lines" in slurm.printed(job)
    hpcml("merge", *(tmp_path / f"sweep-{k}" for k in (1, 2)), "-o", tmp_path / "sweep.csv")
    header, *lines = (tmp_path / "sweep.csv").read_text().splitlines()
    assert header.startswith("run,lambda,loss,state,labels,iterations,average_precision,")
    assert sorted(line.split(",")[1] for line in lines) == ["X/10", "X/100"]
    assert float(lines[0].split(",")[6]) >= float(lines[1].split(",")[6]) > 0
