"""How closely the verifier looks in a trial: often, so that a trial is short, or with the settings a user gets."""

from __future__ import annotations

import enum

from soak.flaws.flaw import Flaw
from soak.settings import VerifierSettings

QUICK_SETTINGS = VerifierSettings(
    settle=0.5,
    hot_interval=0.2,
    coverage=1.0,
    checkpoint=1.0,
    recall_ages=[1.0, 3.0, 6.0],
    ttl_epsilon=0.5,
    drain=20.0,
    evidence_max=100,
    canary=0.0,
)
"""The verifier as it is, looking more often than in a soak of hours."""

AS_SHIPPED_PATIENCE_SECONDS = 150.0
"""A session is read whole every minute, and what it lacks is confirmed by a second read."""
VERDICT_SLACK_SECONDS = 40.0
TRIAL_SECONDS_MAX = 180.0
AS_SHIPPED_TRIAL_SECONDS_MAX = 600.0


class Pace(enum.Enum):
    """Which settings of the verifier a trial is made with."""

    QUICK = "quick"
    AS_SHIPPED = "as-shipped"

    @property
    def settings(self) -> VerifierSettings:
        return QUICK_SETTINGS if self is Pace.QUICK else VerifierSettings()

    @property
    def verdict_seconds_max(self) -> float:
        """How long the verifier may take for its verdict once the load has ended."""
        return self.settings.drain + VERDICT_SLACK_SECONDS

    @property
    def trial_seconds_max(self) -> float:
        return TRIAL_SECONDS_MAX if self is Pace.QUICK else AS_SHIPPED_TRIAL_SECONDS_MAX

    def patience_seconds(self, flaw: Flaw) -> float:
        """How long a flaw may take to show itself."""
        if self is Pace.QUICK:
            return flaw.patience_seconds
        return max(flaw.patience_seconds, AS_SHIPPED_PATIENCE_SECONDS)
