"""Model families and hardware as pure arithmetic: dimensions, parameters, FLOPs, peaks. No mindspore."""
