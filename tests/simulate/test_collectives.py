"""MindSpore's comm_execute_order.csv, counted."""

from __future__ import annotations

from pathlib import Path

from mindrecipe.simulate import collectives

#: as MindSpore 2.9.0 writes it
ROWS = """index,group,comm_rank,primitive,src_rank,dest_rank,root_rank,input_shape,input_type,output_shape,output_type,input_size,output_size
"12","2-160","5 7","AllGather","","","","(256, 128)","BFloat16","(512, 128)","BFloat16","65536","131072"
"86","3f02Send","3 7","Receive","3","","","(1)","BFloat16","(1, 128, 128)","BFloat16","2","32768"
"158","2-685","6 7","AllReduce","","","","(128, 128)","BFloat16","(128, 128)","BFloat16","32768","32768"
"183","2-685","6 7","AllReduce","","","","(128, 128)","BFloat16","(128, 128)","BFloat16","32768","32768"
"306","2-160","5 7","ReduceScatter","","","","(256)","Float32","(128)","Float32","1024","512"
"""


def test_alike_collectives_are_counted_and_the_largest_come_first(tmp_path: Path) -> None:
    (tmp_path / collectives.COMMUNICATION).write_text(ROWS)
    found = collectives.read(tmp_path)
    assert [(each.operator, each.count, each.bytes) for each in found] == [
        ("AllGather", 1, 131072),
        ("AllReduce", 2, 32768),
        ("Receive", 1, 32768),
        ("ReduceScatter", 1, 1024),
    ]
    assert found[1].ranks == (6, 7)
    assert found[1].total == 65536
    assert found[2].shape == "(1, 128, 128)"


def test_a_rank_that_sends_nothing_has_no_file(tmp_path: Path) -> None:
    assert collectives.read(tmp_path) == ()
    assert collectives.operators(tmp_path) == 0
