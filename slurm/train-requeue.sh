#!/bin/bash
#SBATCH --job-name=hpcml-train --output=%x-%j.out
#SBATCH --nodes=2 --ntasks-per-node=2 --cpus-per-task=1
#SBATCH --time=01:00:00
#SBATCH --requeue --open-mode=append
# Printed by: hpcml job --scheduler=slurm --nodes=2 --ranks-per-node=2 --requeue -- train dual data.h5 -o run
# Submit with: sbatch job.sh

set -e
export PATH=/path/to/environment/bin:$PATH
export MPIR_CVAR_CH4_NETMOD=ofi  # with UCX, MPICH of pip may hang when pmi2 of Slurm starts it
# Launchers return different exit codes, so rank 0 writes its exit code to this file.
exit_file=run.exit-code code=0
rm -f "$exit_file"
HPCML_EXIT_FILE=$exit_file srun --mpi=pmi2 --kill-on-bad-exit=1 hpcml train dual data.h5 -o run --resume --time-limit 3240 || code=$?
if [[ -s $exit_file ]]; then code=$(<"$exit_file"); fi
rm -f "$exit_file"

# 75: interrupted after writing a checkpoint. This file in the run folder has a line per start.
if ((code == 75)); then
  starts=$(wc -l <run/environment.jsonl)
  if ((starts < 20)); then
    scontrol requeue "$SLURM_JOB_ID"
  else
    echo "not requeued after $starts starts; submit the script again to continue" >&2
  fi
fi
exit "$code"
