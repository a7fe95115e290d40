"""The host's side: an order is carried out with this process's own measurer."""

from __future__ import annotations

import atexit
import json
import math
import os
import platform
import traceback
from collections import OrderedDict
from contextlib import ExitStack
from dataclasses import replace
from threading import Lock

from schedlang.database import Database
from schedlang.errors import (
    DatabaseError,
    HostError,
    SpaceError,
    TargetError,
    WorkloadError,
    users_code,
)
from schedlang.measurement import Measurer, as_measurer
from schedlang.measurement.clock import SYSTEM
from schedlang.measurement.problem import Problem
from schedlang.once import LastUsed
from schedlang.printed import first_line
from schedlang.targets import measurer as kept_measurer, toolchain_key
from schedlang.tuning.hosts.batches import DESCRIBE, MEASURE, UNSCHEDULED, Batch, measurements_frame
from schedlang.tuning.hosts.frames import deflate, inflate, unpack
from schedlang.tuning.hosts.given import Given
from schedlang.tuning.hosts.host_speed import machine_rate
from schedlang.tuning.hosts.messages import (
    FAILED,
    FINALS,
    MEASURED,
    REFUSED,
    SEARCH,
    UNTUNABLE,
    HostReply,
    Order,
)
from schedlang.tuning.hosts.order_database import OrderDatabase
from schedlang.tuning.measuring import Measuring
from schedlang.tuning.session import TaskRun
from schedlang.tuning.session.live_view import Progress
from schedlang.tuning.tasks import why_untunable
from schedlang.tvm.stored_program import read_stored_program
from schedlang.workloads.workload import Workload

# Calls and programs that a process keeps, those last used; and runs, which take more memory.
_KEPT, _KEPT_RUNS = 64, 32
# Measurers that a process keeps: each has workers.
_KEPT_MEASURERS = 4
# Seconds that a host waits before it refuses again: another one should be faster.
_REFUSAL_SECONDS = 1.0
_LONGEST_MESSAGE = 4000


def carry_out(order: bytes) -> bytes:
    """Carry out one order of a driver, and return the reply: what engines run on hosts.

    It needs nothing but the order, and may be given it twice. A process carries out one at a time.
    It runs code that is in the order.
    """
    with _BUSY:
        return _HOST.carry_out(order_of(order)).pack()


