"""Device code of sm_90a, a module per role; what does not depend on the chip is kernel/sm100's."""
