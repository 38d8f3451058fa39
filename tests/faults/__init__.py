"""Real faults: processes killed and stopped, disks full, links cut."""
