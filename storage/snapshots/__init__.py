"""Snapshots on the disk: their manifest, the folder that holds them, copies of them."""
