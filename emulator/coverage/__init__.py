"""Which PTX the emulator understands, found by asking it: every form in forms.ptx is parsed and lowered."""

from .forms import Form, read_forms
from .table import Family, families, markdown

__all__ = ["Family", "Form", "families", "markdown", "read_forms"]
