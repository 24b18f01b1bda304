"""A failed test as shown by pytest: what is wrong overall, then each rank's own traceback."""

import re

import pytest
from _pytest._code.code import ExceptionChainRepr, ReprEntryNative, ReprFileLocation, ReprTraceback

from .rank import name_of
from .verdict import names

#: A line of what Python prints about a fatal error.
DUMPED = re.compile(
    r"Fatal Python error|Python runtime state|Current thread|Thread 0x|Extension modules:|  (File|Binary file|<|\.\.\.)|\s*$"
)
#: Lines of a rank's stderr, where that is all there is.
LAST_LINES = 20


class ClusterFailure(Exception):
    """A test failed on its cluster. `result` holds the outcome."""

    result = None


def raised(result, item):
    """The exception for a failed result. If the test is marked to fail with an exception that a rank raised, it is also an
    instance of that."""
    names = {name for rank in result.ranks for report in rank.failed for name in getattr(report, "raised", [])}
    kind = ClusterFailure
    for mark in item.iter_markers("xfail"):
        wanted = mark.kwargs.get("raises") or ()
        for one in wanted if isinstance(wanted, tuple) else (wanted,):
            # Subclasses have its name among those of their bases.
            if isinstance(one, type) and name_of(one) in names and not issubclass(kind, one):
                kind = combined(kind, one)
    error = kind.__new__(kind)
    error.args = (headline(result),)
    error.result = result
    return error


def combined(kind, one):
    try:
        both = type("ClusterFailure", (kind, one), {})
        both.__new__(both)
    except TypeError:
        return kind
    return both


def headline(result):
    """One line: who failed, or what."""
    if result.reason:
        return result.reason
    failed = [rank for rank in result.ranks if rank.outcome == "failed"]
    messages = [message for rank in failed for message in (crash_message(rank),) if message]
    if failed:
        return f"{names(failed)}: {messages[0] if messages else 'failed'}"
    checks = [failure for failure in result.failures if failure["kind"] != "exit"] or result.failures
    if checks:
        return f"{checks[0]['kind']}: {one_line(checks[0]['got'])}"
    return "the case failed"


def crash_message(rank):
    for report in rank.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        return one_line(crash.message if crash else str(report.longrepr))
    # The last line of a traceback is the one that matters.
    return one_line(rank.errors[0].strip().splitlines()[-1]) if rank.errors else ""


def one_line(text):
    return text.strip().split("\n", 1)[0]


def represent(result, item):
    """What pytest prints. It consists of pytest's own parts, so that pytest-xdist can send it."""
    path, line = str(item.path), (item.location[1] or 0) + 1
    chain = [entry(summary(result))]
    alike = {}
    for rank in result.ranks:
        for key, parts in tracebacks(rank):
            alike.setdefault(key, (parts, []))[1].append(rank)
    for parts, ranks in alike.values():
        shown = f" (rank {ranks[0].number}'s is shown)" if len(ranks) > 1 else ""
        chain.append(entry([], f"{names(ranks)}{shown}:"))
        chain.extend(parts)
    crash = ReprFileLocation(path=path, lineno=line, message=headline(result))
    chain.append((ReprTraceback(reprentries=[], extraline=None, style="native"), crash, None))
    return ExceptionChainRepr(chain)


def entry(lines, title=None):
    """An element of a chain; its title comes after it."""
    native = [ReprEntryNative(lines=[line + "\n" for line in lines])] if lines else []
    return ReprTraceback(reprentries=native, extraline=None, style="native"), None, title


def tracebacks(rank):
    """(key, elements of a chain) for what went wrong in the rank. Ranks that failed in the same way, apart from the values of
    variables, have the same key."""
    for error in rank.errors:
        yield error, [entry(error.splitlines())]
    for report in rank.failed:
        where = [] if report.when == "call" else [f"in the {'collection' if report.when == 'collect' else report.when}:"]
        if isinstance(report.longrepr, ExceptionChainRepr):
            parts = [entry(where)] if where else []
            crash = report.longrepr.reprcrash
            key = (report.when, crash.path, crash.lineno, crash.message) if crash else report.longreprtext
            yield key, [*parts, *report.longrepr.chain]
        else:
            yield report.longreprtext, [entry([*where, *report.longreprtext.splitlines()])]
    if rank.outcome == "ended early":
        lines = [f"its process ended before its test was over: {rank.exit}"]
        stderr = rank.process["stderr"]
        lines += last_words((stderr["tail"] or stderr["head"]).splitlines())
        yield "\n".join(lines), [entry(lines)]


def last_words(lines):
    """The end of stderr: the stack that Python printed when the rank was ended, without pytest's own part, else its last lines."""
    begin = max((number for number, line in enumerate(lines) if line.startswith("Fatal Python error")), default=None)
    if begin is None:
        return lines[-LAST_LINES:]
    own = ("/_pytest/", "/pluggy/", "/ftest/pytest/")
    return [line for line in lines[begin:] if not any(part in line for part in own)][: 2 * LAST_LINES]


def without_stack(text):
    """The stderr of a rank that ended early, without the stack that `last_words` shows."""
    lines = text.splitlines(keepends=True)
    begin = max((number for number, line in enumerate(lines) if line.startswith("Fatal Python error")), default=len(lines))
    end = next((number for number in range(begin, len(lines)) if not DUMPED.match(lines[number])), len(lines))
    return "".join(lines[:begin] + lines[end:])


def summary(result):
    """What is wrong overall."""
    lines = [result.reason] if result.reason else []
    groups = {}
    for rank in result.ranks:
        groups.setdefault(rank.outcome, []).append(rank)
    lines.append("; ".join(f"{names(ranks)} {outcome}" for outcome, ranks in groups.items()) or "no rank ran")
    for failure in result.failures:
        # The tracebacks say more.
        if failure["kind"] == "exit" and any(rank.outcome != "passed" for rank in result.ranks):
            continue
        lines.append(f"{failure['kind']}")
        for word in ("expected", "got", "next"):
            text = (failure.get(word) or "").strip().splitlines()
            for number, line in enumerate(text):
                lines.append(f"  {word + ':' if number == 0 else '':<9} {line}")
    hang = result.attempt.get("hang")
    if hang:
        lines += ["hang", *(f"  {line}" for line in [hang["sentence"], *hang.get("details", [])])]
    lines += [f"note: {note}" for note in result.attempt.get("notes", [])]
    if result.attempt.get("kept"):
        lines.append(f"files: {result.run}/{result.attempt['kept']}")
    return lines


def placed(item, message):
    """What is wrong with a test's mark, and where that is."""
    path, line = item.location[0], (item.location[1] or 0) + 1
    return f"{path}:{line}: @pytest.mark.cluster: {message}"


def fail(item, message):
    """Fails a test whose mark cannot be used."""
    pytest.fail(placed(item, message), pytrace=False)
