#!/bin/bash
#SBATCH --job-name=hpcml-train --output=%x-%j.out
#SBATCH --nodes=2 --ntasks-per-node=2 --cpus-per-task=1
#SBATCH --time=01:00:00
#SBATCH --no-requeue
# Printed by: hpcml job --scheduler=slurm --nodes=2 --ranks-per-node=2 -- train dual data.h5 -o run
# Submit with: sbatch job.sh

set -e
export PATH=/path/to/environment/bin:$PATH
export MPIR_CVAR_CH4_NETMOD=ofi  # with UCX, MPICH of pip may hang when pmi2 of Slurm starts it
srun --mpi=pmi2 --kill-on-bad-exit=1 hpcml train dual data.h5 -o run
