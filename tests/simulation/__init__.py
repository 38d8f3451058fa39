"""The real actors under a simulated scheduler, clock, network, disk and remote broker, all driven by one seed."""
