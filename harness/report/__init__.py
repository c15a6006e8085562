"""What a run measured, as a record, and what people see of it: report, picture, table, notes."""
