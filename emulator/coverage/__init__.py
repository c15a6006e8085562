"""Instruction coverage: every form in forms.ptx is parsed and lowered to find out which PTX the emulator supports."""

from .forms import Form, read_forms
from .table import Family, families, markdown

__all__ = ["Family", "Form", "families", "markdown", "read_forms"]
