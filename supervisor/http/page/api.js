// The server's REST interface: one request at a time for each path, a token where one is wanted, errors as words.

const TOKEN = "bascule-token";
const TIMEOUT_MS = 30000;

/** The server or the node said no; ``kind`` tells programs why, ``message`` tells people. */
export class Refused extends Error {
  constructor(status, kind, message) {
    super(message);
    this.status = status;
    this.kind = kind;
  }
}

/** Nobody answers: the HTTP process, the machine or the network between is gone. */
export class Unreachable extends Error {}

export class Api {
  constructor() {
    this.token = sessionStorage.getItem(TOKEN) ?? "";
  }

  /** Use ``token`` from now on, until the tab is closed; an empty one forgets it. */
  use(token) {
    this.token = token;
    if (token) sessionStorage.setItem(TOKEN, token);
    else sessionStorage.removeItem(TOKEN);
  }

  /**
   * The answer to a question below ``/api/v1/``.
   *
   * Throws ``Refused`` or ``Unreachable``.
   */
  get(path, query = {}) {
    const wanted = Object.entries(query).filter(([, value]) => value !== null && value !== "");
    const search = wanted.length ? `?${new URLSearchParams(wanted)}` : "";
    return this._ask("GET", path + search);
  }

  /** The answer to an order. */
  post(path, body = {}) {
    return this._ask("POST", path, body);
  }

  put(path, body) {
    return this._ask("PUT", path, body);
  }

  remove(path) {
    return this._ask("DELETE", path);
  }

  async _ask(method, path, body) {
    const headers = { Accept: "application/json" };
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    if (method !== "GET") headers["X-Bascule"] = "1";
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    let response, answer;
    try {
      response = await fetch(`api/v1/${path}`, { method, headers, signal, cache: "no-store", body: body && JSON.stringify(body) });
      answer = response.ok ? await response.json() : await response.json().catch(() => null); // a server that ends in between cuts it
    } catch (error) {
      throw new Unreachable("the server does not answer", { cause: error });
    }
    if (response.ok) return answer;
    const said = answer?.error ?? {};
    throw new Refused(response.status, said.kind ?? "refused", said.message ?? `the server answers ${response.status}`);
  }
}

/** A bridge's name or a client identifier as part of a path. */
export const part = encodeURIComponent;
