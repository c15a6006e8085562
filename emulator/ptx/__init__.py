"""The front end: PTX text to instructions, basic blocks and their control flow."""
