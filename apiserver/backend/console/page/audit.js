// Audit records, newest first.
import { field, h, table } from "./dom.js";
import { moment, t } from "./text.js";
import { empty, fill } from "./state.js";
import { further } from "./keys.js";
import { pageSize } from "./pager.js";
import { instant } from "./overview.js";

export function audit({ ask, query }) {
  const place = h("div");
  const text = (name) => {
    const input = h("input", { type: "text", autocomplete: "off", spellcheck: "false" });
    input.value = query.get(name) ?? "";
    return input;
  };
  const actor = text("actor");
  const action = text("action");
  const object = text("object");
  const key = text("key_id");
  const since = h("input", { type: "datetime-local", step: "1", max: "9999-12-31T23:59:59" });
  const until = h("input", { type: "datetime-local", step: "1", max: "9999-12-31T23:59:59" });
  const show = (cursor) => fill(place, () => ask("GET", "/audit", { needs: "audit:read", query: {
    limit: pageSize, cursor, actor: actor.value.trim(), action: action.value.trim(), object: object.value.trim(), key_id: key.value.trim(),
    since: since.value && instant(since.value), until: until.value && instant(until.value),
  } }), (list) => (list.data.length === 0 && !cursor ? empty(t("audit.none")) : [rows(list.data), further(list, show, cursor)]));
  // only filters the list by a value of a record.
  const only = (input, value) => h("button", { type: "button", class: "link", title: t("audit.only"), onclick: () => { input.value = value; show(); } }, value);
  const rows = (records) => table(t("nav.audit"), [
    { label: t("common.when"), class: "short", cell: (a) => moment(a.at) },
    { label: t("audit.actor"), cell: (a) => only(actor, a.actor) },
    { label: t("audit.action"), cell: (a) => only(action, a.action) },
    { label: t("audit.object"), cell: (a) => only(object, a.object) },
    { label: t("audit.detail"), cell: (a) => a.detail },
    { label: t("common.address"), cell: (a) => a.ip_address },
  ], records);
  const clear = h("button", { type: "button", onclick: () => { form.reset(); actor.value = action.value = object.value = key.value = ""; show(); } }, t("audit.clear"));
  const form = h("form", { class: "card filters", novalidate: true, "aria-label": t("audit.filters") },
    field(t("audit.actor"), actor, "key:…, user:…"), field(t("audit.action"), action, "user.disabled"), field(t("audit.object"), object, "user:…"), field(t("audit.key"), key, "5A8hQaiOJAmo"),
    field(t("audit.since"), since), field(t("audit.until"), until),
    h("div", { class: "actions" }, h("button", { type: "submit", class: "primary" }, t("audit.show")), clear));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    show();
  });
  show();
  return [form, h("section", { class: "card" }, place)];
}
