"""Recordings of the launches of compiled host code, so that they can run again without that host code.

A recording has the modules, every launch with its parameters, and the few torch operations between launches. Addresses
of the call's tensors, also those inside tensor maps, are relocations: a recording is replayed on other tensors of the
same layout.
"""

from .capture import record
from .format import Recording, RecordingError, load
from .replay import Emulated, replay
from .values import NotRecordable

__all__ = ["Emulated", "NotRecordable", "Recording", "RecordingError", "load", "record", "replay"]
