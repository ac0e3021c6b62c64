"""Which objectives reach the truth with a network on coordinates?"""

from __future__ import annotations

from drogo.paper.ablation import ablation_answer, ablation_jobs
from drogo.paper.scope import Answer, Get, Scope
from drogo.runs.job import Job


def jobs(scope: Scope, get: Get) -> list[Job]:
    return ablation_jobs(scope, get, "network")


def answer(scope: Scope, get: Get) -> Answer:
    return ablation_answer(scope, get, "network")
