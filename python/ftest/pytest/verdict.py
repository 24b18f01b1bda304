"""The outcome of a test: the case's verdict and each rank's own reports, as one result."""

import dataclasses
import json
import os


@dataclasses.dataclass
class Rank:
    """What one rank's pytest recorded, and how its process ended."""

    number: int
    process: dict
    reports: list
    warnings: list
    errors: list
    #: The exit code of its pytest; None where that did not come to its end.
    end: "int | None"

    @property
    def failed(self):
        return [report for report in self.reports if report.failed]

    @property
    def skipped(self):
        return [report for report in self.reports if report.skipped and not hasattr(report, "wasxfail")]

    @property
    def xfailed(self):
        return [report for report in self.reports if report.skipped and hasattr(report, "wasxfail")]

    @property
    def outcome(self):
        if self.failed or self.errors:
            return "failed"
        if self.end is None:
            return "ended early"
        if self.xfailed:
            return "xfailed"
        if self.skipped:
            return "skipped"
        called = any(report.when == "call" for report in self.reports)
        return "passed" if called and self.end == 0 else "ended early"

    @property
    def exit(self):
        """In words."""
        exit = self.process["exit"]
        if isinstance(exit, dict):
            ((kind, value),) = exit.items()
            return {"code": f"exit code {value}", "signal": f"signal {value}"}.get(kind, f"{kind}: {value}")
        return str(exit)


@dataclasses.dataclass
class Result:
    """The outcome of a test."""

    #: passed, failed, skipped or xfailed.
    outcome: str
    #: Why it was skipped or failed as expected; what is wrong in the whole.
    reason: str
    #: A gap, or something that ftest could not do: never an expected failure.
    broken: bool
    ranks: "list[Rank]"
    #: Of the last attempt; empty where there was none.
    attempt: dict
    #: Checks of the case that did not hold.
    failures: list
    #: The directory of the run.
    run: str

    @property
    def cluster_report(self):
        """The file, if there is one."""
        report = self.attempt.get("cluster_report")
        return report and os.path.join(self.run, report)


def conclude(config, finished, attempts, results, run):
    """The result of a case from its events, and from the files of its ranks in the directory `results`."""
    attempt = attempts[-1] if attempts else {}
    ranks = [read(config, process, attempt, results) for process in attempt.get("processes", []) if number(process) is not None]
    failures = finished["failures"] + attempt.get("failures", [])
    verdict = finished["verdict"]

    def result(outcome, reason="", broken=False):
        return Result(outcome, reason, broken, ranks, attempt, failures, run)

    if verdict["is"] == "skipped":
        return result("skipped", verdict["reason"])
    if verdict["is"] != "passed":
        return result("failed", "", verdict["is"] == "broken")
    for rank in ranks:
        if rank.outcome == "ended early" and rank.process["exit"] == {"code": 0}:
            return result("failed", f"rank {rank.number} ended with exit code 0 before its test was over")
    # A rank that failed or died did what the mark expects.
    ended = [rank for rank in ranks if rank.outcome in ("passed", "skipped", "xfailed")]
    skipped = [rank for rank in ended if rank.outcome == "skipped"]
    if skipped and len(skipped) < len(ended):
        others = [rank for rank in ended if rank.outcome != "skipped"]
        reason = f"{names(skipped)} skipped the test and {names(others)} did not: skip it on every rank or on none"
        return result("failed", reason)
    if skipped:
        return result("skipped", reason_of(skipped[0].skipped[0]))
    for rank in ended:
        if rank.xfailed:
            return result("xfailed", rank.xfailed[0].wasxfail.removeprefix("reason: "))
    return result("passed")


def number(process):
    """The rank of a process; 0 for the one that starts its own ranks, None for the coordinator."""
    role = process["role"]
    return role.get("rank", role.get("launcher")) if isinstance(role, dict) else None


def read(config, process, attempt, results):
    rank = Rank(number(process), process, [], [], [], None)
    try:
        with open(os.path.join(results, f"{rank.number}.{attempt['number']}"), "rb") as file:
            lines = file.read().split(b"\n")
    except OSError:
        lines = []
    # Anything after the last newline was cut off.
    for line in lines[:-1]:
        record = json.loads(line)
        if "report" in record:
            data = {"keywords": {}, **record["report"]}
            report = config.hook.pytest_report_from_serializable(config=config, data=data)
            rank.reports.append(report)
        elif "warning" in record:
            rank.warnings.append(record["warning"])
        elif "error" in record:
            rank.errors.append(record["error"])
        else:
            rank.end = record["end"]
    return rank


def reason_of(report):
    """Why it was skipped."""
    reason = report.longrepr[2] if isinstance(report.longrepr, (list, tuple)) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")


def names(ranks):
    """`rank 1`, `ranks 0, 2`."""
    numbers = ", ".join(str(rank.number) for rank in ranks)
    return f"rank {numbers}" if len(ranks) == 1 else f"ranks {numbers}"
