"""The canary phase, `python -m harness.judge.canary`: a short integer sum that every healthy GPU computes exactly."""

from __future__ import annotations

import sys

from harness.host.verdict import Verdict

COUNT = 1 << 20


def main() -> int:
    """Sum up COUNT integers on the device. Return INFRA's exit code if the result is wrong, or CUDA raises an error.

    The last line printed is the reason of the verdict.
    """
    import torch

    if not torch.cuda.is_available():
        print("no CUDA device is visible: check CUDA_VISIBLE_DEVICES and nvidia-smi")
        return Verdict.INFRA.exit_code
    try:
        numbers = torch.arange(COUNT, device="cuda", dtype=torch.int64)
        found = int((numbers * 3).sum().item())
    except RuntimeError as error:
        print(f"{torch.cuda.get_device_name()}: {str(error).splitlines()[0]}; nvidia-smi lists the processes there")
        return Verdict.INFRA.exit_code
    wanted = 3 * COUNT * (COUNT - 1) // 2
    print(f"{torch.cuda.get_device_name()}: sum {found}, expected {wanted}")
    return 0 if found == wanted else Verdict.INFRA.exit_code


if __name__ == "__main__":
    sys.exit(main())
