"""The yardstick: the same mindformers.yaml given to mindformers' Trainer, with nothing of mindrecipe round it.

    python benchmarks/bare_mindformers.py RUN_DIR/mindformers.yaml STEPS.json

Writes the loss of every step and the time it ended to STEPS.json, for comparison with metrics.jsonl. On CPU it registers the least
that training needs there: an overflow check without the NPU's status register; for mcore models, which have no way to run
on CPU of their own, it borrows mindrecipe's kernels.
"""

import json
import sys
import time

import mindspore as ms
from mindformers import MindFormerConfig, Trainer, build_context
from mindformers.tools.register import MindFormerModuleType, MindFormerRegister
from mindformers.wrapper.wrapper import MFTrainOneStepCell
from mindspore import ops
from mindspore.train import Callback


@MindFormerRegister.register(MindFormerModuleType.WRAPPER)
class BareStepCell(MFTrainOneStepCell):
    def start_overflow_check(self, pre_cond, compute_input):
        return ms.Tensor([0], ms.int32), compute_input

    def get_overflow_status(self, status, compute_output):
        finite = [ops.ReduceAll(False)(ops.IsFinite()(gradient)).astype(ms.float32) for gradient in compute_output]
        return ops.AddN()(finite) < len(finite)


class Steps(Callback):
    losses, ended = [], []

    def on_train_step_end(self, run_context):
        self.losses.append(float(run_context.original_args().net_outputs[0].asnumpy().mean()))
        self.ended.append(time.perf_counter())


if __name__ == "__main__":
    config = MindFormerConfig(sys.argv[1])
    if config.context.device_target == "CPU":
        config.runner_wrapper.type = "BareStepCell"
        if not config.use_legacy:
            from mindrecipe.worker.portable import mcore

            mcore.install()
    build_context(config)
    Trainer(args=config, task="text_generation", callbacks=[Steps()]).train()
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        json.dump({"losses": Steps.losses, "ended": Steps.ended}, out)
