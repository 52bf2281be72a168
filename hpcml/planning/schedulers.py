"""What a job script of Slurm, PBS, LSF or Flux has: its directives, its launcher, and how it queues the job again.

By the manuals of Slurm, PBS Professional, LSF 10.1 and flux-core; the tests run the scripts for Slurm only. The owner of a job
may queue it again in Slurm (`scontrol requeue`) and in LSF (`bsub -Q`). In PBS only operators may (`qrerun`), and Flux has no
such command: there, the job submits its script once more.
"""

from __future__ import annotations

from typing import NamedTuple


class Scheduler(NamedTuple):
    """The text of a job script that one scheduler needs; `{…}` are fields of the job."""

    title: str
    prefix: str
    submit: str
    directives: dict[str, str]  # option -> directive, left out where the option is; "once" or "requeue" is one or the other
    folder: str  # command that changes to the folder of submission, if the job does not start there
    again: str  # command that queues the job again
    launchers: dict[str, str]  # word in the name of the MPI library -> command; "" is any


SCHEDULERS = {
    "slurm": Scheduler(
        "Slurm",
        "#SBATCH ",
        "sbatch",
        {
            "name": "--job-name={name} --output=%x-%j.out",
            "nodes": "--nodes={nodes} --ntasks-per-node={ranks_per_node} --cpus-per-task=1",
            "time": "--time={time}",
            "memory": "--mem={memory}G",
            "partition": "--partition={partition}",
            "account": "--account={account}",
            "once": "--no-requeue",
            "requeue": "--requeue --open-mode=append",
        },
        "",
        'scontrol requeue "$SLURM_JOB_ID"',
        {"Open MPI": "srun --mpi=pmix", "CRAY": "srun", "": "srun --mpi=pmi2"},
    ),
    "pbs": Scheduler(
        "PBS",
        "#PBS ",
        "qsub",
        {
            "name": "-N {name} -j oe",
            "nodes": "-l select={nodes}:ncpus={ranks_per_node}:mpiprocs={ranks_per_node}{chunk_memory} -l place=scatter",
            "time": "-l walltime={time}",
            "partition": "-q {partition}",
            "account": "-A {account}",
            "once": "-r n",
            "requeue": "-r y",
        },
        'cd "$PBS_O_WORKDIR"',
        "{itself} | qsub",
        {"": "mpiexec -n {ranks}"},
    ),
    "lsf": Scheduler(
        "LSF",
        "#BSUB ",
        "bsub <",
        {
            "name": "-J {name} -o {name}-%J.out",
            "nodes": '-n {ranks} -R "span[ptile={ranks_per_node}]"',
            "time": "-W {hours_minutes}",
            "memory": '-R "rusage[mem={memory}GB/host]"',
            "partition": "-q {partition}",
            "account": "-P {account}",
            "once": "-rn",
            "requeue": "-r -Q 99",
        },
        "",
        "exit 99",
        {"Spectrum": "jsrun -n {ranks} -a 1 -c 1 -r {ranks_per_node}", "": "mpirun -n {ranks}"},
    ),
    "flux": Scheduler(
        "Flux",
        "# flux: ",
        "flux batch",
        {
            "name": "--job-name={name} --output={name}-{{{{id}}}}.out",
            "nodes": "--nodes={nodes} --nslots={ranks}",
            "time": "--time-limit={seconds}s",
            "partition": "--queue={partition}",
            "account": "--bank={account}",
        },
        "",
        "{itself} | flux --parent batch",
        {"Open MPI": "flux run -o pmi=pmix -N {nodes} -n {ranks}", "": "flux run -N {nodes} -n {ranks}"},
    ),
}
CAPS = "export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1"
# With UCX, MPICH 5.0.2 sends 4 KiB of memory, the address of a rank and whatever follows it. Where that does not compress, a line
# is longer than Slurm's pmi2 reads: 9 of 36 starts on two nodes failed or hung, with libfabric none of 20. MPICH of pip has both.
NETMOD = "export MPIR_CVAR_CH4_NETMOD=ofi  # with UCX, MPICH of pip may hang when pmi2 of Slurm starts it"
ONCE = """
{launcher} {command}
"""
REQUEUE = """
# Launchers differ in the code that they return; rank 0 writes its own to this file.
exit_file={exit_file} code=0
rm -f "$exit_file"
HPCML_EXIT_FILE=$exit_file {launcher} {command} || code=$?
if [[ -s $exit_file ]]; then code=$(<"$exit_file"); fi
rm -f "$exit_file"

# {code}: interrupted, with a checkpoint. The run folder has a line for each start of the run.
if ((code == {code})); then
  starts=$(wc -l <{starts_file})
  if ((starts < {most})); then
    {again}
  else
    echo "not queued again after $starts starts; submit the script again to go on" >&2
  fi
fi
exit "$code"
"""
