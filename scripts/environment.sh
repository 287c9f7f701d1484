#!/usr/bin/env bash
# Make the virtual environment .venv of this checkout and put it on PATH. Sourced by scripts/train.sh and scripts/test.sh.
# Installs what is missing, and nothing when pyproject.toml has not changed since the last time.
#   source scripts/environment.sh [extra]      # extra: dev
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
extra=${1:-}
venv=${MINDRECIPE_VENV:-$root/.venv}

find_python() {
    local name
    for name in "${PYTHON:-}" python3.11 python3.12 python3.10 python3 python; do
        if [ -n "$name" ] && command -v "$name" >/dev/null && "$name" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    echo "mindrecipe needs Python 3.10, 3.11 or 3.12, and none is on PATH (set PYTHON=/path/to/python3.11)" >&2
    return 2
}

# One that was cut short, or for which Debian's python3-venv was missing, has a Python but no pip; another's packages are not ours to remove.
make_venv() {
    local others
    if [ ! -e "$venv/pyvenv.cfg" ]; then
        "$1" -m venv "$venv"
        return
    fi
    others=$(find "$venv"/lib/python*/site-packages -mindepth 1 -maxdepth 1 ! -name '*pip*' ! -name '*setuptools*' ! -name '*distutils*' \
        ! -name pkg_resources ! -name '__pycache__' 2>/dev/null || true)
    if [ -n "$others" ] && ! compgen -G "$venv/.installed-*" >/dev/null; then
        echo "$venv has packages, and no pip that works; it was not made by this script" >&2
        echo "  mend: $venv/bin/python -m ensurepip; or MINDRECIPE_VENV=<a new folder>" >&2
        return 2
    fi
    echo "$venv is not whole (no pip that works): it is made anew" >&2
    "$1" -m venv --clear "$venv"
}

# one lock: two first runs at once would install into each other
exec 9>"$root/.venv.lock"
flock 9
stamp="$venv/.installed-${extra:-base}"
wanted=$(cat "$root/pyproject.toml" | sha256sum | cut -d' ' -f1)
if [ ! -x "$venv/bin/python" ] || [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
    python=$(find_python)
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 || make_venv "$python"
    echo "installing mindrecipe and what it needs into $venv (mindspore and mindformers are large: a few minutes the first time)" >&2
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -e "$root${extra:+[$extra]}"
    echo "$wanted" >"$stamp"
fi
flock -u 9
exec 9>&-
export PATH="$venv/bin:$PATH"
