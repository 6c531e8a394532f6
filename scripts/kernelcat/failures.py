"""Failed jobs are done again by the next run.

Snakemake gives a job that fails the outputs back that it had before, where they are marked update(), but remembers it
as finished, with the inputs and params that it failed with. The next run would find those unchanged and take the former
outputs for what they make. So such outputs stay marked as incomplete, like those of a job that was killed together with
Snakemake.
"""


def remember(workflow) -> None:
    """To be called before the first job of a Snakemake workflow, in the process that its user started."""
    persistence, scheduler = workflow.persistence, workflow.scheduler
    remember_as_finished = persistence.finished

    async def finished(job) -> None:
        if any(job == failed or failed.is_group() and job in failed for failed in scheduler._toerror):
            persistence.started(job)  # which is what the mark says
        else:
            await remember_as_finished(job)

    persistence.finished = finished
