// Why a link is not up and why a message died: the node's reasons in words. Pure.

// A reason is ``ADDRESS: STEP: ERROR``, the step being that at which an attempt to connect failed; of a file there is no address.
const STEP = /^(?:(\S+): )?(credentials|name|tcp|tls|websocket|connack): (.*)$/s;
const STEPS_IN_WORDS = {
  credentials: "its credentials cannot be read",
  name: "the remote's name is not known",
  tcp: "the remote cannot be reached",
  tls: "TLS with the remote fails",
  websocket: "the remote speaks no WebSocket there",
  connack: "the remote does not let it in",
};

/**
 * Why an attempt to connect failed: ``{words, detail, address}``, the detail as the other end or the system has it.
 *
 * Of a reason that names no step there is only the detail, which is the reason itself.
 */
export function failureOf(reason) {
  const [, address = "", step, error] = STEP.exec(reason) ?? [];
  if (!step) return { words: "", detail: reason, address: "" };
  const refused = step === "connack" && /^refused: (.*?)(?: \((0x[0-9a-f]{2})\))?$/.exec(error);
  if (refused) return { words: STEPS_IN_WORDS.connack, detail: error.slice("refused: ".length), address };
  if (step === "connack") return { words: "the remote does not answer the CONNECT", detail: error, address };
  return { words: STEPS_IN_WORDS[step], detail: error, address };
}

// Why a message died, as the store names it, and the reason codes of MQTT 5 among that.
const DEATHS = {
  connection_closed: "the remote closes the connection on them",
  packet_too_large: "larger than the remote takes",
  wrongly_acknowledged: "the remote acknowledges them wrongly",
};
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
