// What a part of the page shows without content: loading, empty, failed, forbidden.
import { h } from "./dom.js";
import { t } from "./text.js";

export const loading = () => h("p", { class: "state", role: "status" }, h("span", { class: "spinner", "aria-hidden": "true" }), t("state.loading"));

export const empty = (text) => h("div", { class: "state" }, h("p", null, text));

function forbidden(permission) {
  return h("div", { class: "state", role: "alert" },
    h("p", { class: "strong" }, t("state.forbidden")),
    h("p", null, t("state.lacks"), " ", h("code", null, permission)),
    h("p", { class: "faint" }, t("state.grant")));
}

// failed returns the error, with the request's id, and a button to try again.
export function failed(fault, retry) {
  if (fault.permission) {
    return forbidden(fault.permission);
  }
  return h("div", { class: "state", role: "alert" },
    h("p", { class: "strong" }, fault.status === 0 ? t("state.unreachable") : t("state.failed", { status: fault.status ?? "" })),
    fault.message && h("p", null, fault.message),
    fault.requestID && h("p", { class: "faint" }, t("state.request"), " ", h("code", null, fault.requestID)),
    retry && h("button", { type: "button", onclick: retry }, t("state.retry")));
}

// fill shows the result of load in an element: first that it is loading, then show(result) or the error. Of several fills of an element, the
// last one wins. With quiet, the previous content stays until the new one is loaded.
const turns = new WeakMap();
export async function fill(place, load, show, { quiet = false } = {}) {
  const turn = (turns.get(place) ?? 0) + 1;
  turns.set(place, turn);
  const mine = () => turns.get(place) === turn;
  if (!quiet) {
    place.replaceChildren(loading());
  }
  place.setAttribute("aria-busy", "true");
  try {
    const result = await load();
    if (mine()) {
      place.replaceChildren(...[show(result)].flat(Infinity).filter(Boolean));
    }
  } catch (fault) {
    if (mine() && fault.name !== "AbortError") {
      place.replaceChildren(failed(fault, () => fill(place, load, show)));
    }
  } finally {
    if (mine()) {
      place.removeAttribute("aria-busy");
    }
  }
}
