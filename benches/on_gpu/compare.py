"""The differences of two records, each with its probe, and what either said. What is `measured` is not compared."""

from typing import NamedTuple

ABSENT = "not recorded"


class Difference(NamedTuple):
    """`field` is the path within the probe's answer."""

    area: str
    probe: str
    field: str
    left: object
    right: object

    @property
    def name(self):
        return f"{self.area}: {self.probe}"


def differences(left, right):
    """Every answer of two records that is not the same, and the areas that one or both of them do not have, with the reason."""
    found, missing = [], []
    for area in dict.fromkeys([*left["areas"], *right["areas"]]):
        sides = [record["areas"].get(area, {"skipped": ABSENT}) for record in (left, right)]
        lacks = [side.get("skipped") for side in sides]
        if any(lacks):
            missing.append((area, *lacks))
            continue
        if area == "torch_memory":
            versions = [record.get("machine", {}).get("torch") for record in (left, right)]
            if versions[0] != versions[1]:
                # Another allocator has other statistics, on hardware as well.
                missing.append((area, *(f"PyTorch {version}" for version in versions)))
                continue
        probes = [side["probes"] for side in sides]
        for probe in dict.fromkeys([*probes[0], *probes[1]]):
            answers = [_answer(side.get(probe)) for side in probes]
            if answers[0] == answers[1]:
                continue
            if any(_is_skipped(side.get(probe)) for side in probes):
                # Neither machine said anything wrong: one of them was not asked.
                missing.append((f"{area}: {probe}", *(_why(side.get(probe)) for side in probes)))
                continue
            found += [Difference(area, probe, field, *values) for field, *values in _leaves("", *answers)]
    return found, missing


def _is_skipped(answer):
    return answer is None or "skipped" in answer


def _why(answer):
    return ABSENT if answer is None else answer.get("skipped")


def _answer(answer):
    if answer is None:
        return None
    return {name: part for name, part in answer.items() if name != "measured"}


def _leaves(path, left, right):
    """The smallest parts that differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        for name in dict.fromkeys([*left, *right]):
            yield from _leaves(f"{path}.{name}" if path else name, left.get(name, ABSENT), right.get(name, ABSENT))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for at, (one, other) in enumerate(zip(left, right)):
            yield from _leaves(f"{path}[{at}]", one, other)
    elif left != right:
        yield path, left, right


def text(found, missing, names=("hardware", "ours")):
    """For people: a paragraph for each probe."""
    lines, last = [], None
    for difference in found:
        if difference.name != last:
            lines.append(difference.name)
            last = difference.name
        lines.append(f"  {difference.field}")
        lines += [f"    {name}: {value}" for name, value in zip(names, (difference.left, difference.right))]
    for area, left, right in missing:
        said = ", ".join(f"{name}: {why or 'recorded'}" for name, why in zip(names, (left, right)))
        lines.append(f"not compared: {area} ({said})")
    probes = len({difference.name for difference in found})
    lines.append(f"{probes} probes differ, {len(missing)} areas or probes were not compared")
    return "\n".join(lines)


def document(found, missing, names=("hardware", "ours")):
    """The same as JSON."""
    listed = [{"probe": one.name, "field": one.field, names[0]: one.left, names[1]: one.right} for one in found]
    return {"differences": listed, "not_compared": [{"what": what, names[0]: left, names[1]: right} for what, left, right in missing]}
