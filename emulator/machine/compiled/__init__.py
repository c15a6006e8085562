"""Data that compiled loads and stores share with the machine: cached access patterns and records of accesses."""
