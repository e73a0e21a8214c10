"""The files of a run that must not depend on how it came to its end, and ways to interrupt one."""

from pathlib import Path

from geodesic.training.session import CurriculumSession

FILES = ("evaluations.csv", "stages.csv", "episodes.csv", "curriculum.npz")


class Interrupted(Exception):
    """Stops a run in the middle."""


def contents(folder):
    """The bytes of the files that interrupted and uninterrupted runs must have in common."""
    return {name: (Path(folder) / name).read_bytes() for name in FILES}


def release(batch):
    """Unlock the folders of a batch that does not train to its end."""
    for session in batch.sessions:
        session.close()


def after_each_segment(batch, call):
    """Call `call(index)` for every run of a batch once the results of a segment are in its files.

    By then the next segment has started, and a checkpoint that was due has been written.
    """
    start_segment, first = batch._start_segment, batch.step

    def start_and_call():
        start_segment()
        for index, session in batch.running if batch.step > first else ():
            session.write()
            call(index)

    batch._start_segment = start_and_call


def interrupt_first_segment(patch):
    """Interrupt every run after its first segment, before anything of it is written."""
    write = CurriculumSession.write

    def write_or_interrupt(session):
        if session.updates:
            raise Interrupted
        write(session)

    patch.setattr(CurriculumSession, "write", write_or_interrupt)
