# shellcheck shell=bash
# Sourced before mpirun or srun: sensible settings for ranks that share a node. What you have set yourself stays, except that
# no rank gets more threads than its share of the cores.
# usage: [HPCML_RANKS=4] source launch/env.sh      HPCML_RANKS: ranks on this node; under Slurm it is found by itself

count_cores() { env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc 2>/dev/null || getconf _NPROCESSORS_ONLN; }

share_threads() {  # share_threads RANKS: caps the threads of each rank at its share of this node's cores
  local cores share name
  cores=$(count_cores)
  share=$((cores / $1 > 0 ? cores / $1 : 1))
  for name in OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS NUMBA_NUM_THREADS; do
    [[ ${!name:-} =~ ^[1-9][0-9]*$ ]] && ((${!name} <= share)) || export "$name=$share"
  done
}

run_ranks() (  # run_ranks N COMMAND...: on N ranks of this node, for at most HPCML_TIMEOUT (30 minutes)
  share_threads "$1"
  # more ranks than cores: those of MPICH that wait for others let these compute, and halve what the job takes
  (($1 <= $(count_cores))) || export MPIR_CVAR_ENABLE_HEAVY_YIELD=${MPIR_CVAR_ENABLE_HEAVY_YIELD:-1}
  # in the foreground, so that Ctrl-C reaches it; mpirun takes its ranks with it, however it ends
  exec timeout --foreground --kill-after=10 "${HPCML_TIMEOUT:-30m}" mpirun -n "$@" </dev/null
)

hpcml_slurm=${SLURM_NTASKS_PER_NODE:-${SLURM_TASKS_PER_NODE:-}}
hpcml_ranks=${HPCML_RANKS:-${MPI_LOCALNRANKS:-${OMPI_COMM_WORLD_LOCAL_SIZE:-${hpcml_slurm%%[(,]*}}}}
if [[ ! ${hpcml_ranks:-1} =~ ^[1-9][0-9]*$ ]]; then
  echo "launch/env.sh: the number of ranks is '$hpcml_ranks', but expected a whole number above 0" >&2
  exit 2
fi
share_threads "${hpcml_ranks:-1}"
unset hpcml_slurm hpcml_ranks
command -v srun >/dev/null || unset HYDRA_LAUNCHER HYDRA_BOOTSTRAP  # of an outer job: MPICH's mpirun would wait for srun for ever
export HDF5_USE_FILE_LOCKING=${HDF5_USE_FILE_LOCKING:-FALSE}  # NFS and Lustre often cannot lock; readers need no lock
