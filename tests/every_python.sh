#!/usr/bin/env bash
# Runs the suite on every CPython >= 3.11 that this machine has, each in a venv of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

candidates() {
  for name in python3 python3.11 python3.12 python3.13 python3.14 python3.15; do command -v "$name" || true; done
  ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3 2>/dev/null || true
}

declare -A found=()
while read -r python; do
  version=$("$python" -c '
import platform, sys
ok = sys.version_info >= (3, 11) and platform.python_implementation() == "CPython"
print("%d.%d" % sys.version_info[:2] if ok else "")' 2>/dev/null) || continue
  if [ -n "$version" ] && [ -z "${found[$version]:-}" ]; then found[$version]=$python; fi
done < <(candidates)

if [ "${#found[@]}" -eq 0 ]; then echo "no CPython >= 3.11 found" >&2; exit 1; fi
failed=()
for version in $(printf '%s\n' "${!found[@]}" | sort -V); do
  echo "== CPython $version: ${found[$version]}"
  make --no-print-directory venv VENV=".venv-$version" PYTHON="${found[$version]}"
  ".venv-$version/bin/python" -m pytest -q -m "not load" -p no:cacheprovider || failed+=("$version")
done
if [ "${#failed[@]}" -gt 0 ]; then echo "failed on: ${failed[*]}" >&2; exit 1; fi
echo "passed on: $(printf '%s\n' "${!found[@]}" | sort -V | paste -sd' ')"
