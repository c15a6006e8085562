"""Formats that the hardware reads: number formats, descriptors, scale factors, tensor maps."""
