"""Figures with the limits that docs/speed.md promises: printed in columns, and remembered where one is missed."""


class Bounds:
    def __init__(self, width):
        self.width, self.missed = width, []

    def __call__(self, text, value, limit, unit):
        print(f"{text:<{self.width}} {value:8.2f} {unit:<5} (at most {limit:.2f})", flush=True)
        if value > limit:
            self.missed.append(text)
