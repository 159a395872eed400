"""Refinement: a model reads why its answers for a fragment do not win, and answers again."""

from kernelwright.search.form_work import MIN_WRITING_S, FormWork
from kernelwright.search.sources import Sources, Writing
from kernelwright.search.tune import Tuned, tune
from kernelwright.verify.judge import Judge

REFINEMENTS = 2
"""Further answers of a model for a fragment."""
REFINING_SHARE = 0.25
"""Share of the time left for a form that each further answer may take."""


def refined(
    work: FormWork, tuned: Tuned, judge: Judge, sources: Sources, *, is_whole: bool
) -> Tuned:
    """The fragment with the models' further answers judged too. Models answer again while no
    candidate wins, and while the form has time.

    Args:
        tuned: the fragment with the models' first answers.
        is_whole: as of `tune`.

    Raises:
        UsageError: a model refuses the conversation.
    """
    fragment = tuned.fragment
    for number in range(REFINEMENTS):
        left_s = work.until.left_s()
        if tuned.winner is not None or left_s < MIN_WRITING_S:
            break
        num_known = sources.num_answers(fragment.program)
        judged = zip(tuned.candidates, tuned.verdicts, strict=True)
        num_new = sources.refine(
            fragment.program,
            judge.rules,
            {candidate.source: verdict for candidate, verdict in judged},
            seed=number,
            for_s=REFINING_SHARE * left_s,
        )
        # Without a new answer, the next question would be the same.
        if not num_new:
            break
        further = tune(
            fragment,
            judge,
            sources,
            Writing(work.writers, work.limit, seed=0, first_answer=num_known),
            deadline=work.deadline,
            is_whole=is_whole,
        )
        tuned = further.beside(tuned)
    return tuned
