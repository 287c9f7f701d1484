#!/usr/bin/env bash
# Install what is missing, then run `train` with the arguments given.
#   scripts/train.sh +model=llama2_tiny
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/environment.sh" ""  # an argument of its own: a sourced script else sees ours
exec train "$@"