class Host:
    """What a process keeps between orders: measurers, and what it has read."""

    def __init__(self) -> None:
        self._given: LastUsed[Given] = LastUsed(_KEPT)
        self._workloads: LastUsed[tuple[Workload, bool]] = LastUsed(_KEPT)
        self._measurers: dict[object, Measurer] = {}
        self._runs: OrderedDict[str, OpenRun] = OrderedDict()

    @property
    def name(self) -> str:
        """What this host is called: its machine and its process."""
        return f"{platform.node() or 'host'}/{os.getpid()}"

    def carry_out(self, order: Order | Batch) -> HostReply:
        """Carry out an order; errors of the call's own code are in the reply.

        OSError, MemoryError, TargetError and DatabaseError are this machine's, and are raised:
        another one may carry it out.
        """
        name, rate = self.name, machine_rate()
        try:
            with users_code("the call"):
                reply = self._carry_out(order)
        except HostError as error:
            SYSTEM.sleep(_REFUSAL_SECONDS)
            reply = HostReply(order.serial, REFUSED, name, message=str(error))
        except (OSError, MemoryError, TargetError, DatabaseError):
            raise
        except (WorkloadError, SpaceError) as error:
            reply = HostReply(order.serial, UNTUNABLE, name, message=why_untunable(error))
        except Exception as error:  # of the user's modules, searches, functions
            text = "".join(traceback.format_exception(error))[-_LONGEST_MESSAGE:]
            said = f"{type(error).__name__}: {first_line(str(error))}\n{text}"
            reply = HostReply(order.serial, FAILED, name, message=said)
        return replace(reply, rate=rate)

    def _carry_out(self, order: Order | Batch) -> HostReply:
        if self.name in order.apart:
            raise HostError("it is set apart")
        if order.python != (here := platform.python_version().rpartition(".")[0]):
            raise HostError(f"it runs Python {here}, and the driver {order.python}")
        if order.toolchain != (has := toolchain_key()):
            raise HostError(
                f"it has {has}, and the driver {order.toolchain}: their latencies do not compare"
            )
        given = self._given.get(order.call, lambda: Given.unpack(order.call))
        try:
            given.target.check_present()
        except TargetError as error:
            raise HostError(f"it is no {given.target.key}: {error}") from error
        if isinstance(order, Batch):
            return self._measure(order, given)
        opened = self._open(order, given, self._measurer(order.call, given))
        try:
            reply = opened.advance(order, self.name)
        except BaseException:
            opened.close()
            raise
        if order.what == SEARCH and not reply.again:
            self._runs[order.run.identity] = opened
            while len(self._runs) > _KEPT_RUNS:
                self._runs.popitem(last=False)[1].close()
        else:
            opened.close()
        return reply

    def _measure(self, order: Batch, given: Given) -> HostReply:
        """Measure what is in a batch."""
        workload, _ = self._workloads.get(order.task, lambda: _read_task(order.task))
        with ExitStack() as stack:
            made = self._measurer(order.call, given)
            problem = Problem(**given.compared, verify=given.verify, seed=given.seed)
            measuring = Measuring(made, given.target, problem, stack)
            found, began = measuring.machine_key, made.clock.now()
            if found != order.target_key:
                raise HostError(
                    f"its measurer measures {found}, and the call is for another machine"
                )
            measurer = measuring.on(workload)
            left = math.inf if order.seconds is None else order.seconds
            measurer.deadline = measurer.clock.now() + left
            measurer.best_so_far = order.best
            try:
                reply = _measured(order, measurer)
            finally:
                measurer.deadline = math.inf
            return replace(
                reply,
                name=self.name,
                verified=measuring.verified is not False,
                seconds=measurer.clock.now() - began,
            )

    def _open(self, order: Order, given: Given, measurer: Measurer) -> OpenRun:
        """Return the run of an order, as this process left it where no other host went on."""
        opened = self._runs.pop(order.run.identity, None)
        if opened is not None:
            with ExitStack() as stack:
                stack.callback(opened.close)
                if opened.goes_on_with(order):
                    stack.pop_all()
                    return opened
        workload, moves_data = self._workloads.get(order.task, lambda: _read_task(order.task))
        return OpenRun(order, given, measurer, workload, moves_data=moves_data)

    def _measurer(self, call: bytes, given: Given) -> Measurer:
        """Return the measurer of a call: those of the target's own kind share one."""
        make = given.make_measurer
        key = given.target.key if make is None else call
        if key not in self._measurers:
            if len(self._measurers) >= _KEPT_MEASURERS:
                self.close()
            made = kept_measurer(given.target) if make is None else make(given.target)
            self._measurers[key] = as_measurer(made)
        return self._measurers[key]

    def close(self) -> None:
        """Stop what measurers have started, and forget all runs."""
        while self._runs:
            self._runs.popitem()[1].close()
        while self._measurers:
            self._measurers.popitem()[1].close()


