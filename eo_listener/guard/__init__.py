"""Whether what Spark does continues what was done before: monotonic, and without a gap. Pure.

`sequence` judges progress events by the ones before them, for the group; `batch` judges what is
planned by what a sink has applied, before anything is written.
"""

from eo_listener.guard.batch import (
    Judgement,
    OnFirst,
    OnGap,
    OnRecreated,
    is_of_another_topic,
    judge_batch,
)
from eo_listener.guard.first import Elsewhere, is_doubtful, is_unknown
from eo_listener.guard.sequence import Guard, Sequence, Verdict, judge

__all__ = [
    "Elsewhere",
    "Guard",
    "Judgement",
    "OnFirst",
    "OnGap",
    "OnRecreated",
    "Sequence",
    "Verdict",
    "is_doubtful",
    "is_of_another_topic",
    "is_unknown",
    "judge",
    "judge_batch",
]
