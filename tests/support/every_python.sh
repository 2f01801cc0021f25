#!/usr/bin/env bash
# Runs the suite on every CPython >= 3.11 that this machine has, each in a venv of its own.
set -euo pipefail
cd "$(dirname "$0")/../.."

candidates() {
  for name in python3 python3.11 python3.12 python3.13 python3.14 python3.15; do command -v "$name" || true; done
  ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3 2>/dev/null || true
}

seen="" passed="" failed=""
for python in $(candidates); do
  version=$("$python" -c '
import platform, sys
ok = sys.version_info >= (3, 11) and platform.python_implementation() == "CPython"
print("%d.%d" % sys.version_info[:2] if ok else "")' 2>/dev/null) || continue
  case " $seen " in *" $version "*) continue ;; esac
  [ -n "$version" ] || continue
  seen="$seen $version"
  echo "== CPython $version: $python"
  make --no-print-directory venv VENV=".venv-$version" PYTHON="$python"
  if ".venv-$version/bin/python" -m pytest -q -m "not load and not site" -n auto --dist worksteal -p no:cacheprovider; then
    passed="$passed $version"
  else
    failed="$failed $version"
  fi
done
if [ -z "$seen" ]; then echo "no CPython >= 3.11 found" >&2; exit 1; fi
if [ -n "$failed" ]; then echo "failed on:$failed" >&2; exit 1; fi
echo "passed on:$passed"
