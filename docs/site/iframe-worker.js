// A page that was opened as a file may start no worker, and the search is one. There, and only there, a frame does its work.
if (location.protocol === "file:") {
  window.Worker = class {
    #frame = document.createElement("iframe");
    #loaded;

    constructor(url) {
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const inside = this.#frame.contentWindow;
      inside.postMessage = (data) => this.onmessage?.({ data });
      const script = inside.document.createElement("script");
      script.src = new URL(url, location).href;
      this.#loaded = new Promise((done) => (script.onload = done));
      script.onerror = (event) => this.onerror?.(event);
      inside.document.body.append(script);
    }

    postMessage(data) {
      this.#loaded.then(() => this.#frame.contentWindow.onmessage?.({ data }));
    }

    terminate() {
      this.#frame.remove();
    }
  };
}
