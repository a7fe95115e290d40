"""Tuning on many hosts: slices of searches run on any ``concurrent.futures.Executor``."""

from schedlang.tuning.hosts.driving import SLICE, Driving, Lane
from schedlang.tuning.hosts.engines import RayExecutor
from schedlang.tuning.hosts.given import Given, MakeMeasurer, given_of
from schedlang.tuning.hosts.host import carry_out, task_text
from schedlang.tuning.hosts.host_speed import HostWarning
from schedlang.tuning.hosts.hosted_run import HostedRun
from schedlang.tuning.hosts.hosts import Hosts, as_hosts
from schedlang.tuning.hosts.hosts_measurer import measurer_on
from schedlang.tuning.hosts.islands import STRIDE, Islands
from schedlang.tuning.hosts.tune_islands import islands_of

__all__ = [
    "SLICE",
    "STRIDE",
    "Driving",
    "Given",
    "HostWarning",
    "HostedRun",
    "Hosts",
    "Islands",
    "Lane",
    "MakeMeasurer",
    "RayExecutor",
    "as_hosts",
    "carry_out",
    "given_of",
    "islands_of",
    "measurer_on",
    "task_text",
]
