"""What an evaluation takes of a checkpoint: every parameter of the model, trained or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.mindspore_inside


@pytest.fixture
def network() -> Any:
    """A trained weight, a frozen one, the bias that balances experts, and what a pass counts in."""
    import mindspore as ms
    from mindspore import nn

    cell = nn.Cell()
    for name, trained in (("weight", True), ("frozen", False), ("expert_bias", False), ("fi_accu", False)):
        cell.insert_param_to_cell(name, ms.Parameter(ms.Tensor(np.zeros(2, np.float32)), name=name, requires_grad=trained))
    return cell


def _saved(*names: str) -> dict[str, Any]:
    import mindspore as ms

    return {name: ms.Parameter(ms.Tensor(np.full(2, 3.0, np.float32)), name=name) for name in (*names, "adam_m.weight", "global_step")}


def test_what_no_gradient_reaches_is_loaded_as_well(network: Any) -> None:
    from mindrecipe.worker.evaluation import fill

    fill(network, _saved("weight", "frozen", "expert_bias"))
    found = {parameter.name: float(parameter.asnumpy()[0]) for parameter in network.get_parameters()}
    assert found == {"weight": 3.0, "frozen": 3.0, "expert_bias": 3.0, "fi_accu": 0.0}


@pytest.mark.parametrize("missing", ["weight", "frozen", "expert_bias"])
def test_nothing_of_the_model_stays_as_it_was_drawn(missing: str, network: Any) -> None:
    from mindrecipe.worker.evaluation import fill

    with pytest.raises(ValueError, match=f"has not 1 of 4 parameters: {missing}"):
        fill(network, _saved(*({"weight", "frozen", "expert_bias"} - {missing})))
