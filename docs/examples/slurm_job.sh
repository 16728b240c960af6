#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=2
#SBATCH --time=01:00:00
set -euo pipefail

folder=$(mktemp -d "$HOME/tiermap.XXXXXX")
chmod 700 "$folder"
(umask 077 && head -c 32 /dev/urandom | base64 > "$folder/secret")
export TIERMAP_USER=$USER TIERMAP_SECRET_FILE=$folder/secret
cat > "$folder/node.yaml" <<YAML
memory: 50%
users:
  - name: $USER
    secret_file: $folder/secret
    administrator: true
YAML

# A server a node, on the address that the other nodes know it by.
srun --nodes="$SLURM_NNODES" --ntasks="$SLURM_NNODES" --ntasks-per-node=1 --overlap --kill-on-bad-exit=1 \
  --output="$folder/server-%N.txt" \
  bash -c 'exec tiermap serve --config "$0/node.yaml" --listen "$SLURMD_NODENAME:7070"' "$folder" &
servers=$!
trap 'kill "$servers" 2>/dev/null || true; wait "$servers" || true; rm -r "$folder"' EXIT
for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
  until grep -q listening "$folder/server-$node.txt" 2>/dev/null; do
    kill -0 "$servers" 2>/dev/null || { cat "$folder"/server-*.txt >&2; exit 1; }  # One of them could not start.
    sleep 0.2
  done
done

hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed 's/$/:7070/' | paste -sd,)
export TIERMAP_SERVERS=$hosts
tiermap serve load /project/points.bin "remote://$hosts/points?layout=striped"  # On one node without ?layout=striped.
srun --overlap ./my_program  # Ranks and their number come from Slurm, by the #SBATCH lines above.
