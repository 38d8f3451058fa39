// The form for a token, where the node wants one. Only the tab's own storage keeps it.

import { say } from "./dom.js";

export class Login {
  /** ``entered`` is told when a token was given, ``left`` when it is to be forgotten. */
  constructor(api, entered, left) {
    this.api = api;
    this.form = document.getElementById("login");
    this.field = document.getElementById("token");
    this.leave = document.getElementById("leave");
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      api.use(this.field.value.trim());
      this.field.value = "";
      this.form.hidden = true;
      this.leave.hidden = false;
      entered();
      document.getElementById("main").focus({ preventScroll: true });
    });
    this.leave.addEventListener("click", () => left());
    this.leave.hidden = !api.token;
  }

  /** Show the form; ``why`` the token there was is not good any more. */
  ask(why) {
    this.api.use("");
    for (const id of ["layout", "lost", "leave"]) document.getElementById(id).hidden = true;
    say(document.getElementById("login-error"), why);
    this.form.hidden = false;
    this.field.focus();
  }
}
