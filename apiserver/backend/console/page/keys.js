// The API keys of an app, declared and runtime keys. Runtime keys can be revoked here, declared keys where they are declared.
import { badge, field, h, table } from "./dom.js";
import { path } from "./api.js";
import { moment, t } from "./text.js";
import { empty, fill } from "./state.js";
import { announce, confirm } from "./dialog.js";
import { pageSize } from "./pager.js";

export function keys({ ask }) {
  const place = h("div", { class: "stack" });
  fill(place, () => ask("GET", "/api-auth/apps", { query: { include_inactive: true }, needs: "api_auth_apps:read" }), (list) =>
    list.apps.length === 0 ? h("div", { class: "card" }, empty(t("keys.appless"))) : ofApps(list.apps.toSorted((a, b) => a.name.localeCompare(b.name))));

  function ofApps(apps) {
    const app = h("select", null, apps.map((a) => h("option", { value: a.app_slug }, a.is_active ? a.name : t("keys.inactiveapp", { name: a.name }))));
    const all = h("input", { type: "checkbox", id: "all-keys" });
    const id = h("input", { type: "text", autocomplete: "off", spellcheck: "false" });
    const listed = h("div");
    const load = async (cursor) => (id.value.trim()
      ? { keys: [await ask("GET", path`/api-auth/apps/${app.value}/keys/${id.value.trim()}`, { needs: "api_keys:read" })], has_more: false }
      : ask("GET", path`/api-auth/apps/${app.value}/keys`, { query: { limit: pageSize, cursor, include_inactive: all.checked }, needs: "api_keys:read" }));
    const show = (cursor) => fill(listed, () => load(cursor), (found) => (found.keys.length === 0 && !cursor ? empty(t("keys.none")) : [rows(found.keys), further(found, show, cursor)]));
    const rows = (found) => table(t("nav.keys"), [
      { label: t("keys.name"), cell: (k) => [h("span", { class: "strong" }, k.name), h("p", null, h("code", { class: "faint" }, k.key_prefix + "_…" + k.key_suffix))] },
      { label: t("keys.id"), class: "short", cell: (k) => (k.key_id
        ? h("a", { href: "#/audit?key_id=" + encodeURIComponent(k.key_id), title: t("keys.audit") }, h("code", null, k.key_id)) : t("common.none")) },
      { label: t("keys.source"), cell: (k) => (k.source === "declared" ? [badge("plain", t("keys.declared")), h("p", null, h("code", { class: "faint" }, k.resource))] : badge("plain", t("keys.runtime"))) },
      { label: t("common.state"), class: "short", cell: (k) => (k.is_active ? badge("good", t("keys.active")) : badge("bad", k.revoked_at ? t("keys.revoked") : t("keys.expired"))) },
      { label: t("keys.permissions"), cell: (k) => (k.permissions.length === 0 ? t("common.none") : k.permissions.map((p) => h("code", { class: "item" }, p))) },
      { label: t("keys.used"), class: "short", cell: (k) => (k.source === "declared" ? t("keys.untold") : moment(k.last_used_at)) },
      { label: t("keys.expires"), class: "short", cell: (k) => moment(k.expires_at) },
      { label: t("common.actions"), class: "short", cell: (k) => (k.source === "runtime" && k.is_active
        ? h("button", { type: "button", class: "danger", "aria-label": t("keys.revoke.of", { name: k.name }), onclick: () => revoke(k) }, t("keys.revoke")) : null) },
    ], found);
    const revoke = async (k) => {
      const reason = h("input", { type: "text", maxlength: "500", autocomplete: "off" });
      const done = await confirm({
        title: t("keys.revoke"), text: t("keys.revoke.text", { name: k.name }), label: t("keys.revoke"), danger: true, input: field(t("keys.reason"), reason),
        act: () => ask("POST", path`/api-auth/apps/${k.app_slug}/keys/${k.id}/revoke`, { body: reason.value.trim() ? { reason: reason.value.trim() } : {}, needs: "api_keys:write" }),
      });
      if (done) {
        announce(t("keys.revoke.done", { name: k.name }));
        await show();
        app.focus();
      }
    };
    app.addEventListener("change", () => show());
    id.addEventListener("change", () => show());
    all.addEventListener("change", () => show());
    show();
    return [
      h("div", { class: "filters" }, field(t("keys.app"), app), field(t("keys.id"), id, "5A8hQaiOJAmo"), h("div", { class: "check" }, all, h("label", { for: all.id }, t("keys.all")))),
      h("section", { class: "card" }, listed),
    ];
  }
  return place;
}

// further returns the links of a list with a cursor: to the next page, and to the first.
export function further(list, show, cursor) {
  if (!list.has_more && !cursor) {
    return null;
  }
  return h("nav", { class: "pages", "aria-label": t("list.pages") },
    h("button", { type: "button", disabled: !cursor, onclick: () => show() }, t("list.first")),
    h("button", { type: "button", disabled: !list.has_more, onclick: () => show(list.next_cursor) }, t("list.older")));
}
