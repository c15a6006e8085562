"""Data that compiled loads and stores share with the machine: learned access patterns and notes of accesses."""
