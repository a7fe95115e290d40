"""A run, and a set of shapes, whose names and messages are attacks on a page that shows them."""

from __future__ import annotations

import dataclasses
import json

from schedlang.database.history import RunHistory
from schedlang.shapes import ShapeSet
from tests.report.synthetic import make_history
from tests.report.synthetic_shapes import make_shapes

ATTACK = """</script><img src=x onerror="window.attacked=1">'"`${window.attacked=1}\u2028{{7*7}}"""
"""Ends an element, and begins one that would run a script."""


def make_hostile() -> RunHistory:
    """A run of which each text is an attack."""
    plain = make_history(80)
    records = [
        dataclasses.replace(
            record,
            trace_json=_attacked(record.trace_json),
            message=ATTACK if record.message else "",
            search=ATTACK,
            provenance={ATTACK: ATTACK},
        )
        for record in plain.records
    ]
    run = dataclasses.replace(
        plain.run,
        search=ATTACK,
        target_key=ATTACK,
        toolchain_key=ATTACK,
        notes=ATTACK,
        tags=(ATTACK,),
    )
    rejections = [
        dataclasses.replace(
            one, module=ATTACK, instruction=ATTACK, block=ATTACK, reason=ATTACK, message=ATTACK
        )
        for one in plain.rejections
    ]
    return dataclasses.replace(
        plain, run=run, name=ATTACK, records=records, rejections=rejections, finished=ATTACK
    )


def _attacked(trace: str) -> str:
    """A trace with attacks as sites, modules and options."""
    document = json.loads(trace)
    for number, step in enumerate(document["instructions"]):
        if "site" in step:
            step["site"] = f"{ATTACK}{number}"
        step["module"] = ATTACK
        if step["kind"] == "choose":
            step["args"]["options"] = [f"{ATTACK}{k}" for k in range(len(step["args"]["options"]))]
    return json.dumps(document)


def make_hostile_shapes() -> ShapeSet:
    """A set of which each text is an attack."""
    plain = make_shapes(name=ATTACK)
    ranges = [
        dataclasses.replace(
            one,
            kernels=tuple(
                dataclasses.replace(kernel, origin=f"{ATTACK} {number}")
                for number, kernel in enumerate(one.kernels)
            ),
        )
        for one in plain.ranges
    ]
    points = [dataclasses.replace(one, origin=ATTACK) for one in plain.points]
    return dataclasses.replace(
        plain, points=tuple(points), ranges=tuple(ranges), failed={ATTACK: ATTACK}
    )
