"""A simulated fleet: machines with time that can run fast, their BMCs, a MAAS and the hosts that boot."""
