// Why a link is not up and why a message died: the node's reasons in words, and what cures them. Pure.

// A reason is ``ADDRESS: STEP: ERROR``, the step being that at which an attempt to connect failed; of a file there is no address.
const STEP = /^(?:(\S+): )?(credentials|name|tcp|tls|websocket|connack): (.*)$/s;
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
const BUSY = "Nothing here: the broker has no room just now, and is tried again; its log says more.";
const CURES_OF_REFUSALS = {
  "0x84": "Set protocol of this bridge to the version of MQTT that the broker speaks.",
  "0x88": BUSY,
  "0x89": BUSY,
  "0x97": BUSY,
  "0x9f": BUSY,
};
const NO_ANSWER = "See that an MQTT broker listens there, with TLS or without as the bridge has it, and the broker's log.";
const UNKNOWN = "See the broker's log; bascule doctor CONFIG tries each remote with the bridge's own credentials.";

/**
 * Why an attempt to connect failed: ``{words, detail, address, cure}``, the detail as the other end or the system has it.
 *
 * Of a reason that names no step there is only the detail, which is the reason itself.
 */
export function failureOf(reason) {
  const [, address = "", step, error] = STEP.exec(reason) ?? [];
  if (!step) return { words: "", detail: reason, address: "", cure: UNKNOWN };
  const refused = step === "connack" && /^refused: (.*?)(?: \((0x[0-9a-f]{2})\))?$/.exec(error);
  if (refused) return { words: STEPS_IN_WORDS.connack, detail: error.slice("refused: ".length), address, cure: CURES_OF_REFUSALS[refused[2]] ?? CURES.connack };
  if (step === "connack") return { words: "the remote does not answer the CONNECT", detail: error, address, cure: NO_ANSWER };
  return { words: STEPS_IN_WORDS[step], detail: error, address, cure: CURES[step] };
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
