"""In which order several processes take the files of the tests, and which of them stay together.

pytest-xdist takes those with most tests first, which are the quickest here: the slow ones, of few tests each, would come last and
run on alone. So those that take longest begin; what is not named comes behind them.
"""

from __future__ import annotations

SLOWEST_FIRST = (
    "tests/simulation/test_simulation.py",
    "tests/faults/test_cut_exchange.py",
    "tests/faults/test_kill_each_process.py",
    "tests/spark/test_source.py",
    "tests/spark/test_reports.py",
    "tests/spark/test_report_command.py",
    "tests/faults/test_disk_faults.py",
    "tests/bridge/test_delivery.py",
    "tests/faults/test_supervision.py",
    "tests/broker/test_access.py",
    "tests/broker/test_sessions.py",
    "tests/spark/test_packaged.py",
    "tests/fuzz/test_fuzz.py",
    "tests/bridge/test_exchange.py",
    "tests/bridge/test_remote_subscriptions.py",
    "tests/bridge/test_persistence_table.py",
    "tests/faults/test_kill_remote_intake.py",
    "tests/bridge/test_limits.py",
    "tests/actors/test_connection.py",
    "tests/storage/test_lane_sessions.py",
    "tests/snapshots/test_node.py",
    "tests/faults/test_damaged_node.py",
    "tests/bridge/test_remote_exchange.py",
    "tests/broker/test_client_limits.py",
    "tests/broker/test_stalls.py",
    "tests/faults/test_clock_and_descriptors.py",
    "tests/bridge/test_cli.py",
    "tests/bridge/test_bench.py",
    "tests/bridge/test_queue_commands.py",
    "tests/broker/test_bench.py",
    "tests/analysis/test_page_in_chromium.py",
    "tests/faults/test_damaged_files.py",
    "tests/faults/test_power_cut.py",
    "tests/broker/test_session_commands.py",
    "tests/faults/test_kill_history.py",
    "tests/bridge/test_reconnect.py",
    "tests/faults/test_random_faults.py",
    "tests/faults/test_node_loses_power.py",
    "tests/faults/test_lost_power.py",
    "tests/faults/test_order_from_remote.py",
    "tests/faults/test_lossy_link.py",
    "tests/faults/test_kill_during_recovery.py",
)
_RANKS = {path: rank for rank, path in enumerate(SLOWEST_FIRST)}
_ONE_JAVA = ("tests/spark/test_source.py", "tests/spark/test_reports.py", "tests/spark/test_report_command.py")


def rank(test: str) -> int:
    """Where a test comes; those of one rank stay as they are."""
    return _RANKS.get(_file(test), len(_RANKS))


def together(test: str) -> str:
    """Tests of which this is the same run in the same process: those of one file, and those that share a Spark session."""
    path = _file(test)
    return "tests/spark" if path in _ONE_JAVA else path


def _file(test: str) -> str:
    return test.partition("::")[0]
