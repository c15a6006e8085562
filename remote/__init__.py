"""Targets, the places where runs happen: one small file for each kind, all behind the protocol `remote.target`."""
