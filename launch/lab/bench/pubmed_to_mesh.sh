#!/usr/bin/env bash
# From PubMed's XML to judged models of MeSH headings and BioASQ's JSON: every step is a command that works on NLM's own files, too.
# Here they are made of the documents of mesh.jsonl.xz (HPCML_DATA).
# usage: [RANKS=2] ./launch/lab/bench/pubmed_to_mesh.sh FOLDER [DOCUMENTS]      DOCUMENTS: only so many of them; FOLDER must not exist
set -euo pipefail
RANKS=${RANKS:-2}
folder=$(realpath -m -- "${1:?usage: [RANKS=2] ./launch/lab/bench/pubmed_to_mesh.sh FOLDER [DOCUMENTS]}")
documents=${2:+--first $2}
source "$(dirname "$0")/../../setup.sh" mpi,pubmed,report
source launch/env.sh
mkdir -- "$folder"
# shellcheck disable=SC2086
python -m launch.lab bench pubmed_xml "$folder/mesh.xml.gz" --mesh $documents
run_ranks "$RANKS" hpcml convert pubmed "$folder/mesh.xml.gz" -o "$folder/mesh.h5" --min-df 2 --test-share 0.3
run_ranks "$RANKS" hpcml tune "$folder/mesh.h5" -o "$folder/run" --thresholds micro  # λ, weight and probability of each heading; a threshold for BioASQ
run_ranks "$RANKS" hpcml evaluate "$folder/run" "$folder/mesh.h5" --split test --json "$folder/measures.json"
run_ranks "$RANKS" hpcml evaluate "$folder/run" "$folder/mesh.h5" --split test --measures bioasq --json "$folder/bioasq.json"
run_ranks "$RANKS" hpcml predict "$folder/run" "$folder/mesh.h5" --split test -o "$folder/answers.json" --format bioasq
hpcml report "$folder/run" -o "$folder/report.html"
