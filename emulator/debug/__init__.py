"""Looking into a launch: the debugger, recordings of what every instruction did, and the search for a wrong value.

Nothing of it runs unless it is asked for: a launch then executes one instruction at a time by another program.
"""
