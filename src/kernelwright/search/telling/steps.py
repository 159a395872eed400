"""Messages of a search to the user while it works: one `Progress` record a step."""

from kernelwright.core.progress import OnProgress, Progress, ignore
from kernelwright.timing.deadline import Budget


class SearchSteps:
    """Calls `on_progress` with the step, the time that is spent and the best result so far."""

    def __init__(self, on_progress: OnProgress = ignore, budget: Budget | None = None) -> None:
        self._on_progress, self._budget = on_progress, budget
        self.best = ""
        """The best result so far in plain words."""

    def __call__(
        self, stage: str, subject: str = "", *, done: int = 0, total: int | None = None
    ) -> None:
        """Report that a step begins.

        Args:
            stage, subject, done, total: as of `Progress`.
        """
        self._on_progress(
            Progress(
                stage=stage,
                subject=subject,
                done=done,
                total=total,
                spent_s=self._budget.spent_s() if self._budget else 0.0,
                budget_s=self._budget.seconds if self._budget else None,
                best=self.best,
            )
        )
