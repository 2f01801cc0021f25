"""A table of cases in one test, which lists all cases that fail."""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kubeauth._credentials.cache import SOURCE_CACHE

_Test = Callable[..., None]
_Ids = Callable[[Any], object] | Iterable[object] | None


def each_case(
    names: str | Sequence[str], table: Iterable[Any], *, ids: _Ids = None
) -> Callable[[_Test], _Test]:
    """As `pytest.mark.parametrize`, but one test for the whole table: for plain data, and for a test that is cheap.

    pytest needs a millisecond to collect a test, in each of its workers, and another to set it up.

    The test fails with the ids and errors of all cases that fail. Each case has a `tmp_path` with a home of its
    own; `monkeypatch` is undone after it, `caplog` is empty, and no credential is cached. All cases share the
    other fixtures.
    """
    split = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = _name_cases(split, list(table), ids)

    def decorate(test: _Test) -> _Test:
        if inspect.iscoroutinefunction(test) or inspect.isgeneratorfunction(test):
            raise TypeError(f"{test.__qualname__} is not a plain function")
        signature = inspect.signature(test)
        if missing := [name for name in split if name not in signature.parameters]:
            raise TypeError(f"{test.__qualname__} takes no {', '.join(missing)}")

        @functools.wraps(test)
        def run(*args: Any, **fixtures: Any) -> None:
            _run_cases(test, cases, args, fixtures)

        run.case_count = len(cases) * count_cases(test)  # type: ignore[attr-defined]
        run.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[it for name, it in signature.parameters.items() if name not in split]
        )
        return run

    return decorate


def count_cases(test: object) -> int:
    """How many cases a test runs: those of `each_case`, or one."""
    count: int = getattr(test, "case_count", 1)
    return count


def _run_cases(
    test: _Test, cases: dict[str, dict[str, Any]], args: tuple[Any, ...], fixtures: dict[str, Any]
) -> None:
    __tracebackhide__ = True
    failed: dict[str, BaseException] = {}
    for number, (name, values) in enumerate(cases.items()):
        with ExitStack() as stack:
            try:
                test(*args, **_isolate(fixtures, number, stack), **values)
            except (Exception, pytest.fail.Exception) as error:
                if _is_timeout(error):
                    raise
                failed[name] = error
            except pytest.skip.Exception as error:
                raise TypeError(f"case {name} skips all cases after it: {error}") from error
            finally:
                SOURCE_CACHE._recent.clear()
    if failed:
        lines = [f"[{name}] {_describe(error, test)}" for name, error in failed.items()]
        message = f"{len(failed)} of {len(cases)} cases failed:\n" + "\n".join(lines)
        raise AssertionError(message) from next(iter(failed.values()))


def _isolate(fixtures: dict[str, Any], number: int, stack: ExitStack) -> dict[str, Any]:
    own = dict(fixtures)
    if isinstance(path := fixtures.get("tmp_path"), Path):
        own["tmp_path"] = path / f"case{number}"
        (own["tmp_path"] / "home").mkdir(parents=True)
        # As the fixture clean_environment does.
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("HOME", str(own["tmp_path"] / "home"))
    if "monkeypatch" in fixtures:
        own["monkeypatch"] = stack.enter_context(fixtures["monkeypatch"].context())
    if "caplog" in fixtures:
        fixtures["caplog"].clear()
    return own


def _is_timeout(error: BaseException) -> bool:
    # pytest-timeout fails a test once; the next case that hangs would hang forever.
    return isinstance(error, pytest.fail.Exception) and str(error).startswith("Timeout")


def _describe(error: BaseException, test: _Test) -> str:
    file = inspect.unwrap(test).__code__.co_filename
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    where = f" ({Path(file).name}:{lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {error}{where}"


def _name_cases(names: list[str], table: list[Any], ids: _Ids) -> dict[str, dict[str, Any]]:
    if not table:
        raise ValueError("a table without cases")
    of_cases = [None] * len(table) if ids is None or callable(ids) else list(ids)
    cases: dict[str, dict[str, Any]] = {}
    for number, (row, name) in enumerate(zip(table, of_cases, strict=True)):
        values = row if len(names) > 1 else (row,)
        if hasattr(row, "marks"):  # what pytest.param() returns
            if row.marks:
                raise TypeError("a case with marks must be a test of its own")
            values, name = row.values, row.id or name
        if name is None:
            name = "-".join(_show(value, ids if callable(ids) else None) for value in values)
        text = f"{name} #{number}" if str(name) in cases else str(name)
        cases[text] = dict(zip(names, values, strict=True))
    return cases


def _show(value: Any, show: Callable[[Any], object] | None) -> str:
    shown = show(value) if show is not None else None
    if shown is None:
        shown = value.__name__ if hasattr(value, "__name__") else repr(value)
    text = str(shown)
    return text if len(text) <= 100 else f"{text[:100]}..."
