"""The canary phase: a sum on the GPU that a healthy one gets right at once. `python -m harness.judge.canary`."""

from __future__ import annotations

import sys

from harness.host.verdict import Verdict

COUNT = 1 << 20


def main() -> int:
    """Fill, multiply and add up COUNT integers on the device; exact, so any other answer is a sick GPU."""
    import torch

    if not torch.cuda.is_available():
        print("no CUDA device is visible")
        return Verdict.INFRA.exit_code
    numbers = torch.arange(COUNT, device="cuda", dtype=torch.int64)
    found = int((numbers * 3).sum().item())
    wanted = 3 * COUNT * (COUNT - 1) // 2
    print(f"{torch.cuda.get_device_name()}: sum {found}, expected {wanted}")
    return 0 if found == wanted else Verdict.INFRA.exit_code


if __name__ == "__main__":
    sys.exit(main())