class OpenRun:
    """A run that this process has searched, with a database of its own.

    Parameters
    ----------
    order: the first one that this process has of it, or one that another host's slice came before.
    given: the call.
    measurer: measures.
    workload: the program; moves_data: whether it computes nothing.
    """

    def __init__(
        self,
        order: Order,
        given: Given,
        measurer: Measurer,
        workload: Workload,
        *,
        moves_data: bool,
    ) -> None:
        self._stack = ExitStack()
        database = self._stack.enter_context(Database())
        self._call = given.call(database, measurer, order.used)
        with ExitStack() as only_now:  # orders of other runs need the measurer, too
            self._call.open(only_now)
        self._stored = OrderDatabase(database, order)
        task = given.task(workload, order.run.seed, moves_data=moves_data)
        self._run = TaskRun(task, self._call, self._stack)
        self._run.identity = order.run.identity
        if (found := self._call.measuring.machine_key) != order.run.target_key:
            raise HostError(f"its measurer measures {found}, and the call is for another machine")
        self._run.open()
        self._packed, self._token, self._cut = order.call, "", False

    def goes_on_with(self, order: Order) -> bool:
        """Whether an order comes after this process's last reply; what is new is taken in then.

        Where another host has carried out the last order as well, its reply may be the one that
        counts.
        """
        if not self._token or (order.after, order.call) != (self._token, self._packed):
            return False
        if self._cut and order.what == SEARCH:
            return False  # what it had asked for then can only be asked for again
        self._stored.add(order)
        self._call.budget.restart(order.used)
        self._call.measuring.unbind()
        self._run.run.restart_pace()
        return True

    def advance(self, order: Order, name: str) -> HostReply:
        """Carry out an order; ``name`` is that of the host."""
        run, stored, began = self._run, self._stored, self._call.budget.elapsed
        state, whole = run.state, not self._token
        before = 0 if whole else len(state.records)
        cut = ended = False
        finished = order.finished
        if order.what == FINALS:
            run.conclude(order.finals_seconds)
            run.blame()
            run.store(run.result(order.finished))
        else:
            wanted = run.trials + order.trials
            seconds = math.inf if order.seconds is None else order.seconds
            found = run.advance(wanted, Progress(), seconds)  # the driver shows it
            cut, finished = found.cut or run.out_of_time, found.finished
            ended = run.trials < wanted and not cut
            if not cut:  # what is pending then can only be asked for again
                run.save()
        self._token, self._cut = os.urandom(8).hex(), cut
        latency = run.unscheduled_latency
        reply = HostReply(
            order.serial,
            MEASURED,
            name,
            message=finished,
            token=self._token,
            cut=cut,
            ended=ended,
            verified=self._call.measuring.verified is not False,
            unscheduled=latency if 0.0 < latency < math.inf else None,
            complete=run.run.unscheduled.complete,
            keeps_default=order.what == FINALS and run.keeps_default,
            whole=whole,
            told=[one.id or 0 for one in state.records[before:]],
            seconds=self._call.budget.elapsed - began,
        )
        return stored.reply(reply, run)

    def close(self) -> None:
        """Forget it."""
        self._stack.close()


def order_of(packed: bytes) -> Order | Batch:
    """Read an order; HostError for anything else."""
    header, frames = unpack(packed)
    kind = Order if header.get("what") in (SEARCH, FINALS) else Batch
    return kind.of(header, frames)


def _measured(order: Batch, measurer: Measurer) -> HostReply:
    """Return what a measurer, bound to the program, finds out for a batch."""
    reply = HostReply(order.serial, MEASURED, "")
    if order.what == DESCRIBE:
        return reply
    if order.what == UNSCHEDULED:
        latency = measurer.reference_latency
        return replace(
            reply,
            message="\n".join(measurer.unreached),
            unscheduled=latency if 0.0 < latency < math.inf else None,
            complete=measurer.reference_complete,
        )
    candidates = order.candidates
    if order.what == MEASURE:
        found = list(measurer.checked(candidates))
    else:
        found = measurer.remeasure(
            candidates, rounds=order.rounds, budget_seconds=order.budget_seconds
        )
    return replace(reply, records=measurements_frame(found))


def task_text(workload: Workload, program: str, *, moves_data: bool) -> bytes:
    """Return what all orders of a task have in common; ``program`` is TVM's JSON text."""
    named = {"program": program, "name": workload.name, "moves_data": moves_data}
    return deflate(json.dumps({**named, "key": workload.key}))


def _read_task(text: bytes) -> tuple[Workload, bool]:
    stored = json.loads(inflate(text))
    workload = Workload(read_stored_program(stored["program"]), stored["name"])
    if workload.key != stored["key"]:
        raise HostError(f"the program of {workload.name!r} is another one here than at the driver")
    return workload, stored["moves_data"]


def _begin_anew() -> None:
    """Forget what belongs to the process that this one was forked from."""
    global _HOST, _BUSY
    _HOST, _BUSY = Host(), Lock()


_HOST, _BUSY = Host(), Lock()
atexit.register(lambda: _HOST.close())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
