"""What the page's picture says of each child, where it has a process and where it shares one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.supervisor.http.page.modules import needs_node, told_by

pytestmark = [pytest.mark.process, needs_node]

MODEL = """
import { modelOf } from "./picture.js";
const lane = (name) => ({ name, lane: 0, state: "connected", depth: 0, ledger_closes: true });
const shown = (...names) => {
  const processes = names.map((name) => ({ name, state: "ready", pss_bytes: 1 << 20 }));
  const status = { supervisor: { uptime_s: 1 }, ready: true, bridges: [lane("a"), lane("b")], processes };
  const model = modelOf({ status, judgement: { bridges: new Map() } });
  return [model.clients, model.store, ...model.lanes.map((one) => one.bridge)].map((box) => [box.line, box.verdict]);
};
console.log(JSON.stringify([shown("store", "clients", "bridge:a:0", "bridge:b:0"), shown("site", "bridge:b:0"), shown("store")]));
"""


def test_a_child_is_well_with_the_process_that_it_shares(tmp_path: Path) -> None:
    isolated, together, killed = told_by(MODEL, tmp_path)

    assert isolated == [["1 MiB", "ok"], ["1 MiB", "ok"], ["nothing waits", "ok"], ["nothing waits", "ok"]]
    assert together == [["in site", "ok"], ["in site", "ok"], ["nothing waits", "ok"], ["nothing waits", "ok"]]
    assert [line for line, _ in killed] == ["does not run", "1 MiB", "stopped", "stopped"]
