from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("soak", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
settings.load_profile("soak")
