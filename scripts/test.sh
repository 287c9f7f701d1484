#!/usr/bin/env bash
# Install what is missing, then check and test this checkout: style, types, import contracts, all tests.
#   scripts/test.sh                  # everything
#   scripts/test.sh -m "not e2e"     # arguments go to pytest: only the fast ones
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# the report's page is looked at in a browser, where there is one: Debian's, if it can be had while the rest is being prepared
browser=
if ! command -v chromium chromium-browser google-chrome >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    timeout 120 apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1 </dev/null &
    browser=$!
fi
source "$here/environment.sh" dev
cd "$root"
ruff check src tests benchmarks
ruff format --check src tests benchmarks
mypy
lint-imports
# hundreds of tests start processes of their own, also where PYTHONDONTWRITEBYTECODE keeps these from remembering what they compile
python -m compileall -q src
[ -z "$browser" ] || wait "$browser" || echo "no Chromium: its test of the report is skipped" >&2
# two processes, a file in one of them: trainings of a module share what they train. In the order of tests/conftest.py: the long files first
exec pytest -n 2 --dist loadfile --no-loadscope-reorder "$@"
