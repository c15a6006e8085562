"""Device code of sm_90a, a module per role. Code that both chips share is in kernel/device/."""
