"""Which objectives reach the truth with a network, the paper's optimiser and its step sizes?"""

from __future__ import annotations

from drogo.runs.job import Job
from drogo_paper.ablation import NETWORK_PAPER, ablation_jobs
from drogo_paper.ablation_answer import ablation_answer
from drogo_paper.scope import Answer, Get, Scope


def jobs(scope: Scope, get: Get) -> list[Job]:
    return ablation_jobs(scope, get, NETWORK_PAPER)


def answer(scope: Scope, get: Get) -> Answer:
    return ablation_answer(scope, get, NETWORK_PAPER)
