"""Tuning on many hosts: slices of searches run on any ``concurrent.futures.Executor``."""

from schedlang.errors import HostWarning
from schedlang.tuning.hosts.engines import RayExecutor
from schedlang.tuning.hosts.given import Given, MakeMeasurer, given_of
from schedlang.tuning.hosts.host import carry_out, task_text
from schedlang.tuning.hosts.hosted_run import HostedRun
from schedlang.tuning.hosts.hosts import Hosts, as_hosts
from schedlang.tuning.hosts.hosts_measurer import measure_on

__all__ = [
    "Given",
    "HostWarning",
    "HostedRun",
    "Hosts",
    "MakeMeasurer",
    "RayExecutor",
    "as_hosts",
    "carry_out",
    "given_of",
    "measure_on",
    "task_text",
]
