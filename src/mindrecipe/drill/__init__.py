"""The failure drill: a short run is broken on purpose, again and again, and must come out bit for bit as if it had not been."""

from mindrecipe.drill.drill import Hit, Row, drill
from mindrecipe.drill.faults import FAULTS

__all__ = ["FAULTS", "Hit", "Row", "drill"]
