"""Settings of every test."""

from hypothesis import HealthCheck, settings

# Machines are shared and noisy: a slow example says nothing about the code.
settings.register_profile("noisy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("noisy")
