"""Data that compiled loads and stores share with the machine: kept access patterns and records of accesses."""
