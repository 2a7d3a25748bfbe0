"""Runs the decoder under FSDP2; rank 1 dies in the middle of its second save.

Half of its tensors are then on disk, and the other ranks wait for it.
"""

import dataclasses
import os
import signal

from torch.distributed.checkpoint import FileSystemWriter

from examples import decoder_fsdp

write, saves = FileSystemWriter.write_data, []


def write_or_die(self, plan, planner):
    saves.append(plan)
    if os.environ["RANK"] == "1" and len(saves) == 2:
        half = dataclasses.replace(plan, items=plan.items[: len(plan.items) // 2])
        write(self, half, planner).wait()
        os.kill(os.getpid(), signal.SIGKILL)
    return write(self, plan, planner)


if __name__ == "__main__":
    FileSystemWriter.write_data = write_or_die
    decoder_fsdp.main()
