// Confirmation of actions that cannot be undone or that affect users immediately.
import { field, h, newID } from "./dom.js";
import { failed } from "./state.js";
import { t } from "./text.js";

// confirm shows a dialog and calls act when the user confirms. The dialog closes when act is done, and shows its error otherwise. If `type`
// is set, the user must type it first. The promise resolves to true if act was done.
export function confirm({ title, text, label, danger, type, input, act }) {
  const problem = h("div", { "aria-live": "polite" });
  const typed = type && h("input", { type: "text", autocomplete: "off", autocapitalize: "none", spellcheck: "false" });
  const go = h("button", { type: "submit", class: danger ? "danger primary" : "primary", disabled: Boolean(type) }, label);
  const stop = h("button", { type: "button", onclick: () => dialog.close() }, t("common.cancel"));
  typed?.addEventListener("input", () => { go.disabled = typed.value.trim() !== type; });
  const heading = h("h2", { id: newID() }, title);
  const form = h("form", { method: "dialog" }, heading, h("p", null, text),
    typed && field(t("common.type", { text: type }), typed), input, problem, h("div", { class: "actions" }, stop, go));
  const dialog = h("dialog", { "aria-labelledby": heading.id }, form);
  let done = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (go.disabled) {
      return;
    }
    go.disabled = stop.disabled = true;
    try {
      await act();
      done = true;
      dialog.close();
    } catch (fault) {
      problem.replaceChildren(failed(fault));
      go.disabled = stop.disabled = false;
    }
  });
  const before = document.activeElement;
  document.body.append(dialog);
  dialog.showModal();
  (typed ?? stop).focus();
  return new Promise((resolve) => dialog.addEventListener("close", () => {
    dialog.remove();
    if (before?.isConnected) {
      before.focus();
    }
    resolve(done);
  }));
}

// announce shows what was done, also to screen readers.
let line;
export function announce(text) {
  if (!line?.isConnected) {
    line = h("div", { class: "announcement", role: "status" });
    document.body.append(line);
  }
  line.replaceChildren(h("p", { class: "card" }, text));
  const said = line.firstChild;
  setTimeout(() => said.remove(), 6000);
}
