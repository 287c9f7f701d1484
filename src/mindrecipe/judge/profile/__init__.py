"""What MindSpore's profiler wrote (`profile=steps`), summed up: operators, scopes, steps and their gaps, memory, links between ranks."""

from __future__ import annotations

from mindrecipe.judge.profile.summary import Profile, first_profile, profiles

__all__ = ["Profile", "first_profile", "profiles"]
