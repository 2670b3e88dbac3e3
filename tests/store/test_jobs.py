"""Jobs in the store: created whole or not at all, found, leased, removed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcrew.domain.item import JobItemSpec
from rowcrew.domain.job import JobCounts, JobSettings, JobStatus, Lease, RetryPolicy
from rowcrew.errors import InvalidRequest, NotFound
from rowcrew.processes import ProcessIdentity
from rowcrew.store.jobs import JobStore
from rowcrew.store.rows import settings_from_json, settings_to_json
from tests.store.job_store import JOB, claim_of, new_job, open_store, specs


async def test_a_job_comes_back_as_it_was_stored(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    settings = JobSettings(worker="command:x", retry=RetryPolicy(5, 0.1, 2.0), max_concurrency=7)
    async with open_store(tmp_path) as store:
        await store.create(3, settings=settings, output_schema=schema)
        job = await store.jobs(lambda jobs: jobs.get(JOB))
    assert (job.status, job.settings, job.output_schema) == (JobStatus.PENDING, settings, schema)
    assert (job.input_headers, job.counts) == (("id", "text"), JobCounts(3, 3, 0, 0, 0))
    assert (job.created_at_ms, job.started_at_ms, job.completed_at_ms, job.lease) == (1, None, None, None)


async def test_a_file_that_turns_out_bad_midway_leaves_no_job(tmp_path: Path) -> None:
    def broken() -> Iterator[JobItemSpec]:
        yield from specs(2)
        raise InvalidRequest("the file changed while it was being read")

    async with open_store(tmp_path) as store:
        with pytest.raises(InvalidRequest):
            await store.jobs(lambda jobs: jobs.create(new_job(), broken(), now=1))
        for table in ("agent_jobs", "agent_job_items", "agent_job_totals"):
            assert await store.sql(f"SELECT count(*) FROM {table}") == [(0,)]


def test_settings_that_a_newer_version_added_are_no_obstacle() -> None:
    text = settings_to_json(JobSettings()).replace('"worker"', '"from_the_future":1,"worker"')
    assert settings_from_json(text) == JobSettings()


async def test_a_live_owner_keeps_its_lease_and_a_dead_one_loses_it(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await store.create(1)

        async def take(owner: str, *, dead: bool) -> int | Lease:
            return await store.jobs(
                lambda jobs: jobs.take_lease(JOB, claim_of(owner, 5), now=3, is_dead=lambda _: dead)
            )

        assert await take("first", dead=False) == 1
        held = Lease(1, "first", "here", ProcessIdentity(5, "0", "boot"), 3, 0)
        assert await take("second", dead=False) == held
        assert await take("third", dead=True) == 2
        assert not await store.jobs(lambda jobs: jobs.release_lease(JOB, epoch=1, now=4))
        assert await store.jobs(lambda jobs: jobs.release_lease(JOB, epoch=2, now=4))
        assert await take("fourth", dead=False) == 3


async def test_the_latest_and_the_latest_unfinished_job_are_found(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await store.create(1, job_id="a" * 36)
        await store.create(1, job_id="b" * 36, output_path="/b.csv")
        await store.sql(
            "UPDATE agent_job_items SET status='failed', completed_at_ms=1 WHERE job_id LIKE 'b%'"
        )
        await store.sql("UPDATE agent_jobs SET status='completed', completed_at_ms=1 WHERE id LIKE 'b%'")
        latest = await store.jobs(
            lambda jobs: (jobs.latest_id(unfinished=False), jobs.latest_id(unfinished=True))
        )
        assert latest == ("b" * 36, "a" * 36)
        assert await store.jobs(lambda jobs: jobs.list_ids_like("a")) == ["a" * 36]
        assert await store.jobs(lambda jobs: jobs.list_ids_like("_")) == []
        assert await store.jobs(lambda jobs: [job.id[0] for job in jobs.list_all()]) == ["b", "a"]
        assert await store.jobs(lambda jobs: jobs.find_writing_to("/out.csv")) == "a" * 36
        assert await store.jobs(lambda jobs: jobs.find_writing_to("/b.csv")) is None
        assert await store.jobs(lambda jobs: jobs.find_unfinished_twin("f")) == "a" * 36


async def test_job_items_attempts_and_totals_go_with_their_job(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await store.create(2)
        epoch = await store.run_job()
        await store.items(lambda items: items.claim(JOB, limit=1, epoch=epoch, now=3))
        await store.items(
            lambda items: items.assign(JOB, "r0", thread_id="t", process=None, epoch=epoch, now=4)
        )
        assert not await store.jobs(lambda jobs: jobs.delete(JOB)), "its owner still holds the lease"
        await store.jobs(lambda jobs: jobs.release_lease(JOB, epoch=epoch, now=5))
        assert await store.jobs(lambda jobs: jobs.delete(JOB))
        for table in ("agent_jobs", "agent_job_items", "agent_job_totals", "agent_job_attempts"):
            assert await store.sql(f"SELECT count(*) FROM {table}") == [(0,)]


async def test_an_unknown_job_is_not_found(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        with pytest.raises(NotFound, match="there is no job"):
            await store.jobs(lambda jobs: jobs.get("nobody"))
        with pytest.raises(NotFound):
            store.database.peek(lambda connection: JobStore(connection).status_of("nobody"))
