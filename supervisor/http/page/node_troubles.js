// What is in trouble with the node itself: disk, listener, processes, snapshots, telemetry, queues that nothing serves, its configuration. Pure.

import { bytes, counted, listed } from "./format.js";
import { processVerdict, trouble } from "./rows.js";

const DISK_CURE = "Make room on the disk of data_dir, or purge what is not wanted; intake goes on by itself.";

/** All of them. */
export function nodeTroubles(status) {
  const found = [];
  const add = (verdict, about, anchor, text, facts, cure) => found.push({ about, anchor, ...trouble(verdict, text, facts, cure) });
  const store = status.store ?? {};
  if (store.state && store.state !== "running") {
    const words = { disk_low: "less room on the disk than min_free_disk", disk_full: "the disk is full", disk_error: "the disk reports errors", log_away: "the log of the cluster cannot be used" };
    const error = store.error ? ` (${store.error})` : "";
    const cures = { disk_error: "See the kernel's log; copy the data before anything else.", log_away: "See that a majority of the NATS servers runs and is reached; intake goes on by itself." };
    add("problem", store.state === "log_away" ? "Cluster" : "Disk", "node", `${words[store.state] ?? store.state}${error}: nothing is taken from clients`, [`${bytes(store.disk_free_bytes)} free`], cures[store.state] ?? DISK_CURE);
  }
  if (store.damaged_files) add("attention", "Store", "node", `damaged files were put aside in ${store.damaged_files}`, [], "Copy them before anything else; bascule report SNAPSHOT says what they held.");
  const listener = status.listener ?? {};
  if (listener.accepting === false) {
    add("problem", "Clients", "clients", `the listener accepts nobody${listener.error ? `: ${listener.error}` : ""}`, [], "Free the address that is named, or change listeners in the configuration.");
  }
  for (const row of status.processes ?? []) {
    if (row.name.startsWith("bridge:")) continue; // told with its bridge
    const verdict = processVerdict(row.state);
    if (verdict !== "ok") add(verdict, row.name, "node", `the process is ${row.state}${row.last_cause ? `: ${row.last_cause}` : ""}`, [], "");
    else if (row.last_cause && listener.accepting !== false) add("attention", row.name, "node", row.last_cause, [], "");
  }
  for (const key of ["failure", "ship_failure"]) {
    const why = status.snapshots?.[key];
    if (why) add("attention", "Snapshots", "node", key === "failure" ? `the last snapshot was not made: ${why}` : `the last snapshot was not copied: ${why}`, [], "");
  }
  const telemetry = status.telemetry ?? {};
  if (telemetry.error) {
    const what = telemetry.failing_s === null ? "the collector took the metrics, but" : "the collector does not take the metrics:";
    add("attention", "Telemetry", "node", `${what} ${telemetry.error}`, [], "See telemetry.otlp in the configuration, and the collector's log.");
  }
  for (const one of status.unserved ?? []) {
    add("attention", one.queue, "orphans", "messages wait, and no bridge of the configuration serves them", [`${counted(one.depth, "message")} of ${bytes(one.bytes)}`], "Put the bridge back, or purge its queue.");
  }
  if (status.configuration?.changed_on_disk) {
    add("attention", "Configuration", "configuration", `${listed(status.configuration.changed_files)} has changed, and what runs is what it said before`, [], "See the plan below and apply it, or undo the change.");
  }
  return found;
}
