// Why a link is not up and why a message died: the node's reasons in words, and what cures them. Pure.

// The step at which an attempt to connect failed stands in the reason, behind the address.
const STEP = /(?:^|: )(credentials|name|tcp|tls|websocket|connack): /;
const CURES = {
  credentials: "Mend the file that is named, or its permissions.",
  name: "Check the host name, and the machine's resolver (getent hosts NAME).",
  tcp: "Check address and port, that a broker listens there, and what a firewall lets through.",
  tls: "Check tls.ca_file, tls.server_name, and that transport and port belong together.",
  websocket: "Check websocket_path, and that the port speaks WebSocket.",
  connack: "Check username, password_file and client_id of this bridge against what the broker allows.",
};
const STEPS_IN_WORDS = {
  credentials: "its credentials cannot be read",
  name: "the remote's name is not known",
  tcp: "the remote cannot be reached",
  tls: "TLS with the remote fails",
  websocket: "the remote speaks no WebSocket there",
  connack: "the remote does not let it in",
};
const NO_ANSWER = "See that an MQTT broker listens there, with TLS or without as the bridge has it, and the broker's log.";
const UNKNOWN = "See the broker's log; bascule doctor tries each remote with the bridge's own credentials.";

/** ``{words, cure}`` of the reason why an attempt to connect failed; ``words`` is empty where it names no step. */
export function failureOf(reason) {
  const step = STEP.exec(reason)?.[1];
  if (!step) return { words: "", cure: UNKNOWN };
  if (step === "connack" && !reason.includes("refused")) return { words: "the remote does not answer the CONNECT", cure: NO_ANSWER };
  return { words: STEPS_IN_WORDS[step], cure: CURES[step] };
}

// Why a message died, as the store names it, and the reason codes of MQTT 5 among that.
const DEATHS = { connection_closed: "the remote closes the connection on them", too_large: "larger than the remote takes" };
const REFUSALS = {
  "0x80": "no reason given",
  "0x83": "refused by the remote's own rules",
  "0x87": "not authorized",
  "0x90": "topic name invalid",
  "0x91": "packet identifier in use",
  "0x97": "quota exceeded",
  "0x99": "payload format invalid",
};

/** What dead letters died of, in words, and as the store names it. */
export function deathOf(reason) {
  const code = /^remote_(0x[0-9a-f]{2})$/.exec(reason)?.[1];
  if (code) return `refused by the remote: ${REFUSALS[code] ?? "reason code"} (${code})`;
  return DEATHS[reason] ?? reason.replaceAll("_", " ");
}
