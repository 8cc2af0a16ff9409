"""Settings for all tests: the same examples on every run, and no limit that depends on speed."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "repository",
    deadline=None,
    derandomize=True,
    print_blob=False,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repository")
