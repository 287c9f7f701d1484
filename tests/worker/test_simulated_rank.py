"""What a simulated rank takes stock of."""

from __future__ import annotations

import pytest

from mindrecipe.worker.simulated.inventory import _kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("model.layers.0.w", "weight"),
        ("accu_grads.model.layers.0.w", "gradient"),
        ("adam_m.model.layers.0.w", "state"),
        ("model.layers.0.expert_bias", "weight"),  # a parameter that no optimizer trains
        ("scale_sense", "weight"),
    ],
)
def test_kinds_of_what_is_held(name: str, kind: str) -> None:
    assert _kind(name, {"model.layers.0.w"}) == kind
