"""The right of one process to run one job: who holds it, whether that owner is dead, how it is kept."""

import socket
import uuid
from dataclasses import dataclass

from rowcrew.clock import Clock
from rowcrew.domain.job import Lease
from rowcrew.errors import DiskFull, LeaseLost, StoreBusy
from rowcrew.processes import identify, is_alive
from rowcrew.store.database import Database
from rowcrew.store.jobs import JobStore, LeaseClaim

LEASE_SECONDS = 15.0
HEARTBEAT_SECONDS = 3.0


def up_ms(clock: Clock) -> int:
    """The monotonic clock in milliseconds; comparable between the processes of one boot."""
    return int(clock.monotonic() * 1000)


def is_dead(lease: Lease, clock: Clock) -> bool:
    """May the lease be taken over?

    On the same boot of the same machine the owner's process tells at once that it is dead, and a heartbeat is
    measured on the monotonic clock, so that setting the wall clock kills nobody. Elsewhere only an old
    heartbeat tells.
    """
    here = identify()
    if lease.host != socket.gethostname():
        return clock.now_ms() - lease.heartbeat_at_ms > LEASE_SECONDS * 1000
    if lease.process.boot_id != here.boot_id or not is_alive(lease.process):
        return True
    return up_ms(clock) - lease.heartbeat_up_ms > LEASE_SECONDS * 1000


def is_held(lease: Lease | None, clock: Clock) -> bool:
    """Is there a live owner?"""
    return lease is not None and not is_dead(lease, clock)


def new_claim(clock: Clock) -> LeaseClaim:
    return LeaseClaim(
        owner=str(uuid.uuid4()), host=socket.gethostname(), process=identify(), up_ms=up_ms(clock)
    )


@dataclass(slots=True)
class HeldLease:
    """A lease of this process. `keep` renews it for as long as it runs."""

    database: Database
    clock: Clock
    job_id: str
    owner: str
    epoch: int

    async def keep(self) -> None:
        """Renew the lease every few seconds. Raises LeaseLost when it has gone to another."""
        while True:
            await self.clock.sleep(HEARTBEAT_SECONDS)
            try:
                kept = await self.database.write(
                    lambda connection: JobStore(connection).heartbeat(
                        self.job_id,
                        epoch=self.epoch,
                        owner=self.owner,
                        now=self.clock.now_ms(),
                        up=up_ms(self.clock),
                    )
                )
            except (DiskFull, StoreBusy):
                # Not being able to write does not mean that another took over; fencing guards the rest.
                continue
            if not kept:
                raise LeaseLost(f"another process runs job {self.job_id} now; this one stops")

    async def release(self) -> None:
        """Give it back. Nothing happens when it was lost."""
        await self.database.write(
            lambda connection: JobStore(connection).release_lease(
                self.job_id, epoch=self.epoch, now=self.clock.now_ms()
            )
        )
