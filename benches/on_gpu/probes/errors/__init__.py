"""Error codes: what small calls answer, right and wrong ones, and whether an error stays. A row is performed in a process of its own."""

from calls import table

from . import copies, devices, driver, events, graphs, kernels, memory, modules, sticky, streams, two_devices

ROWS = [row for part in (memory, copies, streams, events, devices, driver, modules, kernels, graphs, two_devices, sticky) for row in part.ROWS]


def record(machine):
    return table(ROWS, machine)
