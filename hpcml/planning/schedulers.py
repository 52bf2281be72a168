"""Parts of job scripts for Slurm, PBS, LSF and Flux: directives, launchers, and requeueing.

Sources: the manuals of Slurm, PBS Professional, LSF 10.1 and flux-core; the tests run the scripts for Slurm only. The owner of a
job may requeue it in Slurm (`scontrol requeue`) and in LSF (`bsub -Q`). In PBS only operators may (`qrerun`), and Flux has no such
command: there, the job submits its script again.
"""

SCHEDULERS = ("slurm", "pbs", "lsf", "flux")
# Job option -> directive for each of SCHEDULERS, omitted without the option; `{…}` are fields of the job.
DIRECTIVES = {
    "name": (
        *("--job-name={name} --output=%x-%j.out", "-N {name} -j oe", "-J {name} -o {name}-%J.out"),
        "--job-name={name} --output={name}-{{{{id}}}}.out",
    ),
    "nodes": (
        "--nodes={nodes} --ntasks-per-node={ranks_per_node} --cpus-per-task=1",
        "-l select={nodes}:ncpus={ranks_per_node}:mpiprocs={ranks_per_node}{chunk_memory} -l place=scatter",
        *('-n {ranks} -R "span[ptile={ranks_per_node}]"', "--nodes={nodes} --nslots={ranks}"),
    ),
    "time": ("--time={time}", "-l walltime={time}", "-W {hours_minutes}", "--time-limit={seconds}s"),
    "memory": ("--mem={memory}G", "", '-R "rusage[mem={memory}GB/host]"', ""),
    "partition": ("--partition={partition}", "-q {partition}", "-q {partition}", "--queue={partition}"),
    "account": ("--account={account}", "-A {account}", "-P {account}", "--bank={account}"),
    "once": ("--no-requeue", "-r n", "-rn", ""),  # without --requeue
    "requeue": ("--requeue --open-mode=append", "-r y", "-r -Q 99", ""),
}
PREFIX = ("#SBATCH ", "#PBS ", "#BSUB ", "# flux: ")
SUBMIT = ("sbatch", "qsub", "bsub <", "flux batch")
AGAIN = ('scontrol requeue "$SLURM_JOB_ID"', "{itself} | qsub", "exit 99", "{itself} | flux --parent batch")
# Word in the name of the MPI library -> launcher, for each of SCHEDULERS; "" matches any library.
KILL = "--kill-on-bad-exit=1"
LAUNCHERS: tuple[dict[str, str], ...] = (
    {"Open MPI": f"srun --mpi=pmix {KILL}", "CRAY": f"srun {KILL}", "": f"srun --mpi=pmi2 {KILL}"},
    {"": "mpiexec -n {ranks}"},
    {"Spectrum": "jsrun -n {ranks} -a 1 -c 1 -r {ranks_per_node}", "": "mpirun -n {ranks}"},
    {"Open MPI": "flux run -o pmi=pmix -N {nodes} -n {ranks}", "": "flux run -N {nodes} -n {ranks}"},
)
# With UCX, MPICH 5.0.2 sends 4 KiB of memory that starts with the address of a rank. If it does not compress, a line exceeds the
# maximum of Slurm's pmi2: 9 of 36 starts on two nodes failed or hung, with libfabric 0 of 20. MPICH from pip contains both.
NETMOD = "export MPIR_CVAR_CH4_NETMOD=ofi  # with UCX, MPICH of pip may hang when pmi2 of Slurm starts it"
ONCE = """
{launcher} {command}
"""
REQUEUE = """
# Launchers return different exit codes, so rank 0 writes its exit code to this file.
exit_file={exit_file} code=0
rm -f "$exit_file"
HPCML_EXIT_FILE=$exit_file {launcher} {command} || code=$?
if [[ -s $exit_file ]]; then code=$(<"$exit_file"); fi
rm -f "$exit_file"

# {code}: interrupted after writing a checkpoint. This file in the run folder has a line per start.
if ((code == {code})); then
  starts=$(wc -l <{starts_file})
  if ((starts < {most})); then
    {again}
  else
    echo "not requeued after $starts starts; submit the script again to continue" >&2
  fi
fi
exit "$code"
"""
