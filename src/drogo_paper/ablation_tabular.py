"""Which objectives reach the truth when every state has a number of its own?"""

from __future__ import annotations

from drogo.runs.job import Job
from drogo_paper.ablation import TABULAR, ablation_jobs
from drogo_paper.ablation_answer import ablation_answer
from drogo_paper.scope import Answer, Get, Scope


def jobs(scope: Scope, get: Get) -> list[Job]:
    return ablation_jobs(scope, get, TABULAR)


def answer(scope: Scope, get: Get) -> Answer:
    return ablation_answer(scope, get, TABULAR)
