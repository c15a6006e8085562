"""Instruction coverage: every form in forms.ptx is parsed and lowered to find out which PTX the emulator supports."""

from .forms import Family, Form, families, markdown, read_forms

__all__ = ["Family", "Form", "families", "markdown", "read_forms"]
